package portal

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	htmltemplate "html/template"
	"net/http"
	"slices"
	"strings"
	"sync"
	texttemplate "text/template"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/catalog"
)

//go:embed pages
var pages embed.FS

// pagePolicy allows the pages of components their own style and script alone.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// library is what the pages of components are made from.
type library struct {
	categories []category
	all        []api.Component
}

// category is a family of components in the index.
type category struct {
	Name, About string
	Components  []api.Component
}

// abouts are the families, in their order, and what each is about.
var abouts = []struct{ name, about string }{
	{"LOGIC", "Where runs begin and end, conditions, loops, waits and constants. They cost nothing."},
	{"HTTP", "Calls of other services."},
	{"UTILITY", "Random values, digests, encodings, numbers, texts and encryption."},
	{"EVM", "Chains of the Ethereum kind: reading, encoding, signing, sending and waiting."},
}

func newLibrary(all []api.Component) *library {
	l := &library{all: all}
	for _, known := range abouts {
		l.add(known.name, known.about)
	}
	for _, one := range all {
		if !slices.ContainsFunc(l.categories, func(c category) bool { return c.Name == one.Category }) {
			l.add(one.Category, "")
		}
	}
	return l
}

func (l *library) add(name, about string) {
	c := category{Name: name, About: about}
	for _, one := range l.all {
		if one.Category == name {
			c.Components = append(c.Components, one)
		}
	}
	if len(c.Components) > 0 {
		l.categories = append(l.categories, c)
	}
}

// componentPage is what a page of one component shows.
type componentPage struct {
	Categories     []category
	Component      api.Component
	Parts          []part
	Call           string // "" where it is executed inside a workflow only
	Request        string
	Place          string // the component in a workflow
	Price, Timeout string
	Effect, Repeat string
	Modes          string
	Before, After  string // the neighbours
}

// request is the body of a call, in the order in which it is read.
type request struct {
	Module    string          `json:"module"`
	Input     json.RawMessage `json:"input"`
	Config    json.RawMessage `json:"config"`
	WaitForMs int             `json:"waitForMs"`
}

// place is the component in a workflow, likewise.
type place struct {
	ID     string          `json:"id"`
	Module string          `json:"module"`
	Input  json.RawMessage `json:"input"`
	Config json.RawMessage `json:"config"`
}

// part is the input, the config or the output.
type part struct {
	catalog.Object
	Title  string
	Given  bool // by the caller
	Schema string
}

func (l *library) page(i int) (componentPage, error) {
	c := l.all[i]
	p := componentPage{
		Categories: l.categories, Component: c, Call: catalog.CallLine(c),
		Price: catalog.PriceInWords(c), Timeout: catalog.TimeoutInWords(c), Modes: catalog.ModesInWords(c),
		Effect: catalog.EffectInWords(c.Effect), Repeat: catalog.RepeatInWords(c.Repeat),
	}
	if i > 0 {
		p.Before = l.all[i-1].Module
	}
	if i+1 < len(l.all) {
		p.After = l.all[i+1].Module
	}
	input, config := catalog.Sample(c)
	request, err := json.Marshal(request{c.Module, input, config, 15000})
	if err != nil {
		return p, err
	}
	place, err := json.Marshal(place{strings.ToLower(c.Module), c.Module, input, config})
	if err != nil {
		return p, err
	}
	p.Request, p.Place = catalog.Indented(request), catalog.Indented(place)
	for _, one := range []struct {
		title  string
		schema json.RawMessage
	}{{"Input", c.Input}, {"Config", c.Config}, {output, c.Output}} {
		object, err := catalog.ReadObject(one.schema)
		if err != nil {
			return p, err
		}
		p.Parts = append(p.Parts, part{Object: object, Title: one.title, Given: one.title != output, Schema: catalog.Indented(one.schema)})
	}
	return p, nil
}

// templates are the two forms of the pages, read when the first one is asked for.
var templates = sync.OnceValues(func() (*forms, error) {
	words := map[string]any{
		"json": catalog.Readable, "price": catalog.PriceInWords, "cell": cell, "sentence": catalog.FirstSentence, "nest": nest, "escape": escapeMarkdown, "port": catalog.PortInWords,
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

type forms struct {
	html     *htmltemplate.Template
	markdown *texttemplate.Template
}

// output is the part that a component gives.
const output = "Output"

// nested is a field and how deep it stands.
type nested struct {
	catalog.Field
	Part  string // of the component, in lower case
	Path  string
	Depth int
	Given bool // by the caller
}

// nest gives a field of a part and, after it, those inside of it.
func nest(f catalog.Field, part string) []nested {
	var all []nested
	var walk func(f catalog.Field, path string, depth int)
	walk = func(f catalog.Field, path string, depth int) {
		all = append(all, nested{Field: f, Part: strings.ToLower(part), Path: path, Depth: depth, Given: part != output})
		for _, inner := range f.Fields {
			walk(inner, path+"."+inner.Name, depth+1)
		}
	}
	walk(f, f.Name, 0)
	return all
}

// escapeMarkdown keeps a text from being read as Markdown or HTML.
func escapeMarkdown(text string) string {
	return strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "<", "&lt;", ">", "&gt;", "|", `\|`, "\n", " ").Replace(text)
}

// cell is a text as code in a cell of a Markdown table.
func cell(text string) string {
	text = strings.NewReplacer("|", `\|`, "\n", " ").Replace(text)
	if strings.Contains(text, "`") {
		return "`` " + text + " ``"
	}
	return "`" + text + "`"
}

// mountComponents puts the pages of the catalogue under /docs/components. Each component
// has a path of its own, so that what there is not is not found.
func mountComponents(mux *http.ServeMux, all []api.Component) {
	l := newLibrary(all)
	index := map[string]any{"Categories": l.categories, "Count": len(all)}
	mount(mux, "/docs/components", "index", func() (any, error) { return index, nil })
	for i, one := range all {
		mount(mux, "/docs/components/"+one.Module, "component", func() (any, error) { return l.page(i) })
	}
	for file, contentType := range map[string]string{"style.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"} {
		mux.HandleFunc("GET /docs/assets/"+file, func(w http.ResponseWriter, _ *http.Request) {
			text, err := pages.ReadFile("pages/" + file)
			if err != nil {
				http.Error(w, "the file cannot be read", http.StatusInternalServerError)
				return
			}
			write(w, contentType, "no-cache", text)
		})
	}
}

// mount serves a page in both forms: as HTML, and with .md behind its path as Markdown.
// Each is made once, when somebody asks for it: a large one takes milliseconds, and whoever
// asks need not say who they are.
func mount(mux *http.ServeMux, path, name string, dataFunc func() (any, error)) {
	serve := func(suffix, contentType string, renderFunc func(*forms, *bytes.Buffer, any) error) {
		pageFunc := sync.OnceValues(func() ([]byte, error) { return render(dataFunc, renderFunc) })
		mux.HandleFunc("GET "+path+suffix, func(w http.ResponseWriter, _ *http.Request) {
			page, err := pageFunc()
			if err != nil {
				http.Error(w, "the page cannot be made", http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Security-Policy", pagePolicy)
			write(w, contentType, "no-cache", page)
		})
	}
	serve("", "text/html; charset=utf-8", func(f *forms, to *bytes.Buffer, data any) error {
		return f.html.ExecuteTemplate(to, name+".html", data)
	})
	serve(".md", "text/markdown; charset=utf-8", func(f *forms, to *bytes.Buffer, data any) error {
		return f.markdown.ExecuteTemplate(to, name+".md", data)
	})
}

func render(dataFunc func() (any, error), renderFunc func(*forms, *bytes.Buffer, any) error) ([]byte, error) {
	made, err := templates()
	if err != nil {
		return nil, fmt.Errorf("read the templates: %w", err)
	}
	data, err := dataFunc()
	if err != nil {
		return nil, fmt.Errorf("describe the component: %w", err)
	}
	var page bytes.Buffer
	err = renderFunc(made, &page, data)
	return bytes.Clone(page.Bytes()), err // it is kept: without the room that it grew into
}
