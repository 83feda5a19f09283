package cli_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const executionID = "019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e"

// record returns an execution record in a state.
func record(state, output, failure string) string {
	return `{"id":"` + executionID + `","module":"M","status":"` + state + `","completed":false,"output":` + output + `,"error":` + failure +
		`,"totalUsage":1.5,"callback":{"url":null,"signed":false,"signatureAlgorithm":null,"headerNames":[],"lastAttemptAt":null,` +
		`"deliveredAt":null,"attemptCount":0,"lastError":null},"createdAt":"2026-11-21T10:15:30.123Z","updatedAt":"2026-11-21T10:15:30.123Z"}`
}

func streamEvent(name, state string) string {
	return name + `data: {"id":"` + executionID + `","module":"M","status":"` + state +
		`","output":null,"error":null,"totalUsage":0,"timestamp":"2026-11-21T10:15:30.123Z"}` + "\n\n"
}

func TestCallPrintsTheRecord(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, record("COMPLETED", `{"n":1e400}`, "null"))
	})
	got := run(t, s.environ(), "", "call", "M", "-o", "json", "--input", `{ "a": "<é>" }`)
	got.check(t, 0, "\"n\": 1e400", "COMPLETED in")
	if want := `POST /v1/sdk/components {"config":{},"input":{"a":"<é>"},"module":"M","waitForMs":15000}`; s.seen()[0] != want {
		t.Errorf("sent %s, want %s", s.seen()[0], want)
	}
	if strings.Contains(got.stdout, "COMPLETED in") || !strings.HasPrefix(got.stdout, "{\n") {
		t.Errorf("stdout is not the record alone: %s", got.stdout)
	}
}

func TestIgnoredPartsOfARequestAreAWarning(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Weft-Ignored", `"limt", "/waitForMS", more`)
		fmt.Fprint(w, record("COMPLETED", `{}`, "null"))
	})
	run(t, s.environ(), "", "call", "M", "-o", "json").check(t, 0, `"COMPLETED"`, `ignored them: "limt", "/waitForMS", more. Check the spelling`)
	run(t, s.environ(), "", "hooks", "delete", hookID).check(t, 0, "", `ignored them: "limt", "/waitForMS", more.`)
}

func TestCallSendsItsFlags(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, record("CREATED", "null", "null")) })
	file := filepath.Join(t.TempDir(), "input.json")
	if err := os.WriteFile(file, []byte("{\n \"from\": \"file\"\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		args []string
		want string
	}{
		{[]string{"--wait=0s"}, `{"config":{},"input":{},"module":"M"}`},
		{[]string{"--wait=250ms", "--attempts=3"}, `{"attempts":3,"config":{},"input":{},"module":"M","waitForMs":250}`},
		{[]string{"--wait=0s", "--input=@" + file}, `{"config":{},"input":{"from":"file"},"module":"M"}`},
		{[]string{"--wait=0s", "--input=-", "--config", `{"k":1}`}, `{"config":{"k":1},"input":{"from":"stdin"},"module":"M"}`},
		{
			[]string{"--wait=0s", "--callback-url=https://x.example/", "--callback-secret=s"},
			`{"callbackSecret":"s","callbackUrl":"https://x.example/","config":{},"input":{},"module":"M"}`,
		},
	}
	for i, c := range cases {
		run(t, s.environ(), `{"from":"stdin"}`, append([]string{"call", "M", "-o", "json"}, c.args...)...).check(t, 0, "CREATED", "the execution continues")
		if got := s.seen()[i]; got != "POST /v1/sdk/components "+c.want {
			t.Errorf("%v: sent %s, want %s", c.args, got, c.want)
		}
	}
}

func TestCallReconnectsABrokenStream(t *testing.T) {
	streams := 0
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			fmt.Fprint(w, record("CREATED", "null", "null"))
		case strings.HasSuffix(r.URL.Path, "/stream"):
			if streams++; streams == 1 {
				fmt.Fprint(w, streamEvent("event: progress\n", "EXECUTING"))
				return // breaks off
			}
			fmt.Fprint(w, ":ping\n\n"+streamEvent("event: progress\n", "EXECUTING")+streamEvent("", "FAILED"))
		default:
			fmt.Fprint(w, record("FAILED", "null", `{"code":"TIMEOUT","message":"too slow","retryable":true,"attempt":1}`))
		}
	})
	got := run(t, s.environ(), "", "call", "M", "--stream", "-o", "json")
	got.check(t, 1, `"code": "TIMEOUT"`, "FAILED after")
	if n := strings.Count(got.stderr, "EXECUTING"); n != 1 {
		t.Errorf("EXECUTING is printed %d times: %s", n, got.stderr)
	}
	want := []string{
		`POST /v1/sdk/components {"config":{},"input":{},"module":"M"}`,
		"GET /v1/sdk/components/executions/" + executionID + "/stream",
		"GET /v1/sdk/components/executions/" + executionID + "/stream",
		"GET /v1/sdk/components/executions/" + executionID,
	}
	if !slices.Equal(s.seen(), want) {
		t.Errorf("requests %q", s.seen())
	}
}

func TestCallReportsErrors(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"code":"INVALID_INPUT","detail":"the input is not valid","status":422,"requestId":"r-1","errors":[{"code":"C","message":"is missing","pointer":"/input/data"}]}`)
	})
	stranger := filepath.Join(t.TempDir(), "other.json")
	text, _ := os.ReadFile(s.credentials)
	if err := os.WriteFile(stranger, []byte(strings.Replace(string(text), "ws_test", "ws_other", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(broken, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name string
		args []string
		code int
		want string
	}{
		{"problem", nil, 6, "input.data: is missing"},
		{"not JSON", []string{"--input={a:1}"}, 2, "--input: a field must start"},
		{"not an object", []string{"--config=[]"}, 2, "must be a JSON object"},
		{"no file", []string{"--input=@/nowhere.json"}, 2, "no such file"},
		{"many attempts", []string{"--attempts=9"}, 2, "--attempts must be 1 to 3, got 9"},
		{"long wait", []string{"--wait=16s"}, 2, "--stream waits until"},
		{"no credentials", []string{"--credentials=/nowhere.json"}, 3, "start `weft dev` here"},
		{"other credentials", []string{"--credentials=" + stranger}, 3, "belongs to another Weft"},
		{"broken credentials", []string{"--credentials=" + broken}, 3, "does not have the form"},
		{"nobody there", []string{"--base-url=http://127.0.0.1:1"}, 5, "no Weft answers at http://127.0.0.1:1 (connection refused). Start one with: weft dev"},
		{"base URL with a path", []string{"--base-url=http://127.0.0.1/v1/sdk"}, 2, "must end before /v1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := run(t, s.environ(), "", append([]string{"call", "M"}, c.args...)...)
			got.check(t, c.code, "", c.want)
			if got.stdout != "" || strings.Contains(got.stderr, "hunter2") {
				t.Errorf("stdout %q, stderr %q", got.stdout, got.stderr)
			}
		})
	}
}

func TestCallExplainsHowToAllowANetwork(t *testing.T) {
	for reason, told := range map[string]bool{"the host must have public addresses only": true, "the scheme must be https": true, "must not have a fragment": false} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"code":"INVALID_INPUT","status":400,"detail":"callbackUrl: %[1]s","errors":[{"code":"INVALID_INPUT","message":"callbackUrl: %[1]s","pointer":"/callbackUrl"}]}`, reason)
		})
		got := run(t, s.environ(), "", "call", "M", "--callback-url=http://127.0.0.1:9000/")
		got.check(t, 6, "", reason)
		if strings.Contains(got.stderr, "weft dev --allow-network CIDR") != told {
			t.Errorf("%s: unexpected output %s", reason, got.stderr)
		}
	}
}
