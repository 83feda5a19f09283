// Package portal serves the docs at /docs: guides in Markdown, a page for each component, and the
// API reference.
//
// Guides are rendered on first use, component pages come from the catalogue, and the reference
// from openapi.yaml. Codes, components and vectors come from the code of the service, so the pages
// always match it.
//
// Everything is embedded. Invariant: No page requests anything from a different origin. The content
// security policy enforces this.
package portal

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	htmltemplate "html/template"
	"net/http"
	"strings"
	"sync"
	texttemplate "text/template"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/web/catalog"
	"github.com/weft-automation/weft/internal/web/protocol"
)

//go:embed pages
var pages embed.FS

// pagePolicy limits pages to styles, scripts and requests to the same origin.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// The content types of documents.
const (
	htmlType     = "text/html; charset=utf-8"
	markdownType = "text/markdown; charset=utf-8"
	textType     = "text/plain; charset=utf-8"
	jsonType     = "application/json"
	styleType    = "text/css; charset=utf-8"
	scriptType   = "text/javascript; charset=utf-8"
	svgType      = "image/svg+xml"
)

// Paths are the patterns that Handler serves, to mount it next to other handlers.
var Paths = []string{"GET /{$}", "GET /docs", "GET /docs.md", "GET /docs/{file...}", "GET /llms.txt", "GET /robots.txt", "GET /favicon.svg"}

// Handler returns a handler of the docs: the guides, the reference, the pages of the components
// and their assets, under /docs, /docs.md and /llms.txt. It also serves /, /robots.txt and
// /favicon.svg for the whole deployment. Each document is read and rendered on the first
// request for it.
func Handler(components []api.Component) *http.ServeMux {
	mux := http.NewServeMux()
	l := newLibrary(components)
	mountGuides(mux, l)
	mountComponents(mux, l)
	mountReference(mux)
	mountKit(mux)
	mountAssets(mux)
	mountMissing(mux, l)
	return mux
}

// forms are the templates of both formats.
type forms struct {
	html     *htmltemplate.Template
	markdown *texttemplate.Template
}

// templates parses the templates on the first request for a page.
var templates = sync.OnceValues(func() (*forms, error) {
	words := map[string]any{
		"json": catalog.Readable, "price": catalog.PriceInWords, "cell": cell, "sentence": catalog.FirstSentence, "escape": escapeMarkdown, "port": catalog.PortInWords,
		"asset": assetPath, "line": func(text string) string {
			return strings.Join(strings.Fields(strings.ReplaceAll(text, "|", `\|`)), " ")
		}, "chapters": func() []chapter { return chapters }, "signers": func() []kitFile { return signerFiles }, "clients": clientFolders,
		"prose": prose, "breakable": breakable, "highlight": func(language, code string) htmltemplate.HTML { return htmltemplate.HTML(highlight(language, code)) },
	}
	html, err := htmltemplate.New("html").Funcs(words).ParseFS(pages, "pages/*.html")
	if err != nil {
		return nil, err
	}
	markdown, err := texttemplate.New("markdown").Funcs(words).ParseFS(pages, "pages/*.md")
	if err != nil {
		return nil, err
	}
	return &forms{html, markdown}, nil
})

// mount serves a page in both formats: as HTML at its path, and as Markdown at its path with .md.
func mount(mux *http.ServeMux, path, name string, dataFunc func() (any, error)) {
	mux.Handle("GET "+path, newDocument(htmlType, func() ([]byte, error) { return renderHTML(name, dataFunc) }))
	mux.Handle("GET "+path+".md", newDocument(markdownType, func() ([]byte, error) { return renderText(name, dataFunc) }))
}

// renderHTML executes the template pages/NAME.html. renderText executes pages/NAME.md.
func renderHTML(name string, dataFunc func() (any, error)) ([]byte, error) {
	return render(dataFunc, func(f *forms, to *bytes.Buffer, data any) error {
		return f.html.ExecuteTemplate(to, name+".html", data)
	})
}

func renderText(name string, dataFunc func() (any, error)) ([]byte, error) {
	return render(dataFunc, func(f *forms, to *bytes.Buffer, data any) error {
		return f.markdown.ExecuteTemplate(to, name+".md", data)
	})
}

func render(dataFunc func() (any, error), fillFunc func(*forms, *bytes.Buffer, any) error) ([]byte, error) {
	made, err := templates()
	if err != nil {
		return nil, fmt.Errorf("read the templates: %w", err)
	}
	data, err := dataFunc()
	if err != nil {
		return nil, fmt.Errorf("prepare the data of the page: %w", err)
	}
	var page bytes.Buffer
	err = fillFunc(made, &page, data)
	return bytes.Clone(page.Bytes()), err // the page stays in memory, so drop the unused capacity
}

// nothing is the data of a static page.
func nothing() (any, error) { return nil, nil }

// document is the content that one path serves. It is made once, on the first request, because
// making a large document takes milliseconds and callers are unauthenticated.
type document struct {
	contentType, policy string
	makeOnce            func() (tagged, error)
}

// tagged is a document body with its ETag, which is derived from the text.
type tagged struct {
	text   []byte
	tag    string
	packed []byte // the text in gzip; nil if it is never compressed
}

// worthPacking is the minimum length of a body to compress. A shorter one fits into one packet
// anyway.
const worthPacking = 1400

// newTagged returns the text with its ETag, and compressed if it is large. It doesn't compress a
// body that contains the address of the deployment, because that address differs between requests.
func newTagged(text []byte, contentType string) tagged {
	made := tagged{text: text, tag: tagOf(text)}
	if len(text) >= worthPacking && (contentType != markdownType || !bytes.Contains(text, []byte(local))) {
		made.packed = protocol.Gzip(text)
	}
	return made
}

// packedTag returns the ETag of the compressed form of a body with this ETag.
func packedTag(tag string) string { return strings.TrimSuffix(tag, `"`) + `-gzip"` }

func tagOf(text []byte) string {
	sum := sha256.Sum256(text)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

func newDocument(contentType string, makeFunc func() ([]byte, error)) *document {
	return &document{contentType, pagePolicy, sync.OnceValues(func() (tagged, error) {
		text, err := makeFunc()
		if err == nil && contentType == markdownType {
			text, err = linkToMarkdown(text)
		}
		return newTagged(text, contentType), err
	})}
}

func (d *document) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.serve(w, r, "no-cache") }

// serve sends the document, or 304 if the client has the current one.
func (d *document) serve(w http.ResponseWriter, r *http.Request, cache string) {
	made, err := d.makeOnce()
	if err != nil {
		fail(w)
		return
	}
	if d.contentType == markdownType && bytes.Contains(made.text, []byte(local)) {
		made, cache = made.atOrigin(originOf(r.Context())), "private, no-cache"
		w.Header().Set("Vary", "Host, X-Forwarded-Proto")
	}
	describe(w.Header(), d.contentType, cache)
	w.Header().Set("Content-Security-Policy", d.policy)
	text, tag := made.text, made.tag
	if made.packed != nil {
		w.Header().Set("Vary", "Accept-Encoding")
		if protocol.AcceptsGzip(r.Header.Values("Accept-Encoding")) {
			text, tag = made.packed, packedTag(made.tag)
			w.Header().Set("Content-Encoding", "gzip")
		}
	}
	w.Header().Set("ETag", tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}

// fail responds with 500. It is called only if an embedded file is invalid, which the tests would
// detect.
func fail(w http.ResponseWriter) {
	http.Error(w, "The page cannot be rendered.", http.StatusInternalServerError)
}

func describe(h http.Header, contentType, cache string) {
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", cache)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
}

// Missing is the pattern of the page for unknown paths. The page is for people. The server that
// mounts the portal responds to programs in a different format.
const Missing = "GET /docs/{page...}"

// missingPage is the data of the page for unknown paths.
type missingPage struct {
	Component  bool   // the path looks like that of a component
	Suggestion string // path of an existing page that differs only in case or in a trailing slash; "" without one
}

func mountMissing(mux *http.ServeMux, l *library) {
	mux.HandleFunc(Missing, func(w http.ResponseWriter, r *http.Request) {
		asked := strings.TrimRight(r.PathValue("page"), "/")
		data := missingPage{Component: strings.HasPrefix(asked, "components/")}
		for _, path := range l.paths() {
			if strings.EqualFold("/docs/"+asked, path) {
				data.Suggestion = path
			}
		}
		page, err := renderHTML("missing", func() (any, error) { return data, nil })
		if err != nil {
			fail(w)
			return
		}
		describe(w.Header(), htmlType, "no-cache")
		w.Header().Set("Content-Security-Policy", pagePolicy)
		w.Header().Set("Vary", "Accept")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(page)
	})
}
