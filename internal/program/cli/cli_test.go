package cli_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/program/cli"
)

// result is the outcome of a command.
type result struct {
	code           int
	stdout, stderr string
}

// run runs a command like a shell, with the arguments after the word weft.
func run(t *testing.T, environ []string, stdin string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := cli.Run(t.Context(), cli.Process{
		Args: args, Environ: environ, Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr,
	})
	return result{code, stdout.String(), stderr.String()}
}

// check reports what differs from the expected result.
func (r result) check(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	if r.code != code || !strings.Contains(r.stdout, stdout) || !strings.Contains(r.stderr, stderr) {
		t.Errorf("code %d, stdout %q, stderr %q; want code %d, %q and %q", r.code, r.stdout, r.stderr, code, stdout, stderr)
	}
}

// service is a fake Weft. It verifies signatures with its own code, and records the accepted
// requests.
type service struct {
	*httptest.Server
	public      ed25519.PublicKey
	credentials string // the file's path

	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
}

func serve(t *testing.T, answer http.HandlerFunc) *service {
	t.Helper()
	private := ed25519.NewKeyFromSeed(make([]byte, 32))
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	s := &service{public: private.Public().(ed25519.PublicKey), credentials: filepath.Join(t.TempDir(), "credentials.json")}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !s.signed(r, body) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"code":"UNAUTHORIZED","reason":"invalid_credentials","detail":"no","status":401}`)
			return
		}
		s.mu.Lock()
		s.requests, s.bodies = append(s.requests, r), append(s.bodies, string(body))
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	text, _ := json.Marshal(map[string]string{
		"baseUrl": s.URL, "workspaceId": "019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e",
		"apiKey": "ws_test", "apiSecret": base64.StdEncoding.EncodeToString(der),
	})
	if err := os.WriteFile(s.credentials, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *service) signed(r *http.Request, body []byte) bool {
	text := string(body)
	if text == "" {
		text = "{}"
	}
	message := strings.Join([]string{r.Method, r.RequestURI, r.Header.Get("X-Sdk-Timestamp"), text}, "|")
	sig, _ := base64.StdEncoding.DecodeString(r.Header.Get("X-Sdk-Signature"))
	return r.Header.Get("X-Api-Key") == "ws_test" && ed25519.Verify(s.public, []byte(message), sig)
}

// seen returns the accepted requests, each as METHOD TARGET BODY.
func (s *service) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for i, r := range s.requests {
		all = append(all, strings.TrimSpace(r.Method+" "+r.RequestURI+" "+s.bodies[i]))
	}
	return all
}

// asked is seen without the requests that look up names of workflows.
func (s *service) asked() []string {
	return slices.DeleteFunc(s.seen(), func(one string) bool { return one == "GET /v1/sdk/workflows?limit=100" })
}

func (s *service) environ() []string { return []string{"WEFT_CREDENTIALS=" + s.credentials} }

// background runs a command until the test ends or stop is called, which returns its result. Lines
// that the command writes to stderr are sent on the channel.
func background(t *testing.T, environ []string, args ...string) (lines <-chan string, stop func() result) {
	t.Helper()
	return fed(t, environ, "", args...)
}

// fed is background with a standard input.
func fed(t *testing.T, environ []string, stdin string, args ...string) (lines <-chan string, stop func() result) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	reader, writer := io.Pipe()
	var stdout bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, cli.Process{Args: args, Environ: environ, Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: writer})
		writer.Close()
	}()
	out := make(chan string, 100)
	go func() {
		defer close(out)
		text, _ := io.ReadAll(io.TeeReader(reader, lineWriter(out)))
		_ = text
	}()
	stop = sync.OnceValue(func() result {
		cancel()
		return result{code: waittest.Receive(t, "the end of the command", ended), stdout: stdout.String()}
	})
	t.Cleanup(func() { stop() })
	return out, stop
}

// lineWriter sends each write, which is a line, on a channel.
type lineWriter chan<- string

func (w lineWriter) Write(text []byte) (int, error) {
	w <- strings.TrimSpace(string(text))
	return len(text), nil
}

func TestUsage(t *testing.T) {
	cases := []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"help", []string{"--help"}, 0, "Run a component and print its output", ""},
		{"help of a command", []string{"call", "--help"}, 0, "--input=JSON", ""},
		{"help of serve", []string{"serve", "--help"}, 0, "DATABASE_URL and WEFT_MASTER_KEY", ""},
		{"help of work", []string{"work", "--help"}, 0, "DATABASE_URL and WEFT_MASTER_KEY", ""},
		{"a negative amount", []string{"admin", "credits", "dev", "-5"}, 2, "", "or as the last argument: -- -5"},
		{"a negative rate", []string{"admin", "plan", "set", "dev", "growth", "--rps", "-1"}, 2, "", "--name=-1"},
		{"negative credits", []string{"admin", "plan", "set", "dev", "growth", "--credits", "-5"}, 2, "", "--name=-5"},
		{"nothing", nil, 0, "Usage: weft <command>", ""},
		{"a group", []string{"workflows"}, 0, "Usage: weft workflows <command>", ""},
		{"exit codes", []string{"help", "exit-codes"}, 0, "4          Not found", ""},
		{"help by a command", []string{"help", "workflows", "push"}, 0, "Usage: weft workflows push", ""},
		{"a wait without a unit", []string{"call", "M", "--wait=16"}, 2, "", "--wait must be from 0s to 15s"},
		{"a wait that is not a duration", []string{"call", "M", "--wait=soon"}, 2, "", `"soon" is not a duration such as 15s`},
		{"a time in the future", []string{"runs", "list", "--since=-2h"}, 2, "", `--since: "-2h" is neither a duration such as 2h or 7d, nor a time`},
		{"an invalid expression", []string{"runs", "list", "--jq=.["}, 2, "", "--jq: "},
		{"an unknown status", []string{"runs", "list", "--status=DONE"}, 2, "", "COMPLETED"},
		{"a status in lower case", []string{"runs", "list", "--status=failed", "--credentials=nowhere"}, 3, "", "no credentials file"},
		{"an unknown policy", []string{"schedules", "create", "x", "--overlap=wait"}, 2, "", "--overlap: use one of skip, queue, allow, got wait"},
		{"a word of another program", []string{"workflows", "ls", "--help"}, 0, "Usage: weft workflows list", ""},
		{"a group in the singular", []string{"hook", "view", "--help"}, 0, "Usage: weft hooks get", ""},
		{"a missing argument of a command with arguments", []string{"schedules", "create"}, 2, "", "Try: weft schedules create --help"},
		{"unknown command", []string{"cal"}, 2, "", `did you mean "call"?`},
		{"missing argument", []string{"call"}, 2, "", "weft call --help"},
		{"wait and stream", []string{"call", "M", "--wait=1s", "--stream"}, 2, "", "can't be used together"},
		{"no way to fail", []string{"listen", "--fail=fast"}, 2, "", "slow:2s, 500 or drop"},
		{"no probability", []string{"listen", "--fail-rate=2"}, 2, "", "a probability from 0 to 1"},
		{"two choices of what fails", []string{"listen", "--fail-first=2", "--fail-rate=0.1"}, 2, "", "can't be used together"},
		{"an end without a number", []string{"listen", "--timeout=3s"}, 2, "", "--once or --count"},
		{"less than none", []string{"listen", "--count=-1"}, 2, "", "at least 1"},
		{"an invalid delay", []string{"dev", "--callback-schedule=0s,soon"}, 1, "", `--callback-schedule: "soon" is not a duration`},
		{"half an --allow", []string{"proxy", "--allow", "GET"}, 2, "", "a method and a path"},
		{"an --allow without a method", []string{"proxy", "--allow", "/v1 /x"}, 2, "", "a method and a path"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { run(t, nil, "", c.args...).check(t, c.code, c.stdout, c.stderr) })
	}
}
