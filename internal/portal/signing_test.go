package portal

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/weft-automation/weft/conformance/signers"
	"github.com/weft-automation/weft/gen/api"
)

// Who has only a running deployment has the signing kit too.
func TestTheSigningKitIsServed(t *testing.T) {
	handler := Handler(nil)
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	vectors := get("/docs/signing-vectors.json")
	var read struct{ Requests []struct{ Signature string } }
	if err := json.Unmarshal(vectors.Body.Bytes(), &read); err != nil || len(read.Requests) < 30 || vectors.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%d requests, %v, %v", len(read.Requests), vectors.Header(), err)
	}
	for _, name := range signers.Names {
		w := get("/docs/signers/" + name)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" || !strings.Contains(w.Body.String(), "stands alone") {
			t.Errorf("%s: %d %s", name, w.Code, w.Header().Get("Content-Type"))
		}
	}
	if w := get("/docs/signers/none"); w.Code != http.StatusNotFound {
		t.Errorf("a signer that there is not: %d", w.Code)
	}
}

// What the document links to in the docs is there.
func TestLinksOfTheDocumentAreServed(t *testing.T) {
	handler := Handler(nil)
	links := regexp.MustCompile(`\]\((/docs/[^)]+)\)`).FindAllSubmatch(api.SpecYAML(), -1)
	if len(links) <= len(signers.Names) {
		t.Fatalf("%d links", len(links))
	}
	for _, link := range links {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, string(link[1]), nil))
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d", link[1], w.Code)
		}
	}
}
