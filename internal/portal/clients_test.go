package portal

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weft-automation/weft/conformance/clients"
)

// One folder of a running deployment has all that a client needs, its signer too.
func TestTheClientsAreServed(t *testing.T) {
	handler := Handler(nil)
	for _, language := range clients.Languages {
		for _, name := range append([]string{language.Signer}, language.Files...) {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/docs/clients/"+language.Name+"/"+name, nil))
			if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" || w.Body.Len() < 1000 {
				t.Errorf("%s/%s: %d %s", language.Name, name, w.Code, w.Header().Get("Content-Type"))
			}
		}
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/docs/clients/python/none.py", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("a file that there is not: %d", w.Code)
	}
}
