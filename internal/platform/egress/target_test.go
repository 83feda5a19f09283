package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// requestLines starts a server on loopback that sends the first line of each request to the channel,
// as received.
func requestLines(t *testing.T, respond func(n int) string) (address string, lines <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	received := make(chan string, 16)
	go func() {
		for n := 0; ; n++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			part := make([]byte, 4<<10)
			count, _ := conn.Read(part)
			line, _, _ := strings.Cut(string(part[:count]), "\r\n")
			received <- line
			_, _ = io.WriteString(conn, respond(n))
			conn.Close()
		}
	}()
	return "http://" + listener.Addr().String(), received
}

// targets maps targets as callers and redirects write them to their form in a request.
var targets = map[string]string{
	"/search?q=a b":             "/search?q=a%20b",
	"/search?q=é":               "/search?q=%C3%A9",
	"/a b/é?x=1":                "/a%20b/%C3%A9?x=1",
	"/a%2Fb é":                  "/a%2Fb%20%C3%A9",
	"/x?q=100%&r=%zz&s=%41%2f":  "/x?q=100%25&r=%25zz&s=%41%2f",
	`/x?q="<>\^{|}` + "`":       "/x?q=%22%3C%3E%5C%5E%7B%7C%7D%60",
	"/x?filter[name]=1":         "/x?filter%5Bname%5D=1",
	"/-._~!$&'()*+,;=:@/x?a=/?": "/-._~!$&'()*+,;=:@/x?a=/?",
	"/?":                        "/?",
}

const plainAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

func TestRequestTargetsAreEncodedAtEveryDoor(t *testing.T) {
	guard := New(Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(guard.Close)
	for target, want := range targets {
		doors := map[string]func(address string) (*http.Response, error){
			"client": func(address string) (*http.Response, error) {
				return guard.Client(ClientOptions{}).Get(address + target)
			},
			"callback": func(address string) (*http.Response, error) {
				request, err := http.NewRequestWithContext(t.Context(), "POST", address+target, strings.NewReader("x"))
				if err != nil {
					return nil, err
				}
				return guard.Post(request)
			},
			"callback without a body": func(address string) (*http.Response, error) {
				request, err := http.NewRequestWithContext(t.Context(), "POST", address+target, nil)
				if err != nil {
					return nil, err
				}
				return guard.Post(request)
			},
		}
		for door, call := range doors {
			address, lines := requestLines(t, func(int) string { return plainAnswer })
			response, err := call(address)
			if err != nil {
				t.Errorf("%s, %s: %v", door, target, err)
				continue
			}
			response.Body.Close()
			if _, sent, _ := strings.Cut(<-lines, " "); sent != want+" HTTP/1.1" {
				t.Errorf("%s, %s: sent as %s", door, target, sent)
			}
		}
		address, lines := requestLines(t, func(n int) string {
			if n == 0 {
				return "HTTP/1.1 302 Found\r\nLocation: " + target + "\r\nContent-Length: 0\r\n\r\n"
			}
			return plainAnswer
		})
		response, err := guard.Client(ClientOptions{Redirects: 1}).Get(address)
		if err != nil {
			t.Errorf("redirect, %s: %v", target, err)
			continue
		}
		response.Body.Close()
		<-lines
		if _, sent, _ := strings.Cut(<-lines, " "); sent != want+" HTTP/1.1" {
			t.Errorf("redirect, %s: sent as %s", target, sent)
		}
	}
}

// The request of the caller stays unchanged: errors and redirects are about its URL.
func TestEncodingATargetLeavesTheRequest(t *testing.T) {
	u, err := url.Parse("https://a.example/x?q=a b")
	if err != nil {
		t.Fatal(err)
	}
	request := &http.Request{URL: u, Header: http.Header{}}
	if out := marked(context.Background(), request); out.URL.RawQuery != "q=a%20b" || u.RawQuery != "q=a b" || request.Header.Get(Mark) != "" {
		t.Errorf("%s, and the original %s", out.URL, u)
	}
}

// Headers up to MaxHeaderBytes are read. Beyond them, the error names the headers.
func TestHeaderLimitIsNamed(t *testing.T) {
	guard := New(Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(guard.Close)
	for size, want := range map[int]error{20 << 10: nil, 60 << 10: nil, 70 << 10: ErrHeadersTooLarge} {
		answer := "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Long: " + strings.Repeat("x", size) + "\r\n\r\n"
		address, _ := requestLines(t, func(int) string { return answer })
		response, err := guard.Client(ClientOptions{}).Get(address)
		if err == nil {
			response.Body.Close()
		}
		if !errorIs(err, want) || (Class(err) == ClassTooLarge) != (want != nil) {
			t.Errorf("%d bytes to a client: %v", size, err)
		}
		request, err := http.NewRequestWithContext(t.Context(), "POST", address, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		response, err = guard.Post(request)
		if err == nil {
			response.Body.Close()
		}
		if !errorIs(err, want) {
			t.Errorf("%d bytes to a callback: %v", size, err)
		}
	}
}

func errorIs(err, want error) bool {
	if want == nil {
		return err == nil
	}
	return errors.Is(err, want)
}
