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

// scalar is the script of the reference, compressed: assets/README.md says where it is from.
//
//go:embed assets/scalar-1.72.1.js.gz
var scalar []byte

const scalarFile = "scalar.js"

const favicon = "favicon.svg"

// assets are what pages load beside it, and their types.
var assets = map[string]string{
	"base.css": styleType, "style.css": styleType, "reference.css": styleType,
	"theme.js": scriptType, "page.js": scriptType, "search.js": scriptType,
	"signer.js": scriptType, "try.js": scriptType, "reference.js": scriptType,
	favicon: svgType,
}

// assetHash is of all assets together, so that one that changes is asked for anew.
var assetHash = sync.OnceValue(func() string {
	sum := sha256.New()
	_, _ = sum.Write(scalar)
	for _, name := range slices.Sorted(maps.Keys(assets)) {
		text, _ := pages.ReadFile("pages/" + name) // one that is not there is not served either
		_, _ = sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
})

func assetPath(name string) string { return "/docs/assets/" + assetHash() + "/" + name }

// mountAssets serves what pages load, for good under the hash of what there is, and else
// as long as somebody asks: beside a process of another version a page may name another.
func mountAssets(mux *http.ServeMux) {
	mountAsset(mux, scalarFile, serveScalar)
	for name, contentType := range assets {
		mountAsset(mux, name, newEmbedded(contentType, name).serve)
	}
	mux.Handle("GET /robots.txt", newEmbedded(textType, "robots.txt"))
	mux.Handle("GET /"+favicon, newEmbedded(svgType, favicon))
}

// newEmbedded serves a file of pages as it is.
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

// serveScalar sends the script as it is stored, compressed, to whoever takes
// that; else unpacked.
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
