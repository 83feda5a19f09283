package portal

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/catalog"
)

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
func mountComponents(mux *http.ServeMux, l *library) {
	index := map[string]any{"Categories": l.categories, "Count": len(l.all)}
	mount(mux, "/docs/components", "components", func() (any, error) { return index, nil })
	for i, one := range l.all {
		mount(mux, "/docs/components/"+one.Module, "component", func() (any, error) { return l.page(i) })
	}
	mountMissing(mux, l)
}

// Missing is the pattern of the page that says that there is no such component. It is for
// people: to programs whoever serves this says so in its own form.
const Missing = "GET /docs/components/{module...}"

func mountMissing(mux *http.ServeMux, l *library) {
	mux.HandleFunc(Missing, func(w http.ResponseWriter, r *http.Request) {
		asked, meant := r.PathValue("module"), ""
		if i := slices.IndexFunc(l.all, func(one api.Component) bool { return strings.EqualFold(one.Module, asked) }); i >= 0 {
			meant = l.all[i].Module
		}
		page, err := render(func() (any, error) { return map[string]string{"Meant": meant}, nil }, func(f *forms, to *bytes.Buffer, data any) error {
			return f.html.ExecuteTemplate(to, "missing.html", data)
		})
		if err != nil {
			http.Error(w, "the page cannot be made", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Security-Policy", pagePolicy)
		w.Header().Set("Vary", "Accept")
		describe(w.Header(), "text/html; charset=utf-8", "no-cache")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(page)
	})
}
