package portal

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/web/catalog"
)

// library is the data of the component pages.
type library struct {
	categories []Category
	all        []api.Component // by category
}

// Category is a group of components in the index.
type Category struct {
	Name, About string
	Components  []api.Component
}

// Categories returns the groups of components in their order, each with its components.
func Categories(all []api.Component) []Category { return newLibrary(all).categories }

// abouts describe the categories.
var abouts = map[string]string{
	"LOGIC":   "Triggers and results of runs, conditions, loops, waits and constants. They are free.",
	"HTTP":    "Calls to other services.",
	"UTILITY": "Random values, hashes, encodings, numbers, strings and encryption.",
	"EVM":     "Ethereum-compatible chains: reading, encoding, signing, sending and waiting.",
}

func newLibrary(all []api.Component) *library {
	l := &library{all: slices.Clone(all)}
	catalog.SortByCategory(l.all)
	for _, one := range l.all {
		if last := len(l.categories) - 1; last < 0 || l.categories[last].Name != one.Category {
			l.categories = append(l.categories, Category{Name: one.Category, About: abouts[one.Category]})
		}
		last := &l.categories[len(l.categories)-1]
		last.Components = append(last.Components, one)
	}
	return l
}

// summary is the template data about all components.
func (l *library) summary() map[string]any {
	return map[string]any{"Categories": l.categories, "Count": len(l.all), "Formats": catalog.Formats}
}

// paths returns the paths of all pages.
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

// componentPage is the data of a component's page.
type componentPage struct {
	Categories     []Category
	Component      api.Component
	Parts          []part
	Call           string // weft command; "" if executed only inside a workflow
	Request        string // body of a sample request
	Example        string // workflow file that uses the component
	Price, Timeout string
	Effect, Repeat string
	Modes          string
	Before, After  *api.Component // previous and next component
}

// callBody is the body of a request, with its fields in reading order.
type callBody struct {
	Module    string          `json:"module"`
	Input     json.RawMessage `json:"input"`
	Config    json.RawMessage `json:"config"`
	WaitForMs int             `json:"waitForMs"`
}

// part is the input, the config or the output.
type part struct {
	catalog.Object
	Name, Title string
	FromCaller  bool // the caller sends this part
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
		p.Before = &l.all[i-1]
	}
	if i+1 < len(l.all) {
		p.After = &l.all[i+1]
	}
	input, config := catalog.Sample(c)
	body, err := json.Marshal(callBody{c.Module, input, config, 15000})
	if err != nil {
		return p, err
	}
	p.Request, p.Example = catalog.Indented(body), catalog.Example(c.Module)
	for _, one := range []part{
		{Name: "input", Title: "Input", FromCaller: true, Schema: catalog.Indented(c.Input)},
		{Name: "config", Title: "Config", FromCaller: true, Schema: catalog.Indented(c.Config)},
		{Name: "output", Title: "Output", Schema: catalog.Indented(c.Output)},
	} {
		if one.Object, err = catalog.ReadObject(json.RawMessage(one.Schema)); err != nil {
			return p, err
		}
		p.Parts = append(p.Parts, one)
	}
	return p, nil
}

// place is a field with its path and depth in a part.
type place struct {
	catalog.Field
	Path  string
	Depth int
}

// Inputs reports whether the caller sends any field.
func (p componentPage) Inputs() bool {
	return slices.ContainsFunc(p.Parts, func(one part) bool { return one.FromCaller && len(one.Fields) > 0 })
}

// Reference returns a reference to the first field of the output, or "" for other parts.
func (p part) Reference() string {
	if p.FromCaller || len(p.Fields) == 0 {
		return ""
	}
	return "{{ ID." + p.Fields[0].Name + " }}"
}

// Rows returns the fields of the part, without nested ones, with the anchors of their descriptions.
func (p part) Rows() []place {
	var all []place
	for _, one := range p.Places() {
		if one.Path = p.Name + "." + one.Path; one.Depth == 0 {
			all = append(all, one)
		}
	}
	return all
}

// Places returns the fields of the part, each followed by its nested fields.
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

// escapeMarkdown escapes the characters that have a meaning in Markdown or HTML.
func escapeMarkdown(text string) string {
	return strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "<", "&lt;", ">", "&gt;", "|", `\|`, "\n", " ").Replace(text)
}

// cell returns text as inline code for a cell of a Markdown table.
func cell(text string) string {
	text = strings.NewReplacer("|", `\|`, "\n", " ").Replace(text)
	if strings.Contains(text, "`") {
		return "`` " + text + " ``"
	}
	return "`" + text + "`"
}

// mountComponents serves the component pages under /docs/components. It registers one path per
// component, so that the path of an unknown component returns 404.
func mountComponents(mux *http.ServeMux, l *library) {
	mount(mux, "/docs/components", "components", func() (any, error) { return l.summary(), nil })
	for i, one := range l.all {
		mount(mux, "/docs/components/"+one.Module, "component", func() (any, error) { return l.page(i) })
	}
}
