// Package portal owns the docs portal at /docs: the reference, made in the
// reader's browser from /openapi.json, and a page for each component, made from
// its entry in the catalogue, so that neither can differ from what is served.
//
// Everything is embedded. The one invariant: no page asks anything of another
// origin, and the content security policy makes the browser hold to that.
package portal

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"net/http"
	"strings"

	"github.com/weft-automation/weft/gen/api"
)

var (
	//go:embed page.html
	page []byte
	//go:embed start.js
	start []byte
	//go:embed assets/scalar-1.72.1.js.gz
	scalar []byte
)

// policy allows the page its own scripts and data alone. The reference styles
// itself at run time, hence the inline styles.
const policy = "default-src 'none'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; " +
	"img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves GET /docs, the pages of these components, and what all of them load.
func Handler(components []api.Component) *http.ServeMux {
	mux := http.NewServeMux()
	mountComponents(mux, components)
	mountSigning(mux)
	mountClients(mux)
	mux.HandleFunc("GET /docs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		write(w, "text/html; charset=utf-8", "no-cache", page)
	})
	mux.Handle("GET /docs/{$}", http.RedirectHandler("/docs", http.StatusMovedPermanently))
	mux.HandleFunc("GET /docs/start.js", func(w http.ResponseWriter, _ *http.Request) {
		write(w, "text/javascript; charset=utf-8", "no-cache", start)
	})
	mux.HandleFunc("GET /docs/scalar.js", serveScalar)
	return mux
}

func write(w http.ResponseWriter, contentType, cache string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", cache)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(body)
}

// serveScalar sends the script as it is stored, compressed, to whoever takes
// that; else unpacked.
func serveScalar(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		write(w, "text/javascript; charset=utf-8", "public, max-age=86400", scalar)
		return
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(scalar))
	if err != nil {
		http.Error(w, "the script cannot be read", http.StatusInternalServerError)
		return
	}
	write(w, "text/javascript; charset=utf-8", "public, max-age=86400", nil)
	_, _ = io.Copy(w, unpacked)
}
