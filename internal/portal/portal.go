// Package portal owns the docs at /docs: guides, written as Markdown and rendered
// when they are first asked for; a page for each component, made from its entry in
// the catalogue; and the reference, made in the reader's browser from /openapi.json.
// What the service decides (codes, components, vectors) is taken from it, so that no
// page can differ from what is served.
//
// Everything is embedded. The one invariant: no page asks anything of another
// origin, and the content security policy makes the browser hold to that.
package portal

import (
	"bytes"
	"embed"
	"fmt"
	htmltemplate "html/template"
	"net/http"
	"strings"
	"sync"
	texttemplate "text/template"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/catalog"
)

//go:embed pages
var pages embed.FS

// pagePolicy allows the pages their own style, script and service alone.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves GET /docs and what is below it, /docs.md and /llms.txt: the guides,
// the reference, the pages of these components, and what all of them load. Nothing is
// read or rendered before it is asked for.
func Handler(components []api.Component) *http.ServeMux {
	mux := http.NewServeMux()
	l := newLibrary(components)
	mountGuides(mux, l)
	mountComponents(mux, l)
	mountReference(mux)
	mountSigning(mux)
	mountClients(mux)
	mountAssets(mux)
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
		"json": catalog.Readable, "price": catalog.PriceInWords, "cell": cell, "sentence": catalog.FirstSentence, "nest": nest, "escape": escapeMarkdown, "port": catalog.PortInWords,
		"asset": assetPath, "line": func(text string) string {
			return strings.Join(strings.Fields(strings.ReplaceAll(text, "|", `\|`)), " ")
		}, "chapters": func() []chapter { return chapters },
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
	mountForm(mux, path, pagePolicy, "text/html; charset=utf-8", dataFunc, func(f *forms, to *bytes.Buffer, data any) error {
		return f.html.ExecuteTemplate(to, name+".html", data)
	})
	mountForm(mux, path+".md", pagePolicy, "text/markdown; charset=utf-8", dataFunc, func(f *forms, to *bytes.Buffer, data any) error {
		return f.markdown.ExecuteTemplate(to, name+".md", data)
	})
}

// mountForm serves a page in one form. It is made once, when somebody asks for it: a large
// one takes milliseconds, and whoever asks need not say who they are.
func mountForm(mux *http.ServeMux, path, policy, contentType string, dataFunc func() (any, error), renderFunc func(*forms, *bytes.Buffer, any) error) {
	pageFunc := sync.OnceValues(func() ([]byte, error) { return render(dataFunc, renderFunc) })
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
		page, err := pageFunc()
		if err != nil {
			http.Error(w, "the page cannot be made", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Security-Policy", policy)
		write(w, contentType, "no-cache", page)
	})
}

func render(dataFunc func() (any, error), renderFunc func(*forms, *bytes.Buffer, any) error) ([]byte, error) {
	made, err := templates()
	if err != nil {
		return nil, fmt.Errorf("read the templates: %w", err)
	}
	data, err := dataFunc()
	if err != nil {
		return nil, fmt.Errorf("make the page: %w", err)
	}
	var page bytes.Buffer
	err = renderFunc(made, &page, data)
	return bytes.Clone(page.Bytes()), err // it is kept: without the room that it grew into
}

func write(w http.ResponseWriter, contentType, cache string, body []byte) {
	describe(w.Header(), contentType, cache)
	_, _ = w.Write(body)
}

func describe(h http.Header, contentType, cache string) {
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", cache)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
}
