package apicall

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/egress/egresstest"
)

func TestACallNeverOutlivesItsTimeout(t *testing.T) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	for name, handler := range map[string]http.HandlerFunc{
		"no answer": func(http.ResponseWriter, *http.Request) { <-release },
		"trickle": func(w http.ResponseWriter, r *http.Request) {
			ticker := time.NewTicker(5 * time.Millisecond)
			defer ticker.Stop()
			for {
				select {
				case <-release:
					return
				case <-r.Context().Done():
					return
				case <-ticker.C:
					io.WriteString(w, "x")
					http.NewResponseController(w).Flush()
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(handler)
			t.Cleanup(server.CloseClientConnections)
			bench := componenttest.New(t, Modules(loopback(t))...)
			_, failed := run(t, bench, object{}, object{"apiUrl": server.URL, "method": "GET", "timeoutMs": 60})
			if failed == nil || failed.Code != component.CodeTimeout || !failed.Retryable {
				t.Errorf("got %v, want TIMEOUT", failed)
			}
			go server.Close()
		})
	}
}

func TestOnlyAllowedAddressesAreCalled(t *testing.T) {
	silent := egresstest.NewSilent(t)
	inside := []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	guard := egress.New(egress.Policy{Resolver: egresstest.Resolver(t, func(string) []netip.Addr { return inside })})
	t.Cleanup(guard.Close)
	bench := componenttest.New(t, Modules(guard)...)
	for _, address := range []string{
		"http://" + silent.Address, "https://" + silent.Address, "https://inside.example:" + silent.Port(), "https://[::ffff:127.0.0.1]:" + silent.Port(),
		"https://localhost:" + silent.Port(), "https://2130706433:" + silent.Port(), "http://example.com/", "https://169.254.169.254/latest/meta-data/",
	} {
		_, failed := run(t, bench, object{}, object{"apiUrl": address, "method": "GET"})
		if failed == nil || failed.Code != component.CodeAddressBlocked || failed.Retryable {
			t.Errorf("%s: %v, want ADDRESS_BLOCKED", address, failed)
		}
	}
	if silent.Connections() != 0 {
		t.Errorf("%d connections were made", silent.Connections())
	}
}

func TestRedirectsAreFollowedThreeTimesAndGuarded(t *testing.T) {
	var secretSeen string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { secretSeen = r.Header.Get("X-Secret") }))
	t.Cleanup(other.Close)
	bench, address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var n int
		switch {
		case r.URL.Path == "/away":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case r.URL.Path == "/inside":
			http.Redirect(w, r, "http://10.0.0.1:9/", http.StatusFound)
		default:
			fmt.Sscanf(r.URL.Path, "/%d", &n)
			if n > 0 {
				http.Redirect(w, r, fmt.Sprintf("/%d", n-1), http.StatusFound)
			}
		}
	})
	call := func(path string) (object, *component.Error) {
		return run(t, bench, object{"headers": object{"X-Secret": "s3cr3t-value"}}, object{"apiUrl": address + path, "method": "GET"})
	}
	if output, failed := call("/3"); failed != nil || output["status"] != 200.0 {
		t.Errorf("three redirects: %v, %v", output, failed)
	}
	if _, failed := call("/4"); failed == nil || !strings.Contains(string(failed.Details), `"redirect"`) {
		t.Errorf("four redirects: %v", failed)
	}
	if _, failed := call("/inside"); failed == nil || failed.Code != component.CodeAddressBlocked {
		t.Errorf("a redirect to a private address: %v", failed)
	}
	if _, failed := call("/away"); failed != nil || secretSeen != "" {
		t.Errorf("the header %q went to another host, %v", secretSeen, failed)
	}
}

func TestErrorNeverContainsHeaderValue(t *testing.T) {
	bench, address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(500)
		fmt.Fprintf(w, "bad credentials %s", r.Header.Get("Authorization"))
	})
	_, failed := run(t, bench, object{"headers": object{"Authorization": "Bearer canary-0123456789"}}, object{"apiUrl": address, "method": "GET"})
	if failed == nil || strings.Contains(fmt.Sprintf("%v %s", failed, failed.Details), "canary") || !strings.Contains(failed.Message, component.Redacted) {
		t.Errorf("got %v %s", failed, failed.Details)
	}
}

func TestRedirectDoesNotSendBodyToAnotherOrigin(t *testing.T) {
	var arrived bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived = true }))
	t.Cleanup(other.Close)
	bench, address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/path", http.StatusPermanentRedirect)
	})
	_, failed := run(t, bench, object{"body": object{"card": "4711"}}, object{"apiUrl": address, "method": "POST"})
	if failed == nil || failed.Code != component.CodeUpstream || failed.Retryable || !strings.Contains(failed.Message, "redirects to another origin.") || !strings.Contains(string(failed.Details), `"redirectsTo":"`+other.URL+`"`) {
		t.Errorf("got %v", failed)
	}
	if arrived {
		t.Error("the other origin was called")
	}
}
