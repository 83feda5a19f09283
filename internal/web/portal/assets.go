package portal

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/weft-automation/weft/internal/web/style"
)

const favicon = "favicon.svg"

// assets maps the other files that pages load to their content types.
var assets = map[string]string{
	"base.css": styleType, "style.css": styleType,
	"theme.js": scriptType, "page.js": scriptType, "search.js": scriptType,
	"signer.js": scriptType, "try.js": scriptType,
	favicon: svgType,
}

// assetHash returns a hash of all assets. It is part of their path, so that browsers reload
// changed assets.
var assetHash = sync.OnceValue(func() string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(assets)) {
		text, _ := embedded(name) // a missing file isn't served either
		_, _ = sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
})

func assetPath(name string) string { return "/docs/assets/" + assetHash() + "/" + name }

// mountAssets serves the assets. Under the current hash they can be cached forever. Under a
// different hash they are served without caching, because during an upgrade a page may come from a
// process of a different version.
func mountAssets(mux *http.ServeMux) {
	for name, contentType := range assets {
		mountAsset(mux, name, newEmbedded(contentType, name).serve)
	}
	mux.Handle("GET /robots.txt", newEmbedded(textType, "robots.txt"))
	mux.Handle("GET /"+favicon, newEmbedded(svgType, favicon))
}

// newEmbedded returns a document with the content of a file in pages.
func newEmbedded(contentType, name string) *document {
	return newDocument(contentType, func() ([]byte, error) { return embedded(name) })
}

// embedded returns the content of a file in pages. The base of the style sheets starts with the
// tokens that all pages of Weft share.
func embedded(name string) ([]byte, error) {
	text, err := pages.ReadFile("pages/" + name)
	if err == nil && name == "base.css" {
		text = append([]byte(style.Tokens), text...)
	}
	return text, err
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
