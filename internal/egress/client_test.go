package egress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/egress/egresstest"
)

func TestCB14RedirectsInsideAreNotFollowed(t *testing.T) {
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
				t.Fatalf("%d, none to be followed: %v", status, err)
			}
			response.Body.Close()
		}
	}
	if n := silent.Connections(); n != 0 {
		t.Fatalf("%d connections to the private address", n)
	}
}

// listenOn serves plain http on another loopback address than 127.0.0.1.
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

// RFC 9110, sections 15.4.2 to 15.4.9.
func TestRedirectsKeepTheMethodButForPOST(t *testing.T) {
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

func TestRedirectToAnotherOriginDropsTheCallersHeaders(t *testing.T) {
	var got http.Header
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer other.Close()
	first := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer first.Close()
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, first.URL, nil)
	request.Header.Set("X-Api-Key", "secret")
	request.Header.Set("Authorization", "Bearer secret")
	request.Header.Set("Accept", "application/json")
	response, err := New(Policy{Allow: loopback()}).Client(ClientOptions{Redirects: 1}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if got.Get("X-Api-Key") != "" || got.Get("Authorization") != "" || got.Get("Accept") != "application/json" {
		t.Fatalf("sent to the other origin: %v", got)
	}
}

func TestClientBoundsTheAnswer(t *testing.T) {
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

func TestClientBoundsTimeAndHeaders(t *testing.T) {
	ca := egresstest.NewCA(t)
	guard := New(Policy{Allow: loopback(), Roots: ca.Pool})
	hang := ca.Raw(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	if _, err := guard.Client(ClientOptions{Timeout: 50 * time.Millisecond}).Get("https://" + hang); Class(err) != ClassTimeout {
		t.Errorf("no answer: %v", err)
	}
	flood := ca.Raw(t, func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 1)) // an answer before its question would be another error
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
