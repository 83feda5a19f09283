package egress

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/egress/egresstest"
)

var methods = []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"}

// read reads an answer to its end, so that its connection could be used again.
func read(response *http.Response) {
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
}

// attempt sends one request with an Idempotency-Key: net/http takes that for leave to repeat it.
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

func TestARequestOfAComponentIsSentOnceAndNeverOnAReusedConnection(t *testing.T) {
	t.Parallel()
	guard := New(Policy{Allow: loopback()})
	t.Cleanup(guard.Close)
	upstream := egresstest.NewClosing(t)
	for _, method := range methods {
		for _, body := range []string{"", "{}"} {
			for i := range 100 {
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
		t.Errorf("%d requests came on a reused connection", n)
	}
}

// Post reuses connections, so every second request fails here. None is sent again.
func TestPostSendsARequestAtMostOnce(t *testing.T) {
	t.Parallel()
	guard := New(Policy{Allow: loopback()})
	t.Cleanup(guard.Close)
	upstream := egresstest.NewClosing(t)
	failures := 0
	for _, body := range []string{"", "{}"} {
		for i := range 1000 {
			path := fmt.Sprintf("/%d/%d", len(body), i)
			if err := attempt(t, guard.Post, "POST", upstream.URL+path, body); err != nil {
				failures++
			}
			if n := upstream.Seen(path); n != 1 {
				t.Fatalf("%s was sent %d times", path, n)
			}
		}
	}
	if reused := upstream.Reused(); reused == 0 || failures != reused {
		t.Errorf("%d requests on a reused connection, %d failures", reused, failures)
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
