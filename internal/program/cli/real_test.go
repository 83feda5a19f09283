package cli_test

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/local/pgtest"
)

// startWeft runs weft dev on a test database and returns the environment with which other commands
// find it.
func startWeft(t *testing.T, flags ...string) (environ []string, baseURL string) {
	t.Helper()
	dir, dsn := t.TempDir(), pgtest.DSN(t)
	lines, stop := background(t, nil, append([]string{"dev", "--addr=127.0.0.1:0", "--ops-addr=127.0.0.1:0", "--proxy-addr=127.0.0.1:0", "--data-dir=" + dir, "--database-url=" + dsn}, flags...)...)
	credentials := filepath.Join(dir, "credentials.json")
	tick, late := time.NewTicker(20*time.Millisecond), waittest.Context(t).Done()
	defer tick.Stop()
	for {
		select {
		case line, running := <-lines:
			if !running {
				t.Fatalf("weft dev exited: %+v", stop())
			}
			t.Log(line)
		case <-late:
			t.Fatal("weft dev is not ready after two minutes")
		case <-tick.C:
			c, err := client.ReadCredentials(credentials)
			if err != nil {
				continue
			}
			if answer, err := http.Get(c.BaseURL + "/readyz"); err == nil {
				answer.Body.Close()
				if answer.StatusCode == http.StatusOK {
					return []string{"WEFT_CREDENTIALS=" + credentials, "DATABASE_URL=" + dsn}, c.BaseURL
				}
			}
		}
	}
}

// behindPrefix returns a base URL with a path, which a proxy removes before forwarding to the
// service.
func behindPrefix(t *testing.T, baseURL string) string {
	t.Helper()
	direct, err := url.Parse(baseURL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(direct) }}
	server := httptest.NewServer(http.StripPrefix("/weft", proxy))
	t.Cleanup(server.Close)
	return server.URL + "/weft"
}

func TestCallProxyAndKeysOnTheRealService(t *testing.T) {
	environ, baseURL := startWeft(t)
	prefixed := behindPrefix(t, baseURL)

	for _, how := range []string{"--wait=15s", "--stream"} {
		run(t, environ, "", "call", "RANDOM_UUID", how).check(t, 0, `"uuid": "`, "COMPLETED in")
	}
	run(t, environ, "", "call", "RANDOM_UUID", "--stream", "--base-url="+prefixed).check(t, 0, `"uuid": "`, "COMPLETED in")
	run(t, environ, "", "call", "HASH").check(t, 6, "", "input.data")
	run(t, environ, "", "call", "HASHH").check(t, 4, "", "did you mean HASH?")

	// A separate key for the proxy, which is revoked later.
	own := filepath.Join(t.TempDir(), "own.json")
	made := run(t, environ, "", "keys", "create", "--out="+own, "--base-url="+prefixed)
	made.check(t, 0, "", "Key ")
	_, after, _ := strings.Cut(made.stderr, "Key ")
	keyID, _, _ := strings.Cut(after, " ")
	address, _ := startProxy(t, &service{credentials: own})
	answer, err := http.Post("http://"+address+"/v1/sdk/components", "application/json",
		strings.NewReader(`{"module": "RANDOM_HEX", "input": {"bytes": 2}, "config": {}}`))
	if err != nil {
		t.Fatal(err)
	}
	var record struct{ ID, Status string }
	err = json.NewDecoder(answer.Body).Decode(&record)
	answer.Body.Close()
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("through the proxy: %d, %v", answer.StatusCode, err)
	}
	stream, err := http.Get("http://" + address + "/v1/sdk/components/executions/" + record.ID + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	var last string
	for scanner := bufio.NewScanner(stream.Body); scanner.Scan(); {
		if data, ok := strings.CutPrefix(scanner.Text(), "data: "); ok {
			last = data
		}
	}
	if !strings.Contains(last, `"status":"COMPLETED"`) {
		t.Errorf("the last event through the proxy is %q", last)
	}

	run(t, environ, "", "keys", "revoke", keyID).check(t, 0, "", "is revoked")
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); ; <-tick.C {
		asked := time.Now()
		answer, err := http.Get("http://" + address + "/v1/sdk/components")
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode == http.StatusUnauthorized {
			break
		}
		if asked.Sub(start) > time.Second {
			t.Fatal("a revoked key is still accepted after a second")
		}
	}
}

func TestExamplesRunOnTheRealService(t *testing.T) {
	environ, _ := startWeft(t)
	got := run(t, environ, "", "run", "fanOut", "--watch")
	got.check(t, 0, `"3120.55",`, "COMPLETED in")
	for _, want := range []string{"API_CALL       COMPLETED  x4 ", "FOR_EACH       COMPLETED  ", `"USDC"`} {
		if !strings.Contains(got.stdout+got.stderr, want) {
			t.Errorf("the output lacks %q: %s%s", want, got.stdout, got.stderr)
		}
	}
	text, err := os.ReadFile(strings.TrimPrefix(environ[0], "WEFT_CREDENTIALS="))
	if err != nil {
		t.Fatal(err)
	}
	stranger := filepath.Join(t.TempDir(), "stranger.json")
	if err := os.WriteFile(stranger, []byte(strings.Replace(string(text), `"ws_`, `"ws_x`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, environ, "", "call", "RANDOM_UUID", "--credentials="+stranger).check(t, 3, "", "The key belongs to another Weft, was revoked")
	begun := run(t, environ, "", "workflows", "run", "approval", `--input={"amount":"1000"}`, "-o", "json")
	var accepted struct{ RunID string }
	if err := json.Unmarshal([]byte(begun.stdout), &accepted); err != nil {
		t.Fatal(err, begun.stderr)
	}
	run(t, environ, "", "workflows", "signal", accepted.RunID, "approved", `--payload={"by":"ada"}`, "-o", "json").check(t, 0, `"by": "ada"`, "")
	run(t, environ, "", "workflows", "watch", accepted.RunID).check(t, 0, `"amount": "1000"`, "COMPLETED in")
	run(t, environ, "", "workflows", "runs", "--workflow=approval").check(t, 0, accepted.RunID, "")
	run(t, environ, "", "workflows", "list").check(t, 0, "\nFan-out ", "")
	run(t, environ, "", "runs", "rerun", accepted.RunID, "--watch").check(t, 0, `"amount": "1000"`, "COMPLETED in")
	run(t, environ, "", "workflows", "pause", "fanOut").check(t, 0, "Status       PAUSED\n", "")
	run(t, environ, "", "run", "fanOut").check(t, 6, "", "paused")
	run(t, environ, "", "workflows", "archive", "fanOut").check(t, 0, "Status       ARCHIVED\n", "")
	run(t, environ, "", "workflows", "resume", "fanOut").check(t, 0, "Status       ACTIVE\n", "")
	run(t, environ, "", "workflows", "quote", "fanOut").check(t, 0, "Minimum credits  ", "")
	run(t, environ, "", "executions", "list").check(t, 0, "", "No executions")
}

// The code of a contract that rejects every payment.
const refuses = "0x6460006000fd6000526005601bf3"

func TestChainExamplesRunOnARealChain(t *testing.T) {
	t.Parallel()
	environ, baseURL := startWeft(t, "--chain")
	listed := run(t, environ, "", "env", "list")
	listed.check(t, 0, "DEV_CHAIN_URL  http://", "")
	_, after, _ := strings.Cut(listed.stdout, "http://")
	address, _, _ := strings.Cut(after, " ")
	call := func(method, params string) string {
		t.Helper()
		answer, err := http.Post("http://"+address, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var result struct{ Result json.RawMessage }
		if err := json.NewDecoder(answer.Body).Decode(&result); err != nil || result.Result == nil {
			t.Fatal(method, err)
		}
		return string(result.Result)
	}
	created := call("eth_sendTransaction", `[{"from":"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266","data":"`+refuses+`"}]`)

	got := run(t, environ, "", "workflows", "run", "chainWatch", "--watch")
	got.check(t, 0, `"after": "10000100000000000000000"`, "COMPLETED in")
	for _, want := range []string{`"before": "10000000000000000000000"`, "WAIT_FOR_EVM_TRANSACTION  COMPLETED", `"transactionHash": "0x`} {
		if !strings.Contains(got.stdout+got.stderr, want) {
			t.Errorf("the output lacks %q: %s%s", want, got.stdout, got.stderr)
		}
	}
	var mined struct{ ContractAddress string }
	if err := json.Unmarshal([]byte(call("eth_getTransactionReceipt", "["+created+"]")), &mined); err != nil || mined.ContractAddress == "" {
		t.Fatal(mined, err)
	}
	got = run(t, environ, "", "workflows", "run", "chainWatch", "--watch", `--input={"to":"`+mined.ContractAddress+`"}`)
	got.check(t, 1, "", "FAILED at reverted")
	got.check(t, 1, "", "PAYMENT_REVERTED")

	got = run(t, environ, "", "workflows", "run", "payout", "--watch", `--input={"recipients":[{"to":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8","amount":"0.25"},{"to":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC","amount":"0.000000000000000001"}]}`)
	got.check(t, 0, `"balance": "10000350000000000000000"`, "COMPLETED in")
	for _, want := range []string{`"balance": "10000000000000000000001"`, "SIGN_EVM_TRANSACTION       COMPLETED  x2", `"status": "success"`} {
		if !strings.Contains(got.stdout+got.stderr, want) {
			t.Errorf("the output lacks %q: %s%s", want, got.stdout, got.stderr)
		}
	}
	got = run(t, environ, "", "workflows", "run", "payout", "--watch", `--input={"recipients":[{"to":"`+mined.ContractAddress+`","amount":"1"}]}`)
	got.check(t, 1, "", "build: UPSTREAM_ERROR: execution reverted")
	got = run(t, environ, "", "workflows", "run", "payout", "--watch", `--input={"recipients":[{"to":"0x90F79bf6EB2c4f870365E785982E1f101E93b906","amount":"1"},{"to":"`+mined.ContractAddress+`","amount":"1"},{"to":"0x90F79bf6EB2c4f870365E785982E1f101E93b906","amount":"1"}]}`)
	got.check(t, 1, "", "\nbuild: COMPLETED for item 0; FAILED for item 1\n")
	got.check(t, 1, "", "\nmined: COMPLETED for item 0\n")
	got.check(t, 1, "", "the item at index 1 failed")
	run(t, environ, "", "workflows", "run", "payout", "--watch", `--input={"recipient":[]}`).check(t, 6, "", "recipients")
	recipe := filepath.Join(t.TempDir(), "payment.yaml")
	run(t, environ, "", "workflows", "new", "--from=payment", recipe).check(t, 0, "", "written")
	run(t, environ, "", "workflows", "run", recipe, "--watch", `--input={"to":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8","amount":"0.25"}`).check(t, 0, `"status": "success"`, "COMPLETED in")
	if _, ran := newWorkshop(t, environ).runAll(t, guideBlocks(t, baseURL, "chain")); ran != 2 {
		t.Errorf("%d commands of the guide ran", ran)
	}
}

func TestVariablesOnTheRealService(t *testing.T) {
	t.Parallel()
	environ, _ := startWeft(t)
	run(t, environ, "a secret value\n", "env", "set", "TOKEN", "--secret", "--description=of X").check(t, 0, "", "TOKEN is set, secret.")
	run(t, environ, "", "env", "set", "ADDRESS", "https://a.example").check(t, 0, "", "ADDRESS is set.")
	run(t, environ, "", "env", "set", "lower", "x").check(t, 2, "", "weft: ")
	listed := run(t, environ, "", "env", "list")
	listed.check(t, 0, "  https://a.example  ", "")
	listed.check(t, 0, "\nTOKEN                       value  yes ", "")
	if strings.Contains(listed.stdout, "a secret value") || strings.Contains(listed.stdout, "DEV_CHAIN_URL") {
		t.Errorf("unexpected output %s", listed.stdout)
	}
	run(t, environ, "", "env", "unset", "TOKEN").check(t, 0, "", "TOKEN is deleted")
	run(t, environ, "", "env", "unset", "TOKEN").check(t, 4, "", "NOT_FOUND")
}

func TestSchedulesAndHooksOnTheRealService(t *testing.T) {
	t.Parallel()
	environ, baseURL := startWeft(t)
	var saved, made struct{ ID, Path string }
	read := func(got result, into any) {
		t.Helper()
		if err := json.Unmarshal([]byte(got.stdout), into); err != nil {
			t.Fatal(err, got.stderr)
		}
	}
	read(run(t, environ, `{"name": "one", "components": [{"id": "id", "module": "RANDOM_UUID"}]}`, "workflows", "push", "-", "-o", "json"), &saved)

	read(run(t, environ, "", "schedules", "create", saved.ID, "0 9 * * *", "--time-zone=Europe/Berlin", "--overlap=queue", "--name=Work", "-o", "json"), &made)
	run(t, environ, "", "schedules", "pause", made.ID).check(t, 0, "PAUSED", "")
	run(t, environ, "", "schedules", "list", "--workflow="+saved.ID).check(t, 0, "\nWork  one       PAUSED  0 9 * * *  Europe/Berlin", "")
	run(t, environ, "", "schedules", "resume", made.ID).check(t, 0, "ACTIVE", "")
	run(t, environ, "", "schedules", "create", saved.ID, "never").check(t, 6, "", "must be five fields (minute, hour")
	run(t, environ, "", "schedules", "delete", made.ID).check(t, 0, "", "is deleted")
	run(t, environ, "", "schedules", "delete", made.ID).check(t, 4, "", "NOT_FOUND")

	created := run(t, environ, "correct-horse-battery\n", "hooks", "create", saved.ID, "--header=X-Mac", "--name=Pulls", "-o", "json")
	read(created, &made)
	created.check(t, 0, "", "deliveries go to "+baseURL+made.Path)
	deliver := func() int {
		t.Helper()
		mac := hmac.New(sha256.New, []byte("correct-horse-battery"))
		mac.Write([]byte("{}"))
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, baseURL+made.Path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Mac", hex.EncodeToString(mac.Sum(nil)))
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	if got := deliver(); got != http.StatusOK {
		t.Errorf("a delivery got status %d", got)
	}
	run(t, environ, "", "hooks", "pause", made.ID).check(t, 0, "PAUSED", "")
	if got := deliver(); got != http.StatusConflict {
		t.Errorf("a delivery to a paused hook got status %d", got)
	}
	listed := run(t, environ, "", "hooks", "list")
	listed.check(t, 0, " hook_paused  1 ", "")
	if strings.Contains(listed.stdout+created.stdout+created.stderr, "correct-horse") {
		t.Error("the output contains the secret")
	}
	run(t, environ, "", "workflows", "runs", "--workflow="+saved.ID).check(t, 0, "  WEBHOOK  ", "")
	run(t, environ, "", "hooks", "delete", made.ID).check(t, 0, "", "is deleted")
}

func TestDoctorOnTheRealService(t *testing.T) {
	environ, baseURL := startWeft(t)
	own, err := os.ReadFile(filepath.Join(filepath.Dir(strings.TrimPrefix(environ[0], "WEFT_CREDENTIALS=")), "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	key := "WEFT_MASTER_KEY=" + strings.TrimSpace(string(own))
	address := strings.TrimPrefix(baseURL, "http://")
	got := doctor(t, append(environ, key), "--addr="+address, "--ops-addr=127.0.0.1:0")
	for _, want := range []string{"is served by a Weft", "ready at", "accepted: workspace", "agrees with", "decrypts the stored values"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if got.code != 0 {
		t.Error(got.stdout, got.stderr)
	}
	// A callback whose secrets are under a lost key.
	run(t, environ, "", "call", "RANDOM_UUID").check(t, 0, "", "COMPLETED")
	conn, err := pgx.Connect(t.Context(), strings.TrimPrefix(environ[1], "DATABASE_URL="))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), `INSERT INTO callbacks (workspace_id, execution_id, url, sealed, signed, created_at)
		SELECT workspace_id, id, 'https://a.example', '\x010432303235ff'::bytea, true, now() FROM component_executions LIMIT 1`); err != nil {
		t.Fatal(err)
	}
	got = doctor(t, append(environ, key), "--addr="+address, "--ops-addr=127.0.0.1:0")
	got.check(t, 1, "values are encrypted with the master key 2025,", "must be fixed")
	got.check(t, 1, "WEFT_MASTER_KEYS_OLD", "")
}
