package portal

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/weft-automation/weft/internal/web/protocol"
)

// scalar is the compressed script of the reference. assets/README.md states its source.
//
//go:embed assets/scalar-1.72.1.js.gz
var scalar []byte

const scalarFile = "scalar.js"

const favicon = "favicon.svg"

// assets maps the other files that pages load to their content types.
var assets = map[string]string{
	"base.css": styleType, "style.css": styleType, "reference.css": styleType,
	"theme.js": scriptType, "page.js": scriptType, "search.js": scriptType,
	"signer.js": scriptType, "try.js": scriptType, "reference.js": scriptType,
	favicon: svgType,
}

// assetHash returns a hash of all assets. It is part of their path, so that browsers reload
// changed assets.
var assetHash = sync.OnceValue(func() string {
	sum := sha256.New()
	_, _ = sum.Write(scalar)
	for _, name := range slices.Sorted(maps.Keys(assets)) {
		text, _ := pages.ReadFile("pages/" + name) // a missing file isn't served either
		_, _ = sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
})

func assetPath(name string) string { return "/docs/assets/" + assetHash() + "/" + name }

// mountAssets serves the assets. Under the current hash they can be cached forever. Under a
// different hash they are served without caching, because during an upgrade a page may come from a
// process of a different version.
func mountAssets(mux *http.ServeMux) {
	mountAsset(mux, scalarFile, serveScalar)
	for name, contentType := range assets {
		mountAsset(mux, name, newEmbedded(contentType, name).serve)
	}
	mux.Handle("GET /robots.txt", newEmbedded(textType, "robots.txt"))
	mux.Handle("GET /"+favicon, newEmbedded(svgType, favicon))
}

// newEmbedded returns a document with the content of a file in pages.
func newEmbedded(contentType, name string) *document {
	return newDocument(contentType, func() ([]byte, error) { return pages.ReadFile("pages/" + name) })
}

func mountAsset(mux *http.ServeMux, name string, serveFunc func(w http.ResponseWriter, r *http.Request, cache string)) {
	mux.HandleFunc("GET /docs/assets/{hash}/"+name, func(w http.ResponseWriter, r *http.Request) {
		cache := "no-cache"
		if r.PathValue("hash") == assetHash() {
			cache = "public, max-age=31536000, immutable"
		}
		serveFunc(w, r, cache)
	})
}

// serveScalar sends the script compressed, as it is stored, or uncompressed if the client
// doesn't accept gzip.
func serveScalar(w http.ResponseWriter, r *http.Request, cache string) {
	describe(w.Header(), scriptType, cache)
	w.Header().Set("Vary", "Accept-Encoding")
	if protocol.AcceptsGzip(r.Header.Values("Accept-Encoding")) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(scalar)
		return
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(scalar))
	if err != nil {
		fail(w)
		return
	}
	_, _ = io.Copy(w, unpacked)
}
