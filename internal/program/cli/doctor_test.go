package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/local/pgtest"
)

// wellService returns a service that passes the doctor's checks.
func wellService(t *testing.T, clock time.Duration) *service {
	t.Helper()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":[]}`) })
	signed := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(clock).UTC().Format(http.TimeFormat))
		switch r.URL.Path {
		case "/healthz":
			fmt.Fprint(w, `{"status":"alive"}`)
		case "/readyz":
			fmt.Fprint(w, `{"status":"ready","checks":[]}`)
		default:
			signed.ServeHTTP(w, r)
		}
	})
	return s
}

// doctor runs the command without network access, so that nothing leaves this machine.
func doctor(t *testing.T, environ []string, args ...string) result {
	t.Helper()
	return run(t, environ, "", append([]string{"doctor", "--egress-url=https://127.0.0.1:1/"}, args...)...)
}

func TestDoctorPassesACorrectSetup(t *testing.T) {
	s := wellService(t, 0)
	dir := t.TempDir()
	address := s.Listener.Addr().String()
	environ := append(s.environ(), "DATABASE_URL="+pgtest.DSN(t), "WEFT_MASTER_KEY=5tM3cJtqCxq1yKq2n0Hn1cP0D6bV4o8oUu0cVw7wQ2A=")
	got := doctor(t, environ, "--data-dir="+dir, "--addr="+address, "--ops-addr=127.0.0.1:0")
	for _, want := range []string{
		"contains a valid key", "answers, version", "no audit has run yet", "the schema matches this binary", address + " is served by a Weft",
		"127.0.0.1:0 is free", "ready at " + s.URL, "the clock agrees with the clock of the service", "accepted: workspace", "cannot be reached (blocked_address)",
	} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if got.code != 0 || strings.Contains(got.stdout, "WRONG") {
		t.Errorf("code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

func TestDoctorChecksTheAddressesOfServe(t *testing.T) {
	environ := []string{"DATABASE_URL=postgres://127.0.0.1:1/x", "WEFT_ADDR=127.0.0.1:8431", "WEFT_OPS_ADDR=127.0.0.1:8432"}
	run(t, environ, "", "doctor", "--help").check(t, 0, "(127.0.0.1:8431)", "")
	run(t, environ, "", "doctor", "--help").check(t, 0, "(127.0.0.1:8432)", "")
	run(t, environ[1:], "", "doctor", "--help").check(t, 0, "(127.0.0.1:8080)", "") // weft dev has flags for them
}

func TestDoctorReportsErrorsAndFixes(t *testing.T) {
	foreign := httptest.NewServer(http.NotFoundHandler())
	defer foreign.Close()
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			fmt.Fprint(w, `{"status":"alive"}`)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"detail":"not ready","errors":[{"code":"UNAVAILABLE","message":"is failing","pointer":"/checks/quarantine"},{"code":"UNAVAILABLE","message":"is failing","pointer":"/checks/workers"}]}`)
	}))
	defer failing.Close()
	held := pgtest.DSN(t)
	run(t, []string{"DATABASE_URL=" + held}, "", "quarantine", "begin", "--reason=restored").check(t, 0, "", "is in quarantine")

	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	weak := filepath.Join(dir, "weak")
	if err := os.Mkdir(weak, 0o700); err != nil {
		t.Fatal(err)
	}
	write("weak/master.key", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", 0o600)
	write("master.key", "5tM3cJtqCxq1yKq2n0Hn1cP0D6bV4o8oUu0cVw7wQ2A=", 0o644)
	file := write("file", "", 0o600)
	behind := wellService(t, time.Minute)
	stranger := wellService(t, 0)
	var credentials map[string]string
	text, _ := os.ReadFile(stranger.credentials)
	_ = json.Unmarshal(text, &credentials)
	credentials["apiKey"] = "ws_other"
	text, _ = json.Marshal(credentials)
	other := write("credentials.json", string(text), 0o644)

	cases := []struct {
		name    string
		environ []string
		args    []string
		want    []string
	}{
		{"master key missing", []string{"DATABASE_URL=postgres://127.0.0.1:1/x"}, nil, []string{"WEFT_MASTER_KEY is not set", "openssl rand"}},
		{"unknown setting", []string{"WEFT_ADRR=127.0.0.1:1"}, nil, []string{"WEFT_ADRR: unknown setting", "unset"}},
		{"setting out of range", []string{"WEFT_TIMESTAMP_LEEWAY=1h"}, nil, []string{"WEFT_TIMESTAMP_LEEWAY: must be"}},
		{"connections beyond the descriptor limit", []string{"WEFT_CONNECTIONS=1000000"}, nil, []string{"WEFT_CONNECTIONS: the file descriptor limit of "}},
		{"database gone", []string{"DATABASE_URL=postgres://127.0.0.1:1/x"}, nil, []string{"cannot connect", "check host"}},
		{"database address", []string{"DATABASE_URL=mysql://x"}, nil, []string{"use the form"}},
		{"transaction pooler", []string{"DATABASE_URL=" + pgtest.NewPooler(t, pgtest.DSN(t), pgtest.PoolTransactions).DSN}, nil, []string{"pool_mode = session", "Connection poolers"}},
		{"pooler that rejects settings", []string{"DATABASE_URL=" + pgtest.NewPooler(t, pgtest.DSN(t), pgtest.RefuseSettings).DSN}, nil, []string{"ignore_startup_parameters = "}},
		{"schema", []string{"DATABASE_URL=" + pgtest.ServerDSN(t)}, nil, []string{"schema version 0", "weft migrate"}},
		{"weak key", nil, []string{"--data-dir=" + weak}, []string{"weak/master.key: "}},
		{"open key file", nil, []string{"--data-dir=" + dir}, []string{"can be read by other users", "chmod 600"}},
		{"data folder", nil, []string{"--data-dir=" + file}, []string{"is not a folder"}},
		{"port taken", nil, []string{"--ops-addr=" + foreign.Listener.Addr().String()}, []string{"address already in use", "--ops-addr"}},
		{"port of serve taken", []string{"DATABASE_URL=postgres://127.0.0.1:1/x", "WEFT_ADDR=127.0.0.1:1"}, []string{"--addr=" + foreign.Listener.Addr().String()}, []string{"address already in use", "WEFT_ADDR and WEFT_OPS_ADDR"}},
		{"nothing served", []string{"DATABASE_URL=postgres://127.0.0.1:1/x"}, nil, []string{"start the service: weft serve", "weft keys create --workspace NAME"}},
		{"not ready", nil, []string{"--addr=" + foreign.Listener.Addr().String()}, []string{"answers /readyz with 404"}},
		{"checks failing", nil, []string{"--addr=" + failing.Listener.Addr().String()}, []string{
			`503: the check "quarantine" is failing`, "weft quarantine release releases", `503: the check "workers" is failing`, "see the log of the service",
		}},
		{"quarantine", []string{"DATABASE_URL=" + held}, nil, []string{"the database is in quarantine since 20", ": restored", "weft quarantine release releases"}},
		{"clock", behind.environ(), nil, []string{"this machine is -60 s ahead", "NTP"}},
		{"credentials", nil, []string{"--credentials=" + other}, []string{"can be read by other users", "invalid_credentials", "weft keys create"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"--addr=127.0.0.1:0", "--ops-addr=127.0.0.1:0", "--data-dir=" + filepath.Join(dir, "none")}, c.args...)
			got := doctor(t, c.environ, args...)
			if got.code != 1 || !strings.Contains(got.stdout, "WRONG") {
				t.Errorf("code %d\n%s", got.code, got.stdout)
			}
			for _, want := range c.want {
				if !strings.Contains(got.stdout, want) {
					t.Errorf("the output lacks %q:\n%s", want, got.stdout)
				}
			}
		})
	}
}
