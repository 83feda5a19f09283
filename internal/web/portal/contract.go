package portal

import (
	"bytes"
	"fmt"
	"html"
	htmltemplate "html/template"
	"iter"
	"slices"
	"strings"
	"sync"

	yaml "github.com/oasdiff/yaml3"

	"github.com/weft-automation/weft/gen/api"
)

// contract contains the descriptions of the OpenAPI document, for the reference and
// the search.
type contract struct {
	Description string
	Tags        []contractTag
}

type contractTag struct {
	Name, Description string
	Operations        []operation
}

// operation is the summary of one operation.
type operation struct {
	ID, Method, Path, Summary, Description string
	Tag                                    string
	Parameters                             []parameter
	Body                                   string // name of the body's schema
	Answers                                []answerOf
}

type parameter struct{ Name, In, Required, Description string }

type answerOf struct{ Status, Description string }

// Anchor returns the anchor of the operation in the HTML reference.
func (o operation) Anchor() string {
	return tagAnchor(o.Tag) + "/" + o.Method + o.Path
}

// tagAnchor returns the anchor of a tag in the HTML reference.
func tagAnchor(name string) string {
	return "tag/" + strings.ReplaceAll(strings.ToLower(name), " ", "-")
}

// readContract returns the tags and operations in the order of the document. It reads the
// document on the first call.
var readContract = sync.OnceValues(func() (contract, error) {
	root, err := readYAML()
	if err != nil {
		return contract{}, err
	}
	c := contract{Description: textOf(member(root, "info"), "description")}
	for _, tag := range member(root, "tags").Content {
		c.Tags = append(c.Tags, contractTag{Name: textOf(tag, "name"), Description: textOf(tag, "description")})
	}
	for path, item := range members(member(root, "paths")) {
		for method, node := range members(item) {
			if found := member(node, "tags"); found != nil && len(found.Content) > 0 {
				o := newOperation(root, item, node)
				o.Method, o.Path, o.Tag = strings.ToUpper(method), path, found.Content[0].Value
				if i := slices.IndexFunc(c.Tags, func(t contractTag) bool { return t.Name == o.Tag }); i >= 0 {
					c.Tags[i].Operations = append(c.Tags[i].Operations, o)
				}
			}
		}
	}
	return c, nil
})

func newOperation(root, item, node *yaml.Node) operation {
	o := operation{ID: textOf(node, "operationId"), Summary: textOf(node, "summary"), Description: textOf(node, "description")}
	for _, list := range []*yaml.Node{member(item, "parameters"), member(node, "parameters")} {
		if list == nil {
			continue
		}
		for _, one := range list.Content {
			one = resolved(root, one)
			need := "no"
			if textOf(one, "required") == "true" {
				need = "yes"
			}
			o.Parameters = append(o.Parameters, parameter{textOf(one, "name"), textOf(one, "in"), need, textOf(one, "description")})
		}
	}
	for _, media := range members(member(resolved(root, member(node, "requestBody")), "content")) {
		_, o.Body, _ = strings.Cut(textOf(member(media, "schema"), "$ref"), "#/components/schemas/")
	}
	for status, answer := range members(member(node, "responses")) {
		o.Answers = append(o.Answers, answerOf{status, textOf(resolved(root, answer), "description")})
	}
	return o
}

func readYAML() (*yaml.Node, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(api.SpecYAML(), &document); err != nil {
		return nil, fmt.Errorf("parse openapi.yaml: %w", err)
	}
	return document.Content[0], nil
}

// members iterates over the fields of an object in their order. It yields nothing for another
// node or nil.
func members(node *yaml.Node) iter.Seq2[string, *yaml.Node] {
	return func(yield func(string, *yaml.Node) bool) {
		if node == nil || node.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(node.Content) && yield(node.Content[i].Value, node.Content[i+1]); i += 2 {
		}
	}
}

// member returns a field of an object, or nil.
func member(node *yaml.Node, name string) *yaml.Node {
	for found, value := range members(node) {
		if found == name {
			return value
		}
	}
	return nil
}

func textOf(node *yaml.Node, name string) string {
	if found := member(node, name); found != nil {
		return found.Value
	}
	return ""
}

// resolved returns the node that a $ref within the document points to, or the node itself.
func resolved(root, node *yaml.Node) *yaml.Node {
	reference := textOf(node, "$ref")
	if reference == "" {
		return node
	}
	found := root
	for _, name := range strings.Split(strings.TrimPrefix(reference, "#/"), "/") {
		found = member(found, name)
	}
	return found
}

// property is a parameter, or a field of an object.
type property struct {
	Name, In         string
	Type             htmltemplate.HTML
	Required, Secret bool
	Description      string
	Values           []string // the only values, or the known ones
	Default, Example string
	Rules            []string
	Depth            int
}

// parameterOf describes a parameter.
func parameterOf(root, node *yaml.Node) property {
	p := propertyOf(root, textOf(node, "name"), member(node, "schema"), 0)
	p.In, p.Required, p.Description = textOf(node, "in"), textOf(node, "required") == "true", textOf(node, "description")
	if example := member(node, "example"); example != nil {
		p.Example = inline(example)
	}
	return p
}

// propertyOf describes a value by its schema. What the schema of a named value says applies unless
// the place that refers to it says otherwise.
func propertyOf(root *yaml.Node, name string, schema *yaml.Node, depth int) property {
	p := property{Name: name, Type: typeOf(root, schema), Depth: depth}
	for _, node := range []*yaml.Node{schema, resolved(root, schema)} {
		if text := textOf(node, "description"); p.Description == "" {
			p.Description = text
		}
		if value := member(node, "default"); value != nil {
			p.Default = inline(value)
		}
		if all := member(node, "examples"); p.Example == "" && all != nil && len(all.Content) > 0 && all.Content[0].Kind == yaml.ScalarNode {
			p.Example = inline(all.Content[0])
		}
		p.Secret = p.Secret || textOf(node, "x-secret") == "true"
	}
	target := resolved(root, schema)
	for _, keyword := range []string{"enum", "x-extensible-enum"} {
		if all := member(target, keyword); all != nil {
			for _, one := range all.Content {
				p.Values = append(p.Values, inline(one))
			}
		}
	}
	for _, of := range []struct{ min, max, unit string }{
		{"minimum", "maximum", ""}, {"minLength", "maxLength", " characters"}, {"minItems", "maxItems", " items"}, {"minProperties", "maxProperties", " fields"},
	} {
		switch min, max := textOf(target, of.min), textOf(target, of.max); {
		case min != "" && max != "":
			p.Rules = append(p.Rules, min+" to "+max+of.unit)
		case min != "":
			p.Rules = append(p.Rules, "at least "+min+of.unit)
		case max != "":
			p.Rules = append(p.Rules, "at most "+max+of.unit)
		}
	}
	return p
}

// propertiesOf returns the fields of an object, each followed by the fields of the unnamed objects
// in it.
func propertiesOf(root, schema *yaml.Node, depth int) []property {
	var all []property
	required := member(schema, "required")
	for name, inner := range members(member(schema, "properties")) {
		p := propertyOf(root, name, inner, depth)
		p.Required = required != nil && slices.ContainsFunc(required.Content, func(one *yaml.Node) bool { return one.Value == name })
		all = append(all, p)
		for _, unnamed := range []*yaml.Node{inner, member(inner, "items")} {
			if depth < 6 {
				all = append(all, propertiesOf(root, unnamed, depth+1)...)
			}
		}
	}
	return all
}

// standsAlone reports whether a named schema has a section in the reference. Other schemas are
// described where they are used.
func standsAlone(schema *yaml.Node) bool {
	return member(schema, "properties") != nil || member(schema, "oneOf") != nil || member(schema, "anyOf") != nil
}

// typeOf returns the type of a value in words, with links to the sections of named schemas.
func typeOf(root, schema *yaml.Node) htmltemplate.HTML {
	if _, name, found := strings.Cut(textOf(schema, "$ref"), "#/components/schemas/"); found {
		if target := resolved(root, schema); !standsAlone(target) {
			return typeOf(root, target)
		}
		return htmltemplate.HTML(`<a href="#schema/` + name + `">` + name + `</a>`)
	}
	var words []string
	add := func(word htmltemplate.HTML) {
		if word != "" && !slices.Contains(words, string(word)) {
			words = append(words, string(word))
		}
	}
	for _, keyword := range []string{"oneOf", "anyOf"} {
		if list := member(schema, keyword); list != nil {
			for _, one := range list.Content {
				add(typeOf(root, one))
			}
		}
	}
	kinds := member(schema, "type")
	for _, kind := range kindsOf(kinds) {
		inner, before := member(schema, "items"), "array of "
		if kind == "object" {
			inner, before = member(schema, "additionalProperties"), "object of "
		}
		if kind != "array" && kind != "object" || inner == nil || inner.Kind != yaml.MappingNode || len(words) > 0 {
			if len(words) == 0 || kind != "object" {
				add(htmltemplate.HTML(html.EscapeString(kind)))
			}
			continue
		}
		add(htmltemplate.HTML(before) + typeOf(root, inner))
	}
	if len(words) == 0 {
		return "any value"
	}
	return htmltemplate.HTML(strings.Join(words, " or "))
}

// kindsOf returns the types that a schema names.
func kindsOf(node *yaml.Node) []string {
	switch {
	case node == nil:
		return nil
	case node.Kind == yaml.ScalarNode:
		return []string{node.Value}
	}
	var all []string
	for _, one := range node.Content {
		all = append(all, one.Value)
	}
	return all
}

// inline returns a value as text on one line: a string as it is, anything else as JSON.
func inline(node *yaml.Node) string {
	if node.Kind == yaml.ScalarNode {
		return node.Value
	}
	var out bytes.Buffer
	if err := writeJSON(&out, node); err != nil {
		return ""
	}
	return out.String()
}
