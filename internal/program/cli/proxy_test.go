package cli_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// startProxy starts a proxy in front of s and returns its address.
func startProxy(t *testing.T, s *service, args ...string) (address string, stop func() result) {
	t.Helper()
	args = append([]string{"proxy", "--listen=127.0.0.1:0"}, args...)
	lines, stop := background(t, s.environ(), args...)
	for line := range lines {
		if at, ok := strings.CutPrefix(line, "Listening on http://"); ok {
			return at, stop
		}
	}
	t.Fatal("the proxy did not start")
	return "", nil
}

// send sends one request with the length of its body, and returns the status and the body of the
// response.
func send(t *testing.T, address, request string) (int, string) {
	t.Helper()
	head, body, _ := strings.Cut(request, "\n\n")
	return sendRaw(t, address, fmt.Sprintf("%s\nConnection: close\nContent-Length: %d\n\n%s", head, len(body), body))
}

// sendRaw is send for a request whose header sets the length of the body.
func sendRaw(t *testing.T, address, request string) (int, string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(waittest.Deadline(t))
	_ = conn.(*net.TCPConn).SetWriteBuffer(64 << 10) // so that the system does not buffer all of a large body
	head, body, _ := strings.Cut(request, "\n\n")
	head = strings.ReplaceAll(head, "{proxy}", address)
	if _, err := fmt.Fprintf(conn, "%s\r\n\r\n%s", strings.ReplaceAll(head, "\n", "\r\n"), body); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func TestProxySignsRequests(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for _, gone := range []string{"Cookie", "Origin", "Referer", "X-Forwarded-For"} {
			if r.Header.Get(gone) != "" {
				t.Errorf("%s reached the service", gone)
			}
		}
		w.Header().Set("X-Request-Id", "r-1")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, r.RequestURI)
	})
	address, _ := startProxy(t, s)
	for _, target := range []string{
		"/v1/sdk/components", "/v1/sdk/components/executions?limit=2&cursor=a%3D%3D", "/v1/a%2Fb/%C3%A9?x=1;y=2&z=%zz", "/v1/sdk/x?",
	} {
		for _, body := range []string{"", `{"module":"M", "input":{"a":"é"}}`} {
			method := "GET"
			if body != "" {
				method = "POST"
			}
			request := method + " " + target + " HTTP/1.1\nHost: {proxy}\nX-Api-Key: ws_mine\nX-Sdk-Signature: x\nCookie: a=b\nX-Forwarded-For: 192.0.2.1\nReferer: http://x/\n\n" + body
			if code, text := send(t, address, request); code != http.StatusAccepted || text != target {
				t.Errorf("%s %s: got status %d %s", method, target, code, text)
			}
		}
	}
}

// Clients that write the whole body before they read see the error only if the proxy reads the whole
// body.
func TestProxyReadsTheRestOfRejectedBodies(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	address, _ := startProxy(t, s, "--allow=POST /v1/any")
	const size = 6 << 20 // more than the system buffers
	declared := fmt.Sprintf("Content-Length: %d\n\n", size) + strings.Repeat("a", size)
	chunked := "Transfer-Encoding: chunked\n\n" + strings.Repeat("10000\r\n"+strings.Repeat("a", 1<<16)+"\r\n", size>>16) + "0\r\n\r\n"
	for name, c := range map[string]struct {
		path, rest string
		want       int
	}{
		"too large, declared":   {"/v1/any", declared, 413},
		"too large, chunked":    {"/v1/any", chunked, 413},
		"not allowed, declared": {"/v1/other", declared, 403},
		"not allowed, chunked":  {"/v1/other", chunked, 403},
	} {
		t.Run(name, func(t *testing.T) {
			if code, text := sendRaw(t, address, "POST "+c.path+" HTTP/1.1\nHost: {proxy}\n"+c.rest); code != c.want {
				t.Errorf("got status %d %s", code, text)
			}
		})
	}
}

func TestProxyForwardsEventsImmediately(t *testing.T) {
	next := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		control := http.NewResponseController(w)
		_ = control.Flush()
		for n := range 3 {
			<-next
			fmt.Fprintf(w, "data: {\"n\":%d}\n\n", n)
			_ = control.Flush()
		}
	})
	address, _ := startProxy(t, s)
	answer, err := http.Get("http://" + address + "/v1/sdk/components/executions/x/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if got := answer.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("content type %q", got)
	}
	lines := bufio.NewReader(answer.Body)
	for n := range 3 {
		next <- struct{}{} // the service continues only after the event has arrived
		line, err := lines.ReadString('\n')
		if err != nil || line != fmt.Sprintf("data: {\"n\":%d}\n", n) {
			t.Fatalf("event %d: %q, %v", n, line, err)
		}
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProxyRejectsWebPages(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "through") })
	address, _ := startProxy(t, s)
	_, port, _ := net.SplitHostPort(address)
	cases := []struct {
		name, request string
		want          int
	}{
		{"curl", "GET /v1 HTTP/1.1\nHost: {proxy}", 200},
		{"by localhost", "GET /v1 HTTP/1.1\nHost: localhost:" + port, 200},
		{"by IPv6 loopback", "GET /v1 HTTP/1.1\nHost: [::1]:" + port, 200},
		{"its own page", "GET /v1 HTTP/1.1\nHost: {proxy}\nOrigin: http://{proxy}\nSec-Fetch-Site: same-origin", 200},
		{"typed by a person", "GET /v1 HTTP/1.1\nHost: {proxy}\nSec-Fetch-Site: none", 200},
		{"a name that resolves here", "GET /v1 HTTP/1.1\nHost: evil.example:" + port, 403},
		{"a name that looks local", "GET /v1 HTTP/1.1\nHost: localhost.evil.example", 403},
		{"an address of elsewhere", "GET /v1 HTTP/1.1\nHost: 192.0.2.1", 403},
		{"foreign origin", "GET /v1 HTTP/1.1\nHost: {proxy}\nOrigin: https://evil.example", 403},
		{"origin of a file", "GET /v1 HTTP/1.1\nHost: {proxy}\nOrigin: null", 403},
		{"origin of another port", "GET /v1 HTTP/1.1\nHost: {proxy}\nOrigin: http://127.0.0.1:1", 403},
		{"two origins", "GET /v1 HTTP/1.1\nHost: {proxy}\nOrigin: http://{proxy}\nOrigin: https://evil.example", 403},
		{"cross-site without origin", "GET /v1 HTTP/1.1\nHost: {proxy}\nSec-Fetch-Site: cross-site", 403},
		{"same site, other port", "GET /v1 HTTP/1.1\nHost: {proxy}\nSec-Fetch-Site: same-site", 403},
		{"preflight", "OPTIONS /v1 HTTP/1.1\nHost: {proxy}\nOrigin: https://evil.example\nAccess-Control-Request-Method: POST", 403},
		{"as a forward proxy", "GET http://evil.example/v1 HTTP/1.1\nHost: {proxy}", 403},
		{"a component or a callback", "GET /v1 HTTP/1.1\nHost: {proxy}\nWeft-Egress: 1", 403},
		{"a tunnel", "CONNECT evil.example:443 HTTP/1.1\nHost: {proxy}", 403},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			request := strings.ReplaceAll(c.request, "{proxy}", address) + "\n\n"
			before := len(s.seen())
			code, text := send(t, address, request)
			if code != c.want || strings.Contains(text, "names another machine") != strings.Contains(text, "or allow the name with --host") {
				t.Errorf("got status %d %s", code, text)
			}
			if reached := len(s.seen()) > before; reached != (c.want == 200) {
				t.Errorf("reached the service: %v", reached)
			}
		})
	}
}

func TestProxyAllowRestrictsRequests(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	address, _ := startProxy(t, s, "--allow", "GET /v1/sdk/components/executions/*", "--allow", "POST /v1/sdk/components", "--allow=* /v1/any")
	for line, want := range map[string]int{
		"GET /v1/sdk/components/executions/x":            200,
		"GET /v1/sdk/components/executions/x?a=b":        200,
		"POST /v1/sdk/components":                        200,
		"DELETE /v1/any":                                 200,
		"GET /v1/sdk/components":                         403,
		"POST /v1/sdk/components/executions/x":           403,
		"GET /v1/sdk/components/executions/x/stream":     403,
		"GET /v1/sdk/components/executions/..":           403,
		"GET /v1/sdk/components/executions/%2e%2e":       403,
		"GET /v1/sdk/components/executions/x/../../keys": 403,
	} {
		if code, _ := send(t, address, line+" HTTP/1.1\nHost: {proxy}\n\n"); code != want {
			t.Errorf("%s: %d, want %d", line, code, want)
		}
	}
}

func TestProxyStaysOnThisMachineUnlessExposed(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	for _, listen := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		run(t, s.environ(), "", "proxy", "--listen="+listen).check(t, 1, "", "reached from other machines")
	}
	lines, _ := background(t, s.environ(), "proxy", "--listen=0.0.0.0:0", "--expose", "--host=weft.lan")
	var port string
	for line := range lines {
		if at, ok := strings.CutPrefix(line, "Listening on http://"); ok {
			_, port, _ = net.SplitHostPort(at)
		}
		if strings.HasPrefix(line, "EXPOSED") {
			break
		}
	}
	for host, want := range map[string]int{"192.0.2.7": 200, "weft.lan:1": 200, "evil.example": 403} {
		if code, _ := send(t, "127.0.0.1:"+port, "GET /v1 HTTP/1.1\nHost: "+host+"\n\n"); code != want {
			t.Errorf("exposed, called as %s: %d, want %d", host, code, want)
		}
	}
}

func TestProxyReportsItsOwnFailures(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	address, stop := startProxy(t, s)
	code, text := send(t, address, "POST /v1 HTTP/1.1\nHost: {proxy}\n\n"+strings.Repeat("x", 8<<20))
	if code != http.StatusRequestEntityTooLarge || !strings.Contains(text, "PAYLOAD_TOO_LARGE") {
		t.Errorf("got status %d %s", code, text)
	}
	s.Close()
	if code, text := send(t, address, "GET /v1 HTTP/1.1\nHost: {proxy}\n\n"); code != http.StatusBadGateway || !strings.Contains(text, "cannot be reached") {
		t.Errorf("got status %d %s", code, text)
	}
	if got := stop(); got.code != 0 || got.stdout != "" {
		t.Errorf("after Ctrl-C: %+v", got)
	}
}
