package portal

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"sync"
)

// scalar is the script of the reference, compressed: assets/README.md says where it is from.
//
//go:embed assets/scalar-1.72.1.js.gz
var scalar []byte

const scalarFile = "scalar.js"

// assets are what pages load, and their types.
var assets = map[string]string{
	"base.css": "text/css; charset=utf-8", "style.css": "text/css; charset=utf-8", "reference.css": "text/css; charset=utf-8",
	"theme.js": "text/javascript; charset=utf-8", "page.js": "text/javascript; charset=utf-8", "search.js": "text/javascript; charset=utf-8",
	"signer.js": "text/javascript; charset=utf-8", "try.js": "text/javascript; charset=utf-8", "reference.js": "text/javascript; charset=utf-8",
	scalarFile: "text/javascript; charset=utf-8",
}

// assetHash is of all assets together, so that one that changes is asked for anew.
var assetHash = sync.OnceValue(func() string {
	sum := sha256.New()
	_, _ = sum.Write(scalar)
	entries, err := pages.ReadDir("pages")
	if err != nil {
		return "none"
	}
	for _, entry := range entries {
		if text, err := pages.ReadFile("pages/" + entry.Name()); err == nil {
			_, _ = sum.Write(text)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
})

func assetPath(name string) string { return "/docs/assets/" + assetHash() + "/" + name }

// mountAssets serves what pages load, for good under the hash of what there is, and else
// as long as somebody asks: beside a process of another version a page may name another.
func mountAssets(mux *http.ServeMux) {
	for name, contentType := range assets {
		mux.HandleFunc("GET /docs/assets/{hash}/"+name, func(w http.ResponseWriter, r *http.Request) {
			cache := "no-cache"
			if r.PathValue("hash") == assetHash() {
				cache = "public, max-age=31536000, immutable"
			}
			if name == scalarFile {
				serveScalar(w, r, contentType, cache)
				return
			}
			text, err := pages.ReadFile("pages/" + name)
			if err != nil {
				http.Error(w, "the file cannot be read", http.StatusInternalServerError)
				return
			}
			write(w, contentType, cache, text)
		})
	}
}

// serveScalar sends the script as it is stored, compressed, to whoever takes
// that; else unpacked.
func serveScalar(w http.ResponseWriter, r *http.Request, contentType, cache string) {
	w.Header().Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		write(w, contentType, cache, scalar)
		return
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(scalar))
	if err != nil {
		http.Error(w, "the script cannot be read", http.StatusInternalServerError)
		return
	}
	write(w, contentType, cache, nil)
	_, _ = io.Copy(w, unpacked)
}
