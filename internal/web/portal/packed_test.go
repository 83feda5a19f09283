package portal

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A large text is compressed if the client accepts gzip. Each form has its own ETag, and only the
// ETag of the form that the client accepts results in 304.
func TestLargeTextsAreCompressedIfAccepted(t *testing.T) {
	t.Parallel()
	handler := Handler(all(t))
	send := func(path, encodings, held string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Accept-Encoding", encodings)
		r.Header.Set("If-None-Match", held)
		handler.ServeHTTP(w, r)
		return w
	}
	for _, path := range []string{"/docs", "/docs/errors", "/docs/components", "/docs/components/HASH", "/docs/components/HASH.md", "/docs/reference", "/docs/reference.md", "/docs/search.json", "/docs/signers/weft_curl.sh", assetPath("style.css")} {
		plain, packed := send(path, "gzip;q=0", ""), send(path, "br, gzip", "")
		unpacked, err := gzip.NewReader(packed.Body)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		length := packed.Body.Len()
		text, err := io.ReadAll(unpacked)
		if err != nil || !bytes.Equal(text, plain.Body.Bytes()) || length*10 > len(text)*6 {
			t.Errorf("%s: %d bytes of %d, %v", path, length, len(text), err)
		}
		if packed.Header().Get("Content-Encoding") != "gzip" || plain.Header().Get("Content-Encoding") != "" || packed.Header().Get("Content-Type") != plain.Header().Get("Content-Type") {
			t.Errorf("%s: %v, plain %v", path, packed.Header(), plain.Header())
		}
		for _, w := range []*httptest.ResponseRecorder{plain, packed} {
			if w.Header().Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s: Vary is %q", path, w.Header().Get("Vary"))
			}
		}
		of := map[string]string{"": plain.Header().Get("ETag"), "gzip": packed.Header().Get("ETag")}
		if of[""] == of["gzip"] {
			t.Errorf("%s: both forms have the ETag %s", path, of[""])
		}
		for encodings := range of {
			for form, held := range of {
				if code := send(path, encodings, held).Code; (code == http.StatusNotModified) != (form == encodings) {
					t.Errorf("%s as %q with the ETag of the form %q: %d", path, encodings, form, code)
				}
			}
		}
	}
	// A page with the origin of the request isn't compressed, because it differs between
	// requests.
	for _, path := range []string{"/docs/signing.md", "/docs/signers.md"} {
		if h := send(path, "gzip", "").Header(); h.Get("Content-Encoding") != "" || h.Get("Vary") != "Host, X-Forwarded-Proto" {
			t.Errorf("%s: %v", path, h)
		}
	}
}
