package egress

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/egress/egresstest"
)

var methods = []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"}

// calls returns how many requests of each kind are sent.
func calls() int { return waittest.Size(50, 1000) }

// read reads a response to its end, so that the connection could be reused.
func read(response *http.Response) {
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
}

// attempt sends one request with an Idempotency-Key, which makes net/http consider it repeatable.
func attempt(t *testing.T, send func(*http.Request) (*http.Response, error), method, url, body string) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Idempotency-Key", "k")
	request.Header.Set("X-Idempotency-Key", "k")
	response, err := send(request)
	if err == nil {
		read(response)
	}
	return err
}

func TestClientSendsARequestOnceOnANewConnection(t *testing.T) {
	t.Parallel()
	guard := New(Policy{Allow: loopback()})
	t.Cleanup(guard.Close)
	upstream := egresstest.NewClosing(t)
	for _, method := range methods {
		for _, body := range []string{"", "{}"} {
			for i := range calls() {
				path := fmt.Sprintf("/%s/%d/%d", method, len(body), i)
				if err := attempt(t, guard.Client(ClientOptions{}).Do, method, upstream.URL+path, body); err != nil {
					t.Fatalf("%s: %v", path, err)
				}
				if n := upstream.Seen(path); n != 1 {
					t.Fatalf("%s was sent %d times", path, n)
				}
			}
		}
	}
	if n := upstream.Reused(); n != 0 {
		t.Errorf("%d requests used a reused connection", n)
	}
}

// Post reuses connections, so some requests fail here. None is sent again.
func TestPostSendsARequestAtMostOnce(t *testing.T) {
	t.Parallel()
	guard := New(Policy{Allow: loopback()})
	t.Cleanup(guard.Close)
	upstream := egresstest.NewClosing(t)
	var failures atomic.Int64
	var running sync.WaitGroup
	for sender := range 10 {
		running.Go(func() {
			for i := range 200 {
				path, body := fmt.Sprintf("/%d/%d", sender, i), ""
				if i%2 == 0 {
					body = "{}"
				}
				if err := attempt(t, guard.Post, "POST", upstream.URL+path, body); err != nil {
					failures.Add(1)
				}
				if n := upstream.Seen(path); n > 1 || n == 0 && i%2 == 1 {
					t.Errorf("%s was sent %d times", path, n)
				}
			}
		})
	}
	running.Wait()
	if reused := upstream.Reused(); reused == 0 || failures.Load() < int64(reused) {
		t.Errorf("%d requests on a reused connection, %d failures", reused, failures.Load())
	}
}

// A caller could otherwise use a signing proxy on this machine.
func TestCallersNeitherSetNorRemoveTheMark(t *testing.T) {
	t.Parallel()
	guard := New(Policy{Allow: loopback()})
	t.Cleanup(guard.Close)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Values(Mark); !slices.Equal(got, []string{"1"}) {
			t.Errorf("%s %s has the mark %q", r.Method, r.URL, got)
		}
		if r.URL.Path == "/first" {
			http.Redirect(w, r, "/second", http.StatusTemporaryRedirect)
		}
	}))
	t.Cleanup(upstream.Close)
	for name, send := range map[string]func(*http.Request) (*http.Response, error){"client": guard.Client(ClientOptions{Redirects: 1}).Do, "post": guard.Post} {
		for _, body := range []string{"", "{}"} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, upstream.URL+"/first", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("weft-egress", "forged")
			request.Header.Set("Connection", Mark)
			response, err := send(request)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			read(response)
			if request.Header.Get(Mark) != "forged" {
				t.Errorf("%s: the caller's request was changed", name)
			}
		}
	}
}

func TestPostChecksTheTarget(t *testing.T) {
	t.Parallel()
	guard := New(Policy{})
	t.Cleanup(guard.Close)
	if err := attempt(t, guard.Post, "POST", "ftp://127.0.0.1/", "{}"); Class(err) != ClassBlocked {
		t.Errorf("got %v", err)
	}
}
