package evm

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
)

// Every module that calls a node sends the headers of its input. They are secret fields, so they
// don't follow a changed origin, and a redirect to another origin doesn't get them.
func TestHeadersReachOnlyTheNode(t *testing.T) {
	t.Parallel()
	const credentials = "Basic dXNlcjpodW50ZXIyaHVudGVyMg=="
	var leaked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		leaked.Store(leaked.Load() || r.Header.Get("Authorization") != "")
	}))
	t.Cleanup(other.Close)
	var wrong atomic.Pointer[http.Header]
	var seen atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		if r.Header.Get("Authorization") != credentials || r.Header.Get("Content-Type") != "application/json" {
			wrong.Store(&r.Header)
		}
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(server.Close)
	list := modules(t)
	bench := componenttest.New(t, list...)
	for module, input := range nodeQueries(t, list) {
		input["jsonRpcUrl"], input["headers"] = server.URL, map[string]string{"Authorization": credentials, "content-type": "text/plain"}
		before := seen.Load()
		_, failed := bench.Run(t, module, text(t, input), `{}`)
		if seen.Load() == before || failed != nil && strings.Contains(failed.Error()+string(failed.Details), "hunter2") {
			t.Errorf("%s: no request was made, or the error shows a secret: %v", module, failed)
		}
		entry, _ := bench.Registry.Lookup(module)
		if shown := string(entry.RedactInput([]byte(text(t, input)))); strings.Contains(shown, credentials) || !strings.Contains(shown, component.Redacted) {
			t.Errorf("%s: %s shows a header", module, shown)
		}
		input["headers"] = map[string]string{"Host": "a.test"}
		if err := bench.Registry.Check(module, []byte(text(t, input)), []byte(`{}`)); err == nil {
			t.Errorf("%s accepts a header that controls the connection", module)
		}
	}
	if header := wrong.Load(); header != nil || leaked.Load() {
		t.Errorf("a node got %v; the other origin got a header: %v", header, leaked.Load())
	}
}
