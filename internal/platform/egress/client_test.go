package egress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/platform/egress/egresstest"
)

func TestCB14RedirectsToInternalAddressesAreNotFollowed(t *testing.T) {
	silent := egresstest.NewSilent(t)
	ca := egresstest.NewCA(t)
	guard := New(Policy{
		Allow: []netip.Prefix{netip.MustParsePrefix(second + "/32")},
		Roots: ca.Pool,
		Resolver: egresstest.Resolver(t, func(name string) []netip.Addr {
			if name == "inside.test" {
				return addresses("127.0.0.1")
			}
			return addresses(second)
		}),
	})
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, target := range []string{"https://" + silent.Address, "https://inside.test:" + silent.Port(), "http://" + silent.Address, "file:///etc/passwd"} {
			receiver := listenOn(t, second, http.RedirectHandler(target, status))
			response, err := guard.Client(ClientOptions{Redirects: 3}).Get(receiver)
			if err == nil {
				response.Body.Close()
			}
			if Class(err) != ClassBlocked {
				t.Errorf("%d to %s: %v", status, target, err)
			}
			response, err = guard.Client(ClientOptions{}).Get(receiver)
			if err != nil || response.StatusCode != status {
				t.Fatalf("%d, with no redirects allowed: %v", status, err)
			}
			response.Body.Close()
		}
	}
	if n := silent.Connections(); n != 0 {
		t.Fatalf("%d connections to the private address", n)
	}
}

// listenOn serves plain HTTP on a loopback address other than 127.0.0.1.
func listenOn(t *testing.T, address string, handler http.Handler) string {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler}}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

func TestClientFollowsThreeRedirectsAndNoMore(t *testing.T) {
	var served atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		left, _ := strconv.Atoi(strings.Trim(r.URL.Path, "/"))
		if left > 0 {
			http.Redirect(w, r, fmt.Sprintf("/%d", left-1), http.StatusFound)
		}
	}))
	defer server.Close()
	client := New(Policy{Allow: loopback()}).Client(ClientOptions{Redirects: 10})
	response, err := client.Get(server.URL + "/3")
	if err != nil || response.StatusCode != http.StatusOK || served.Load() != 4 {
		t.Fatalf("three redirects: %v, %d requests", err, served.Load())
	}
	response.Body.Close()
	served.Store(0)
	if _, err := client.Get(server.URL + "/4"); Class(err) != ClassRedirect || served.Load() != 4 {
		t.Fatalf("four redirects: %v, %d requests", err, served.Load())
	}
}

// See RFC 9110, sections 15.4.2 to 15.4.9.
func TestRedirectsKeepTheMethodExceptForPOST(t *testing.T) {
	t.Parallel()
	var arrived string
	mux := http.NewServeMux()
	mux.HandleFunc("/at", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		arrived = r.Method + " " + r.Header.Get("Content-Type") + " " + string(body)
	})
	for _, status := range []int{301, 302, 303, 307, 308} {
		mux.Handle(fmt.Sprintf("/%d", status), http.RedirectHandler("/at", status))
	}
	server := httptest.NewServer(mux)
	defer server.Close()
	client := New(Policy{Allow: loopback()}).Client(ClientOptions{Redirects: 3})
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			request, err := http.NewRequest(method, fmt.Sprintf("%s/%d", server.URL, status), strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			want := method + " application/json {}"
			if method != "GET" && (status == 303 || status < 303 && method == "POST") {
				want = "GET  "
			}
			if method == "GET" {
				arrived, want = strings.Fields(arrived)[0], "GET"
			}
			if arrived != want {
				t.Errorf("%s after %d: %q, want %q", method, status, arrived, want)
			}
		}
	}
}

// crossing starts two servers. The first server redirects /STATUS/away to /seen of the second,
// and /back to /home of the second. /home redirects to /seen of the first server.
func crossing(t *testing.T) (first string, seen chan *http.Request) {
	t.Helper()
	seen = make(chan *http.Request, 1)
	record := func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		seen <- r
	}
	here, there := http.NewServeMux(), http.NewServeMux()
	one, two := httptest.NewServer(here), httptest.NewServer(there)
	t.Cleanup(one.Close)
	t.Cleanup(two.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		here.Handle(fmt.Sprintf("/%d/away", status), http.RedirectHandler(two.URL+"/seen", status))
	}
	here.Handle("/back", http.RedirectHandler(two.URL+"/home", http.StatusTemporaryRedirect))
	there.Handle("/home", http.RedirectHandler(one.URL+"/seen", http.StatusTemporaryRedirect))
	here.HandleFunc("/seen", record)
	there.HandleFunc("/seen", record)
	return one.URL, seen
}

// redirected sends a request with credentials and returns the request that arrived, or nil.
func redirected(t *testing.T, method, url, body string, seen chan *http.Request) (*http.Request, error) {
	t.Helper()
	guard := New(Policy{Allow: loopback()})
	t.Cleanup(guard.Close)
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url+"?key=in-the-query", reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"X-Api-Key": "secret", "Authorization": "Bearer secret", "Cookie": "secret", "Idempotency-Key": "secret", "Accept": "application/json",
	} {
		request.Header.Set(name, value)
	}
	response, err := guard.Client(ClientOptions{Redirects: 3}).Do(request)
	if err == nil {
		response.Body.Close()
	}
	select {
	case r := <-seen:
		return r, err
	default:
		return nil, err
	}
}

// stranger fails the test if the request to another origin contains anything of the caller's.
func stranger(t *testing.T, what string, got *http.Request) {
	t.Helper()
	body, _ := io.ReadAll(got.Body)
	for name, values := range got.Header {
		if strings.Contains(fmt.Sprint(values), "secret") || strings.Contains(fmt.Sprint(values), "in-the-query") {
			t.Errorf("%s: another origin was sent %s: %v", what, name, values)
		}
	}
	if len(body) > 0 || got.URL.RawQuery != "" {
		t.Errorf("%s: another origin was sent the body %q and the query %q", what, body, got.URL.RawQuery)
	}
}

func TestARedirectToAnotherOriginCarriesNeitherHeadersNorBody(t *testing.T) {
	first, seen := crossing(t)
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			for _, body := range []string{"", "secret"} {
				what := fmt.Sprintf("%s, %d, body %q", method, status, body)
				got, err := redirected(t, method, fmt.Sprintf("%s/%d/away", first, status), body, seen)
				// RFC 9110, section 15.4: after a 303, or a POST that was moved, a GET without a body follows.
				dropped := status == 303 || status < 303 && method == "POST" || method == "GET" && status < 303
				switch {
				case body != "" && !dropped:
					if !is[*ForeignError](err) || Class(err) != ClassRedirect || got != nil {
						t.Errorf("%s: %v, arrived: %v", what, err, got != nil)
					}
				case err != nil || got == nil:
					t.Errorf("%s: %v, arrived: %v", what, err, got != nil)
				default:
					stranger(t, what, got)
				}
			}
		}
	}
}

// Without this rule, a different origin could choose the path of a request with the caller's
// credentials.
func TestARedirectBackFromAnotherOriginStaysForeign(t *testing.T) {
	first, seen := crossing(t)
	got, err := redirected(t, "GET", first+"/back", "", seen)
	if err != nil || got == nil {
		t.Fatalf("%v, arrived: %v", err, got != nil)
	}
	stranger(t, "back", got)
}

func TestOriginsAreComparedInNormalForm(t *testing.T) {
	for _, c := range []struct {
		one, two string
		same     bool
	}{
		{"https://Example.com/a", "https://example.com:443/b?c", true}, {"http://example.com", "http://example.com:80", true},
		{"https://[::1]:443", "https://[::1]", true}, {"http://example.com", "https://example.com", false}, {"http://example.com:443", "https://example.com", false},
		{"https://example.com", "https://example.com:8443", false}, {"https://example.com", "https://www.example.com", false},
	} {
		one, _ := url.Parse(c.one)
		two, _ := url.Parse(c.two)
		if same := Origin(one) == Origin(two); same != c.same {
			t.Errorf("%s and %s: %v", c.one, c.two, same)
		}
	}
}

func TestClientLimitsTheResponse(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, _ := strconv.Atoi(r.URL.Query().Get("size"))
		if r.URL.Path == "/stream" {
			w.(http.Flusher).Flush()
		} else {
			w.Header().Set("Content-Length", strconv.Itoa(size))
		}
		_, _ = io.CopyN(w, zeros{}, int64(size))
	}))
	defer server.Close()
	client := New(Policy{Allow: loopback()}).Client(ClientOptions{MaxBytes: 1000})
	for _, path := range []string{"/", "/stream"} {
		for size, ok := range map[int]bool{0: true, 999: true, 1000: true, 1001: false, 1 << 20: false} {
			response, err := client.Get(server.URL + path + "?size=" + strconv.Itoa(size))
			var body []byte
			if err == nil {
				body, err = io.ReadAll(response.Body)
				response.Body.Close()
			}
			if (err == nil) != ok || ok && len(body) != size || !ok && Class(err) != ClassTooLarge {
				t.Errorf("%s of %d bytes: read %d, %v", path, size, len(body), err)
			}
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestClientLimitsTimeAndHeaders(t *testing.T) {
	ca := egresstest.NewCA(t)
	guard := New(Policy{Allow: loopback(), Roots: ca.Pool})
	hang := ca.Raw(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	if _, err := guard.Client(ClientOptions{Timeout: 50 * time.Millisecond}).Get("https://" + hang); Class(err) != ClassTimeout {
		t.Errorf("no response: %v", err)
	}
	flood := ca.Raw(t, func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 1)) // a response before the request would cause a different error
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
		for {
			if _, err := io.WriteString(conn, "X-Filler: "+strings.Repeat("a", 1000)+"\r\n"); err != nil {
				return
			}
		}
	})
	if _, err := guard.Client(ClientOptions{Timeout: 5 * time.Second}).Get("https://" + flood); Class(err) != ClassTooLarge {
		t.Errorf("endless headers: %q, %v", Class(err), err)
	}
	refused := egresstest.NewSilent(t).Address
	if _, err := New(Policy{}).Client(ClientOptions{}).Get("https://" + refused); Class(err) != ClassBlocked {
		t.Errorf("loopback: %v", err)
	}
	if _, err := guard.Client(ClientOptions{}).Get("ftp://127.0.0.1/"); !is[*BlockedError](err) || errors.Is(err, ErrTooLarge) {
		t.Errorf("ftp: %v", err)
	}
}
