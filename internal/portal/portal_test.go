package portal

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestThePortalLoadsNothingFromElsewhere(t *testing.T) {
	for path, contentType := range map[string]string{
		"/docs":           "text/html; charset=utf-8",
		"/docs/start.js":  "text/javascript; charset=utf-8",
		"/docs/scalar.js": "text/javascript; charset=utf-8",
	} {
		w := httptest.NewRecorder()
		Handler(nil).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != contentType || w.Body.Len() == 0 {
			t.Errorf("%s: %d %s, %d bytes", path, w.Code, w.Header().Get("Content-Type"), w.Body.Len())
		}
		if path == "/docs" {
			if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "connect-src 'self'") {
				t.Errorf("the page's policy is %q", csp)
			}
			if strings.Contains(w.Body.String(), "//") {
				t.Error("the page names another origin")
			}
		}
	}
}

func TestTheScriptTravelsCompressedWhereThatIsTaken(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/docs/scalar.js", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	Handler(nil).ServeHTTP(w, r)
	unpacked, err := gzip.NewReader(w.Body)
	if err != nil || w.Header().Get("Content-Encoding") != "gzip" {
		t.Fatalf("encoding %q, %v", w.Header().Get("Content-Encoding"), err)
	}
	if n, err := io.Copy(io.Discard, unpacked); err != nil || n < 1<<20 {
		t.Errorf("%d bytes, %v", n, err)
	}
}
