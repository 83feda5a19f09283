// Package portal serves the docs at /docs: guides in Markdown, a page for each component, and the
// reference of the API.
//
// Guides are rendered on first use, component pages come from the catalogue, and the reader's
// browser renders the reference from openapi.yaml. Codes, components and vectors are taken from
// the service, so no page can differ from what is served.
//
// Everything is embedded. The one invariant: no page requests anything from another origin, which
// the content security policy enforces.
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

// pagePolicy allows the pages their own style, script and service alone.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// The types of what is served.
const (
	htmlType     = "text/html; charset=utf-8"
	markdownType = "text/markdown; charset=utf-8"
	textType     = "text/plain; charset=utf-8"
	jsonType     = "application/json"
	styleType    = "text/css; charset=utf-8"
	scriptType   = "text/javascript; charset=utf-8"
	svgType      = "image/svg+xml"
)

// Paths are the patterns of what Handler serves, for who mounts it beside other things.
var Paths = []string{"GET /docs", "GET /docs.md", "GET /docs/{file...}", "GET /llms.txt", "GET /robots.txt", "GET /favicon.svg"}

// Handler serves GET /docs and what is below it, /docs.md and /llms.txt: the guides,
// the reference, the pages of these components, and what all of them load; and /robots.txt
// and /favicon.svg, which are of the whole deployment. Nothing is read or rendered before it
// is asked for.
func Handler(components []api.Component) *http.ServeMux {
	mux := http.NewServeMux()
	l := newLibrary(components)
	mountGuides(mux, l)
	mountComponents(mux, l)
	mountReference(mux)
	mountKit(mux)
	mountAssets(mux)
	mountMissing(mux, l)
	mux.Handle("GET /docs/{$}", http.RedirectHandler("/docs", http.StatusMovedPermanently))
	return mux
}

// forms are the two forms of the pages.
type forms struct {
	html     *htmltemplate.Template
	markdown *texttemplate.Template
}

// templates are read when the first page is asked for.
var templates = sync.OnceValues(func() (*forms, error) {
	words := map[string]any{
		"json": catalog.Readable, "price": catalog.PriceInWords, "cell": cell, "sentence": catalog.FirstSentence, "escape": escapeMarkdown, "port": catalog.PortInWords,
		"asset": assetPath, "line": func(text string) string {
			return strings.Join(strings.Fields(strings.ReplaceAll(text, "|", `\|`)), " ")
		}, "chapters": func() []chapter { return chapters }, "signers": func() []kitFile { return signerFiles }, "clients": clientFolders,
		"breakable": breakable, "highlight": func(language, code string) htmltemplate.HTML { return htmltemplate.HTML(highlight(language, code)) },
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

// mount serves a page in both forms: as HTML, and with .md behind its path as Markdown.
func mount(mux *http.ServeMux, path, name string, dataFunc func() (any, error)) {
	mux.Handle("GET "+path, newDocument(htmlType, func() ([]byte, error) { return renderHTML(name, dataFunc) }))
	mux.Handle("GET "+path+".md", newDocument(markdownType, func() ([]byte, error) { return renderText(name, dataFunc) }))
}

// renderHTML fills in pages/NAME.html, renderText pages/NAME.md.
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
		return nil, fmt.Errorf("make the page: %w", err)
	}
	var page bytes.Buffer
	err = fillFunc(made, &page, data)
	return bytes.Clone(page.Bytes()), err // it is kept: without the room that it grew into
}

// nothing is the data of a page that is always the same.
func nothing() (any, error) { return nil, nil }

// document is what one path serves. It is made once, when somebody asks for it: a large one
// takes milliseconds, and whoever asks need not say who they are.
type document struct {
	contentType, policy string
	makeOnce            func() (tagged, error)
}

// tagged is a text and its entity tag, which no other text has.
type tagged struct {
	text   []byte
	tag    string
	packed []byte // the text in gzip; nil where it is sent as it is to everybody
}

// worthPacking is the length from which a text is sent compressed: a shorter one fills no
// more than one packet as it is.
const worthPacking = 1400

// newTagged tags a text and compresses it, once for all who ask. One that names the
// deployment by the address that the reader came by is another for each, and stays as it is.
func newTagged(text []byte, contentType string) tagged {
	made := tagged{text: text, tag: tagOf(text)}
	if len(text) >= worthPacking && (contentType != markdownType || !bytes.Contains(text, []byte(local))) {
		made.packed = protocol.Gzip(text)
	}
	return made
}

// packedTag is the entity tag of the compressed form of what has that tag.
func packedTag(tag string) string { return strings.TrimSuffix(tag, `"`) + `-gzip"` }

func tagOf(text []byte) string {
	sum := sha256.Sum256(text)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

func newDocument(contentType string, makeFunc func() ([]byte, error)) *document {
	return &document{contentType, pagePolicy, sync.OnceValues(func() (tagged, error) {
		text, err := makeFunc()
		if err == nil && contentType == markdownType {
			text, err = leadToMarkdown(text)
		}
		return newTagged(text, contentType), err
	})}
}

func (d *document) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.serve(w, r, "no-cache") }

// serve sends the document, or to who has it already that it is the same.
func (d *document) serve(w http.ResponseWriter, r *http.Request, cache string) {
	made, err := d.makeOnce()
	if err != nil {
		fail(w)
		return
	}
	if d.contentType == markdownType && bytes.Contains(made.text, []byte(local)) {
		made, cache = made.reachedAt(originOf(r.Context())), "private, no-cache"
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

// fail answers where something embedded cannot be read, which no test would let pass.
func fail(w http.ResponseWriter) {
	http.Error(w, "the page cannot be made", http.StatusInternalServerError)
}

func describe(h http.Header, contentType, cache string) {
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", cache)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
}

// Missing is the pattern of the page that says that there is no such page. It is for people:
// to programs whoever serves this says so in its own form.
const Missing = "GET /docs/{page...}"

// missingPage leads who asked for a page that there is not to one that there is.
type missingPage struct {
	Component bool   // it would be one of a component
	Meant     string // the path of the page whose name differs in its case only, or in a slash; "" for none
}

func mountMissing(mux *http.ServeMux, l *library) {
	mux.HandleFunc(Missing, func(w http.ResponseWriter, r *http.Request) {
		asked := strings.TrimRight(r.PathValue("page"), "/")
		data := missingPage{Component: strings.HasPrefix(asked, "components/")}
		for _, path := range l.paths() {
			if strings.EqualFold("/docs/"+asked, path) {
				data.Meant = path
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
