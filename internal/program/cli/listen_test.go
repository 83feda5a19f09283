package cli_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

const (
	listenSecret = "correct-horse-battery"
	deliveredID  = "01a2008b-1ca7-71e9-9654-0113709b637e"
	delivered    = `{"id":"` + deliveredID + `","module":"RANDOM_UUID","status":"COMPLETED","output":"\u202e\u007f` + "\u009b" + `"}`
)

// listening is a weft listen in the background.
type listening struct {
	address string
	notes   []string // so far
	lines   <-chan string
	stop    func() result
}

// startListen starts weft listen on a free port and reads its first messages.
func startListen(t *testing.T, environ []string, stdin string, args ...string) *listening {
	t.Helper()
	l := &listening{}
	l.lines, l.stop = fed(t, environ, stdin, append([]string{"listen", "--addr=127.0.0.1:0"}, args...)...)
	for line := range l.lines {
		l.notes = append(l.notes, line)
		if at, ok := strings.CutPrefix(line, "Listening on http://"); ok {
			l.address = at
			return l
		}
	}
	t.Fatalf("weft listen did not start: %q", l.notes)
	return nil
}

// end waits until the command has exited on its own.
func (l *listening) end(t *testing.T) result {
	t.Helper()
	late := waittest.Context(t).Done()
	for {
		select {
		case line, running := <-l.lines:
			if !running {
				got := l.stop()
				got.stderr = strings.Join(l.notes, "\n")
				return got
			}
			l.notes = append(l.notes, line)
		case <-late:
			t.Fatalf("weft listen did not exit: %q", l.notes)
		}
	}
}

// deliver posts a record as Weft does, signed unless secret is "".
func (l *listening) deliver(t *testing.T, secret, body string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.address+"/x", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Svc-Execution-Id", deliveredID)
	request.Header.Set("Authorization", "Bearer of-the-caller")
	if secret != "" {
		request.Header.Set("X-Svc-Signature", macOf(secret, []byte(body)))
	}
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return 0
	}
	answer.Body.Close()
	return answer.StatusCode
}

// macOf returns the value of X-Svc-Signature by the contract, without Weft's code.
func macOf(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "hmac-sha256-v1=" + hex.EncodeToString(mac.Sum(nil))
}

// secretFile returns a file with a secret and a line break.
func secretFile(t *testing.T, secret string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestListenPrintsEachDeliveryOnALine(t *testing.T) {
	t.Parallel()
	l := startListen(t, nil, "", "--secret-file="+secretFile(t, listenSecret), "--count=5", "--fail=status:503", "--fail-first=1")
	altered := strings.Replace(delivered, "output", "outcome", 1)
	for i, c := range []struct {
		secret, body string
		want         int
	}{
		{listenSecret, delivered, 503}, {listenSecret, delivered, 204}, {listenSecret, altered, 204}, {"other", delivered, 401}, {"", delivered, 401},
	} {
		if got := l.deliver(t, c.secret, c.body); got != c.want {
			t.Errorf("%d: got status %d, want %d", i, got, c.want)
		}
	}
	got := l.end(t)
	got.check(t, 1, "", "5 deliveries, 3 with problems.")
	lines := strings.Split(strings.TrimSuffix(got.stdout, "\n"), "\n")
	want := []string{
		"attempt 1  signature good  answered 503 on purpose in ",
		"attempt 2  signature good  answered 204 in ",
		"WRONG: the body differs from earlier deliveries",
		"attempt 4  signature BAD  answered 401 in ",
		"attempt 5  signature absent  answered 401 in ",
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	for i, part := range want {
		if !strings.Contains(lines[i], "  "+deliveredID+"  RANDOM_UUID  COMPLETED  ") || !strings.Contains(lines[i], part) {
			t.Errorf("line %d is %q, want %q", i, lines[i], part)
		}
	}
	for _, part := range []string{"another secret, or over other bytes", "--allow-network 127.0.0.0/8", "Signatures are checked", "Injecting failures: 503, the first delivery of each execution"} {
		if !strings.Contains(got.stdout+got.stderr, part) {
			t.Errorf("the output lacks %q: %s", part, got.stderr)
		}
	}
	for _, hidden := range []string{listenSecret, "of-the-caller"} {
		if strings.Contains(got.stdout+got.stderr, hidden) {
			t.Errorf("the output contains %q", hidden)
		}
	}
}

func TestListenReadsItsSecretWithoutArguments(t *testing.T) {
	t.Parallel()
	variable := []string{"WEFT_CALLBACK_SECRET=" + listenSecret}
	for name, c := range map[string]struct {
		environ []string
		stdin   string
		args    []string
	}{
		"a file":               {nil, "", []string{"--secret-file=" + secretFile(t, listenSecret)}},
		"standard input":       {nil, listenSecret + "\r\n", []string{"--secret-file=-"}},
		"the environment":      {variable, "", nil},
		"a file in its place":  {[]string{"WEFT_CALLBACK_SECRET=other"}, "", []string{"--secret-file=" + secretFile(t, listenSecret)}},
		"not a standard input": {variable, "other", nil},
	} {
		l := startListen(t, c.environ, c.stdin, append(c.args, "--once")...)
		if got := l.deliver(t, listenSecret, delivered); got != http.StatusNoContent {
			t.Errorf("%s: got status %d", name, got)
		}
		l.end(t).check(t, 0, "signature good", "1 delivery, 0 with problems.")
	}
	run(t, nil, "", "listen", "--addr=127.0.0.1:0", "--secret-file=-").check(t, 1, "", "the secret is empty")
	run(t, nil, "\xff", "listen", "--addr=127.0.0.1:0", "--secret-file=-").check(t, 1, "", "not valid UTF-8")
	run(t, nil, "", "listen", "--addr=127.0.0.1:0", "--secret-file=/nowhere").check(t, 1, "", "--secret-file: open /nowhere")
}

func TestListenExitsAsScriptsNeedIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		secret string // of the sender; the receiver has none if empty
		args   []string
		want   int // status of the response
		code   int
		stdout string
		stderr string
	}{
		"one that is right":     {"", []string{"--once"}, 204, 0, "signature absent  answered 204", "Signatures are not checked"},
		"one that is forged":    {"other", []string{"--count=1"}, 401, 1, "signature BAD", "1 delivery, 1 with problems."},
		"failed as asked for":   {listenSecret, []string{"--once", "--fail-first=1"}, 500, 0, "answered 500 on purpose", "Injecting failures: 500, the first delivery"},
		"dropped as asked for":  {listenSecret, []string{"--once", "--fail=drop", "--fail-rate=1"}, 0, 0, "dropped on purpose", "with the probability 1"},
		"slow as asked for":     {listenSecret, []string{"--once", "--fail=slow:10ms"}, 204, 0, "answered 204, slow on purpose, in ", "slow:10ms, every delivery"},
		"too few in time":       {listenSecret, []string{"--count=2", "--timeout=300ms"}, 204, 1, "signature good", "not all deliveries arrived within 300ms"},
		"nobody to forward to":  {listenSecret, []string{"--once", "--forward=http://127.0.0.1:1"}, 502, 1, "WRONG: the delivery could not be forwarded", "Forwarding to http://127.0.0.1:1"},
		"enough before the end": {listenSecret, []string{"--count=1", "--timeout=1m"}, 204, 0, "signature good", "1 delivery, 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var environ []string
			if c.secret != "" {
				environ = []string{"WEFT_CALLBACK_SECRET=" + listenSecret}
			}
			l := startListen(t, environ, "", c.args...)
			unused, err := net.Dial("tcp", l.address) // some clients open connections ahead of time
			if err != nil {
				t.Fatal(err)
			}
			defer unused.Close()
			if got := l.deliver(t, c.secret, delivered); got != c.want {
				t.Errorf("got status %d, want %d", got, c.want)
			}
			l.end(t).check(t, c.code, c.stdout, c.stderr)
		})
	}
	endless := startListen(t, nil, "")
	endless.deliver(t, "", delivered)
	if got := endless.stop(); got.code != 0 || !strings.Contains(got.stdout, "answered 204") {
		t.Errorf("after Ctrl-C: %+v", got)
	}
	if got := startListen(t, nil, "", "--once").stop(); got.code != 1 {
		t.Errorf("after Ctrl-C before the first delivery: %+v", got)
	}
	run(t, nil, "", "listen", "--addr=127.0.0.1:0", "--forward=http://a:hunter2@x/").check(t, 1, "", "--forward: the URL must not contain a user")
}

func TestListenPrintsBodiesOnDemandAndEscapesControlCharacters(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"a person": {"--once", "--body"}, "a program": {"--once", "--body", "--json"}, "a program without bodies": {"--once", "--json"},
	} {
		l := startListen(t, []string{"WEFT_CALLBACK_SECRET=" + listenSecret}, "", args...)
		body := strings.NewReplacer(`\u202e`, "\u202e", `\u007f`, "\u007f").Replace(delivered)
		l.deliver(t, listenSecret, body)
		got := l.end(t)
		if strings.ContainsAny(got.stdout, "\u202e\u007f\u009b") {
			t.Errorf("%s: unexpected output %q", name, got.stdout)
		}
		if len(args) == 2 && args[1] == "--body" {
			got.check(t, 0, "\n  \"module\": \"RANDOM_UUID\",\n", "")
			continue
		}
		var line struct {
			ExecutionID, Module, Status, Signature, Repeat string
			Attempt, Answer                                int
			Injected, Body                                 *string
			Faults                                         []string
			Bytes                                          int
		}
		if err := json.Unmarshal([]byte(got.stdout), &line); err != nil || strings.Count(got.stdout, "\n") != 1 {
			t.Fatalf("%s: the output is not JSON: %v: %s", name, err, got.stdout)
		}
		if line.ExecutionID != deliveredID || line.Module != "RANDOM_UUID" || line.Status != "COMPLETED" || line.Signature != "good" || line.Repeat != "first" ||
			line.Attempt != 1 || line.Answer != 204 || line.Injected != nil || line.Faults == nil || line.Bytes != len(body) {
			t.Errorf("%s: unexpected output %s", name, got.stdout)
		}
		if (line.Body != nil) != (len(args) == 3) || line.Body != nil && *line.Body != body {
			t.Errorf("%s: the body was changed: %s", name, got.stdout)
		}
	}
}

func TestListenRejectsWebPages(t *testing.T) {
	t.Parallel()
	l := startListen(t, nil, "", "--host=tunnel.example", "--count=1")
	_, port, _ := net.SplitHostPort(l.address)
	for head, want := range map[string]int{
		"POST / HTTP/1.1\nHost: evil.example:" + port:                     403,
		"POST / HTTP/1.1\nHost: {proxy}\nOrigin: https://evil.example":    403,
		"POST / HTTP/1.1\nHost: {proxy}\nOrigin: null":                    403,
		"POST / HTTP/1.1\nHost: {proxy}\nSec-Fetch-Site: cross-site":      403,
		"OPTIONS / HTTP/1.1\nHost: {proxy}\nOrigin: https://evil.example": 403,
		"POST http://evil.example/ HTTP/1.1\nHost: {proxy}":               403,
		"GET / HTTP/1.1\nHost: {proxy}\nSec-Fetch-Site: none":             405,
	} {
		if code, text := send(t, l.address, head+"\n\n"); code != want || want == 403 && !strings.Contains(text, `"reason":"weft_listen"`) {
			t.Errorf("%.60q: got status %d %s", head, code, text)
		}
	}
	if code, _ := send(t, l.address, "POST / HTTP/1.1\nHost: tunnel.example\n\n{}"); code != http.StatusNoContent {
		t.Errorf("with the host name of a tunnel: status %d", code)
	}
	got := l.end(t)
	got.check(t, 1, "WRONG", "refused: the request comes from a page of another origin")
	if lines := strings.Count(got.stdout, "\n"); lines != 1 {
		t.Errorf("%d deliveries were printed: %s", lines, got.stdout)
	}
}

func TestListenStaysOnThisMachineUnlessExposed(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		run(t, nil, "", "listen", "--addr="+addr).check(t, 1, "", "could then send you what looks like callbacks")
	}
	lines, stop := background(t, nil, "listen", "--addr=0.0.0.0:0", "--expose")
	var port string
	for line := range lines {
		if at, ok := strings.CutPrefix(line, "Listening on http://"); ok {
			_, port, _ = net.SplitHostPort(at)
		}
		if strings.HasPrefix(line, "EXPOSED") {
			break
		}
	}
	if code, _ := send(t, "127.0.0.1:"+port, "POST / HTTP/1.1\nHost: 192.0.2.7\n\n{}"); code != http.StatusNoContent {
		t.Errorf("exposed, called by an address: status %d", code)
	}
	stop()
}

func TestListenBoundsItsConnections(t *testing.T) {
	t.Parallel()
	l := startListen(t, nil, "", "--once")
	var senders []net.Conn
	for range 64 {
		conn, err := net.Dial("tcp", l.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "POST / HTTP/1.1\r\n")
		senders = append(senders, conn)
	}
	waiting, err := net.Dial("tcp", l.address)
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	fmt.Fprint(waiting, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	_ = waiting.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	if n, err := waiting.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection beyond the limit is served: %d, %v", n, err)
	}
	senders[0].Close()
	_ = waiting.SetReadDeadline(waittest.Deadline(t))
	if answer, err := io.ReadAll(waiting); err != nil || !strings.Contains(string(answer), " 405 ") {
		t.Errorf("after a connection was closed: %q, %v", answer, err)
	}
}

func TestCallReadsTheCallbackSecretFromTheEnvironment(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, record("COMPLETED", "1", "null")) })
	environ := append(s.environ(), "WEFT_CALLBACK_SECRET=of-the-environment")
	for i, c := range []struct {
		args []string
		want string // "": no secret
	}{
		{[]string{"--callback-url=https://a.example"}, `"callbackSecret":"of-the-environment"`},
		{[]string{"--callback-url=https://a.example", "--callback-secret=given"}, `"callbackSecret":"given"`},
		{nil, ""},
	} {
		run(t, environ, "", append([]string{"call", "M"}, c.args...)...).check(t, 0, "", "COMPLETED")
		sent := s.seen()[i]
		if c.want == "" && strings.Contains(sent, "callbackSecret") || !strings.Contains(sent, c.want) {
			t.Errorf("%d: unexpected request %s", i, sent)
		}
	}
}

func TestListenPrintsTheNetworkHintOnlyIfNeeded(t *testing.T) {
	t.Parallel()
	for networks, asks := range map[string]bool{
		`[]`: true, `["10.0.0.0/8"]`: true, `["127.0.0.0/8"]`: false, `["10.0.0.0/8","127.0.0.1/32"]`: false, `"no list"`: true,
	} {
		file := filepath.Join(t.TempDir(), "credentials.json")
		if err := os.WriteFile(file, []byte(`{"baseUrl":"http://127.0.0.1:1","allowNetworks":`+networks+`}`), 0o600); err != nil {
			t.Fatal(err)
		}
		l := startListen(t, []string{"WEFT_CREDENTIALS=" + file}, "", "--once")
		l.deliver(t, "", delivered)
		got := l.end(t)
		got.check(t, 0, "attempt 1", "Listening on")
		if strings.Contains(got.stderr, "weft dev --allow-network 127.0.0.0/8") != asks {
			t.Errorf("with %s allowed, the output is %s", networks, got.stderr)
		}
	}
}

// Clients that write the whole body before they read see the response.
func TestListenReadsTheRestOfRejectedBodies(t *testing.T) {
	l := startListen(t, nil, "")
	const size = 6 << 20 // more than the system buffers
	body := fmt.Sprintf("Content-Length: %d\n\n", size) + strings.Repeat("a", size)
	for head, want := range map[string]int{
		"POST / HTTP/1.1\nHost: {proxy}\n":      http.StatusRequestEntityTooLarge,
		"POST / HTTP/1.1\nHost: evil.example\n": http.StatusForbidden,
	} {
		if code, text := sendRaw(t, l.address, head+body); code != want {
			t.Errorf("%s: got status %d %s", head, code, text)
		}
	}
}
