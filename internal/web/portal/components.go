package portal

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/web/catalog"
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

// summary is what pages say of all components together.
func (l *library) summary() map[string]any {
	return map[string]any{"Categories": l.categories, "Count": len(l.all), "Formats": catalog.Formats}
}

// paths are those of all pages.
func (l *library) paths() []string {
	all := []string{"/docs", "/docs/reference", "/docs/components"}
	for _, c := range chapters {
		for _, one := range c.Articles {
			all = append(all, "/docs/"+one.Name)
		}
	}
	for _, one := range l.all {
		all = append(all, "/docs/components/"+one.Module)
	}
	return all
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
	Request        string // the body of a call
	Stage          string // the component in a workflow
	Price, Timeout string
	Effect, Repeat string
	Modes          string
	Before, After  string // the neighbours
}

// callBody is the body of a call, in the order in which it is read.
type callBody struct {
	Module    string          `json:"module"`
	Input     json.RawMessage `json:"input"`
	Config    json.RawMessage `json:"config"`
	WaitForMs int             `json:"waitForMs"`
}

// stage is the component in a workflow, likewise.
type stage struct {
	ID     string          `json:"id"`
	Module string          `json:"module"`
	Input  json.RawMessage `json:"input"`
	Config json.RawMessage `json:"config"`
}

// part is the input, the config or the output.
type part struct {
	catalog.Object
	Name, Title string
	Given       bool // by the caller
	Schema      string
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
	body, err := json.Marshal(callBody{c.Module, input, config, 15000})
	if err != nil {
		return p, err
	}
	inside, err := json.Marshal(stage{strings.ToLower(c.Module), c.Module, input, config})
	if err != nil {
		return p, err
	}
	p.Request, p.Stage = catalog.Indented(body), catalog.Indented(inside)
	for _, one := range []part{
		{Name: "input", Title: "Input", Given: true, Schema: catalog.Indented(c.Input)},
		{Name: "config", Title: "Config", Given: true, Schema: catalog.Indented(c.Config)},
		{Name: "output", Title: "Output", Schema: catalog.Indented(c.Output)},
	} {
		if one.Object, err = catalog.ReadObject(json.RawMessage(one.Schema)); err != nil {
			return p, err
		}
		p.Parts = append(p.Parts, one)
	}
	return p, nil
}

// place is a field and where it stands in a part.
type place struct {
	catalog.Field
	Path  string
	Depth int
}

// Places are the fields of the part, each followed by those inside of it.
func (p part) Places() []place {
	var all []place
	var walk func(fields []catalog.Field, before string, depth int)
	walk = func(fields []catalog.Field, before string, depth int) {
		for _, f := range fields {
			all = append(all, place{f, before + f.Name, depth})
			walk(f.Fields, before+f.Name+".", depth+1)
		}
	}
	walk(p.Fields, "", 0)
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
	mount(mux, "/docs/components", "components", func() (any, error) { return l.summary(), nil })
	for i, one := range l.all {
		mount(mux, "/docs/components/"+one.Module, "component", func() (any, error) { return l.page(i) })
	}
}
