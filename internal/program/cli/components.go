package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/web/catalog"
)

// componentsPath is the path of the catalogue.
const componentsPath = "/v1/sdk/components"

// componentsCommand works on the catalogue. Without a subcommand, it lists all components or describes one.
type componentsCommand struct {
	List   componentsList   `cmd:"" help:"List the components."`
	Search componentsSearch `cmd:"" help:"List the components whose name, title or description contains a word."`
	Get    componentsGet    `cmd:"" help:"Describe the inputs, outputs and price of a component."`
	Short  componentsShort  `cmd:"" hidden:"" default:"withargs"`
}

// catalogued selects the catalogue.
type catalogued struct {
	target
	JSON    bool `name:"json" hidden:"" help:"Print the catalogue as JSON."`
	Offline bool `help:"Use the built-in catalogue without calling the service. Its version may differ from the version of the service."`
}

type componentsList struct {
	catalogued
	Category string `placeholder:"NAME" help:"List only those of a category, such as UTILITY."`
}

func (c *componentsList) Run(s *session) error {
	return c.print(s, func(one api.Component) bool { return c.Category == "" || strings.EqualFold(one.Category, c.Category) },
		fmt.Sprintf("no components in the category %q", printable(c.Category)))
}

type componentsSearch struct {
	catalogued
	Text string `arg:"" help:"The word, in any case."`
}

func (c *componentsSearch) Run(s *session) error {
	return c.print(s, func(one api.Component) bool {
		return strings.Contains(strings.ToLower(one.Module+" "+one.Title+" "+one.Description), strings.ToLower(c.Text))
	}, fmt.Sprintf("no component contains %q. To list all components: weft components list", printable(c.Text)))
}

type componentsGet struct {
	catalogued
	Module string `arg:"" help:"Name of the component, such as HASH."`
}

func (c *componentsGet) Run(s *session) error { return c.describe(s, c.Module) }

type componentsShort struct {
	componentsList
	Module string `arg:"" optional:""`
}

func (c *componentsShort) Run(s *session) error {
	if c.Module != "" {
		return c.describe(s, c.Module)
	}
	return c.componentsList.Run(s)
}

// print lists the components that fit. missing is the error if no component fits.
func (c *catalogued) print(s *session, fits func(api.Component) bool, missing string) error {
	if c.JSON {
		s.Output = "json"
	}
	all, err := c.all(s)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(one api.Component) bool { return !fits(one) })
	if len(all) == 0 {
		return notFound("%s", missing)
	}
	catalog.SortByCategory(all)
	if s.tabular() {
		for i := range all {
			all[i].Description = catalog.FirstSentence(all[i].Description)
		}
	}
	return s.printAll(all, view{columns: "MODULE=module CATEGORY=category PRICE=price WHAT_IT_DOES=description"})
}

// all returns the whole catalogue.
func (c *catalogued) all(s *session) ([]api.Component, error) {
	if c.Offline {
		own, err := ownCatalogue()
		if err != nil {
			return nil, err
		}
		return slices.Clone(own.All()), nil
	}
	weft, err := c.caller(s)
	if err != nil {
		return nil, offline(err)
	}
	all, _, err := list[api.Component](weft, componentsPath, url.Values{}, size{All: true})
	return all, err
}

// offline adds the hint to use --offline to the error of missing credentials.
func offline(err error) error {
	if errors.Is(err, errNoCredentials) {
		return fmt.Errorf("%w; use --offline for the built-in catalogue", err)
	}
	return err
}

// ownCatalogue returns the catalogue of this program. None of its modules are run.
func ownCatalogue() (*catalog.Catalog, error) {
	guard := egress.New(egress.Policy{})
	defer guard.Close()
	registry, err := component.NewRegistry(modules.All(guard)...)
	if err != nil {
		return nil, err
	}
	return catalog.New(registry), nil
}

func (c *catalogued) describe(s *session, module string) error {
	if c.JSON {
		s.Output = "json"
	}
	one, raw, err := c.one(s, moduleName(module))
	if err != nil {
		return err
	}
	return s.print(raw, func(out io.Writer) error {
		text, err := description(one)
		if err != nil {
			return err
		}
		_, err = io.WriteString(out, text)
		return err
	})
}

// one returns the entry of the component, and the JSON that it was decoded from.
func (c *catalogued) one(s *session, name string) (one api.Component, raw []byte, err error) {
	if c.Offline {
		own, err := ownCatalogue()
		if err != nil {
			return one, nil, err
		}
		if one, err = own.Get(name); err != nil {
			return one, nil, err
		}
		raw, err = strictjson.Encode(one)
		return one, raw, err
	}
	weft, err := c.caller(s)
	if err != nil {
		return one, nil, offline(err)
	}
	return weft.component(name)
}

// component reads one entry of the service's catalogue.
func (s caller) component(name string) (one api.Component, raw []byte, err error) {
	raw, err = s.exchange(http.MethodGet, componentsPath+"/"+url.PathEscape(name), nil, nil, &one)
	if problem, ok := errors.AsType[*client.Problem](err); ok && problem.Status == http.StatusNotFound {
		err = unknownModule(problem, name)
	}
	return one, raw, err
}

// moduleName returns the name in capital letters, as the service has it.
func moduleName(text string) string {
	return strings.ToUpper(strings.ReplaceAll(text, "-", "_"))
}

// description describes a component, on lines of limited length.
func description(c api.Component) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n\n%s\n\n", printable(c.Module), printable(c.Title), wrapped(c.Description, ""))
	for _, fact := range [][2]string{
		{"Category", c.Category},
		{"Price", catalog.PriceInWords(c)},
		{"Timeout", catalog.TimeoutInWords(c)},
		{"Effect", catalog.EffectInWords(c.Effect)},
		{"After a crash", catalog.RepeatInWords(c.Repeat)},
		{"Executed", catalog.ModesInWords(c)},
	} {
		fmt.Fprintf(&b, "%-15s%s\n", fact[0], printable(fact[1]))
	}
	for _, part := range []struct {
		title  string
		schema json.RawMessage
	}{{"Input", c.Input}, {"Config", c.Config}, {"Output", c.Output}} {
		object, err := catalog.ReadObject(part.schema)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n%s\n", part.title)
		writeFields(&b, object.Fields, "  ", part.title != "Output")
		switch {
		case object.Open != nil:
			b.WriteString("  further fields of any name\n")
		case len(object.Fields) == 0:
			b.WriteString("  no fields\n")
		}
	}
	writePorts(&b, c.Ports)
	if example := catalog.Example(c.Module); example != "" {
		fmt.Fprintf(&b, "\nIn a workflow file\n  %s\n", strings.ReplaceAll(strings.TrimSpace(example), "\n", "\n  "))
	}
	if line := catalog.CallLine(c); line != "" {
		fmt.Fprintf(&b, "\nFor example\n  %s\n", printable(line))
	} else {
		b.WriteString("\nIt is executed inside a workflow only.\n")
	}
	return b.String(), nil
}

// writePorts lists the ports of a component. Older services report none.
func writePorts(b *strings.Builder, ports []api.ComponentPort) {
	if len(ports) == 0 {
		return
	}
	longest := 0
	for _, port := range ports {
		longest = max(longest, len(catalog.PortInWords(port)))
	}
	b.WriteString("\nPorts, in a workflow\n")
	for _, port := range ports {
		fmt.Fprintf(b, "  %-*s  %s\n", longest, printable(catalog.PortInWords(port)), printable(port.Description))
	}
}

func writeFields(b *strings.Builder, fields []catalog.Field, indent string, given bool) {
	for _, f := range fields {
		words := []string{f.Type}
		if f.Required && given {
			words = append(words, "required")
		}
		if f.Secret {
			words = append(words, "secret")
		}
		if f.Format != "" {
			words = append(words, "format "+f.Format)
		}
		if f.Default != nil {
			words = append(words, "default "+catalog.Readable(f.Default))
		}
		fmt.Fprintf(b, "%s%s  (%s)\n", indent, printable(f.Name), printable(strings.Join(words, ", ")))
		inner := indent + "    "
		if f.Description != "" {
			fmt.Fprintf(b, "%s%s\n", inner, wrapped(f.Description, inner))
		}
		if len(f.Enum) > 0 {
			fmt.Fprintf(b, "%s%s\n", inner, wrapped("One of "+joined(f.Enum), inner))
		}
		for _, rule := range f.Rules {
			fmt.Fprintf(b, "%s%s\n", inner, printable(strings.TrimSpace(rule.Words+" "+rule.Code)))
		}
		if len(f.Examples) > 0 {
			fmt.Fprintf(b, "%sExample: %s\n", inner, printable(catalog.Readable(f.Examples[0])))
		}
		writeFields(b, f.Fields, inner, given)
	}
}

func joined(values []json.RawMessage) string {
	all := make([]string, len(values))
	for i, value := range values {
		all[i] = catalog.Readable(value)
	}
	return strings.Join(all, ", ")
}

// wrapped breaks text into lines of at most 96 characters after the indent.
func wrapped(text, indent string) string {
	const width = 96
	var b strings.Builder
	column := len(indent)
	for i, word := range strings.Fields(text) {
		switch size := len([]rune(word)); {
		case i == 0:
			column += size
		case column+1+size > width:
			b.WriteString("\n" + indent)
			column = len(indent) + size
		default:
			b.WriteByte(' ')
			column += 1 + size
		}
		b.WriteString(printable(word))
	}
	return b.String()
}
