package portal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	yaml "github.com/oasdiff/yaml3"

	"github.com/weft-automation/weft/gen/api"
)

// referencePolicy allows the reference its own scripts and data alone. It styles itself
// at run time, hence the inline styles.
const referencePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; " +
	"img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// mountReference puts the reference at /docs/reference: for browsers made there from
// /docs/reference.json, and as Markdown.
func mountReference(mux *http.ServeMux) {
	nothing := func() (any, error) { return nil, nil }
	mountForm(mux, "/docs/reference", referencePolicy, "text/html; charset=utf-8", nothing, func(f *forms, to *bytes.Buffer, data any) error {
		return f.html.ExecuteTemplate(to, "reference.html", data)
	})
	mountForm(mux, "/docs/reference.md", pagePolicy, "text/markdown; charset=utf-8", func() (any, error) { return readContract() }, func(f *forms, to *bytes.Buffer, data any) error {
		return f.markdown.ExecuteTemplate(to, "reference.md", data)
	})
	mountForm(mux, "/docs/reference.json", pagePolicy, "application/json", func() (any, error) { return referenceDocument() }, func(_ *forms, to *bytes.Buffer, data any) error {
		_, err := to.Write(data.([]byte))
		return err
	})
}

// referenceDocument is openapi.yaml as JSON, in the order in which it is written, for the
// reference alone: what is optional has no value that would be sent before somebody
// chooses it.
func referenceDocument() ([]byte, error) {
	root, err := readYAML()
	if err != nil {
		return nil, err
	}
	calm(root)
	explainProofs(root)
	var out bytes.Buffer
	err = writeJSON(&out, root)
	return out.Bytes(), err
}

func readYAML() (*yaml.Node, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(api.SpecYAML(), &document); err != nil {
		return nil, fmt.Errorf("read the contract: %w", err)
	}
	return document.Content[0], nil
}

// member is what an object has under a name; nil for nothing.
func member(node *yaml.Node, name string) *yaml.Node {
	if node == nil {
		return nil
	}
	for i := 0; i+1 < len(node.Content) && node.Kind == yaml.MappingNode; i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i+1]
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

// calm moves the example of each optional parameter into its description.
func calm(node *yaml.Node) {
	if place := textOf(node, "in"); (place == "query" || place == "header") && textOf(node, "required") != "true" {
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value != "example" {
				continue
			}
			if about := member(node, "description"); about != nil {
				about.Value = strings.TrimRight(about.Value, "\n") + " For example `" + node.Content[i+1].Value + "`."
			}
			node.Content = append(node.Content[:i], node.Content[i+2:]...)
			break
		}
	}
	for _, child := range node.Content {
		calm(child)
	}
}

// explainProofs puts into words how who asks proves it, in the place of headers that a reader
// would be asked to type: the page signs.
func explainProofs(root *yaml.Node) {
	remove(root, "security")
	remove(member(root, "components"), "securitySchemes")
	paths := member(root, "paths")
	for i := 0; i+1 < len(paths.Content); i += 2 {
		item := paths.Content[i+1]
		for j := 0; j+1 < len(item.Content); j += 2 {
			about := member(item.Content[j+1], "description")
			if about == nil || item.Content[j].Value == "parameters" {
				continue
			}
			proofs := member(item.Content[j+1], "security")
			switch {
			case proofs == nil:
				about.Value = "`signed` by a [workspace key](/docs/signing)\n\n" + about.Value
				sample := fmt.Sprintf("./weft_curl.sh %s '%s'", strings.ToUpper(item.Content[j].Value), paths.Content[i].Value)
				if body := firstExample(root, item.Content[j+1]); body != "" {
					sample = "./weft_curl.sh " + strings.ToUpper(item.Content[j].Value) + " '" + paths.Content[i].Value + "' - <<'EOF'\n" + body + "\nEOF"
				}
				set(item.Content[j+1], "x-codeSamples", sample)
			case len(proofs.Content) > 0:
				about.Value = "`session` of a person: [sign in](/settings) in this browser, and what you try here is sent as you\n\n" + about.Value
			}
			remove(item.Content[j+1], "security")
		}
	}
}

// firstExample is the first body that the document shows for an operation, as JSON; "" for none.
func firstExample(root, node *yaml.Node) string {
	content := member(resolved(root, member(node, "requestBody")), "content")
	if content == nil || len(content.Content) < 2 {
		return ""
	}
	examples := member(content.Content[1], "examples")
	if examples == nil || len(examples.Content) < 2 {
		return ""
	}
	var compact, out bytes.Buffer
	if value := member(resolved(root, examples.Content[1]), "value"); value == nil || writeJSON(&compact, value) != nil || json.Indent(&out, compact.Bytes(), "", "  ") != nil {
		return ""
	}
	return out.String()
}

// set gives an operation the sample of its call.
func set(node *yaml.Node, name, source string) {
	text := func(value string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value} }
	sample := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{text("lang"), text("Shell"), text("label"), text("Shell, signed"), text("source"), text(source)}}
	node.Content = append(node.Content, text(name), &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{sample}})
}

func remove(node *yaml.Node, name string) {
	for i := 0; node != nil && i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			node.Content = append(node.Content[:i], node.Content[i+2:]...)
			return
		}
	}
}

// writeJSON writes a node with its members in their order.
func writeJSON(to *bytes.Buffer, node *yaml.Node) error {
	switch node.Kind {
	case yaml.AliasNode:
		return writeJSON(to, node.Alias)
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			name, err := json.Marshal(node.Content[i].Value)
			if err != nil {
				return err
			}
			to.WriteByte("{,"[min(i, 1)])
			to.Write(name)
			to.WriteByte(':')
			if err := writeJSON(to, node.Content[i+1]); err != nil {
				return err
			}
		}
		if len(node.Content) == 0 {
			to.WriteByte('{')
		}
		to.WriteByte('}')
		return nil
	case yaml.SequenceNode:
		to.WriteByte('[')
		for i, child := range node.Content {
			if i > 0 {
				to.WriteByte(',')
			}
			if err := writeJSON(to, child); err != nil {
				return err
			}
		}
		to.WriteByte(']')
		return nil
	}
	var value any
	if err := node.Decode(&value); err != nil {
		return err
	}
	if number := json.Number(node.Value); node.Tag == "!!int" || node.Tag == "!!float" {
		value = number
	}
	text, err := json.Marshal(value)
	to.Write(text)
	return err
}

// contract is what the reference says in words.
type contract struct {
	Description string
	Tags        []contractTag
}

type contractTag struct {
	Name, Description string
	Operations        []operation
}

// operation is one in short.
type operation struct {
	Method, Path, Summary, Description string
	Tag                                string
	Parameters                         []parameter
	Body                               string // the name of its schema
	Answers                            []answerOf
}

type parameter struct{ Name, In, Required, Description string }

type answerOf struct{ Status, Description string }

// Anchor is where the reference shows the operation.
func (o operation) Anchor() string {
	return "tag/" + strings.ReplaceAll(strings.ToLower(o.Tag), " ", "-") + "/" + o.Method + o.Path
}

// readContract reads the operations in the order of the document.
func readContract() (contract, error) {
	root, err := readYAML()
	if err != nil {
		return contract{}, err
	}
	c := contract{Description: textOf(member(root, "info"), "description")}
	for _, tag := range member(root, "tags").Content {
		c.Tags = append(c.Tags, contractTag{Name: textOf(tag, "name"), Description: textOf(tag, "description")})
	}
	paths := member(root, "paths")
	for i := 0; i+1 < len(paths.Content); i += 2 {
		item := paths.Content[i+1]
		for j := 0; j+1 < len(item.Content); j += 2 {
			found := member(item.Content[j+1], "tags")
			if found == nil || len(found.Content) == 0 {
				continue
			}
			o := newOperation(root, item, item.Content[j+1])
			o.Method, o.Path, o.Tag = strings.ToUpper(item.Content[j].Value), paths.Content[i].Value, found.Content[0].Value
			for t := range c.Tags {
				if c.Tags[t].Name == o.Tag {
					c.Tags[t].Operations = append(c.Tags[t].Operations, o)
				}
			}
		}
	}
	return c, nil
}

func newOperation(root, item, node *yaml.Node) operation {
	o := operation{Summary: textOf(node, "summary"), Description: textOf(node, "description")}
	for _, list := range []*yaml.Node{member(item, "parameters"), member(node, "parameters")} {
		if list == nil {
			continue
		}
		for _, one := range list.Content {
			one = resolved(root, one)
			if slices.Contains([]string{"X-Request-Id", "traceparent", "Prefer"}, textOf(one, "name")) {
				continue // told once for all
			}
			need := "no"
			if textOf(one, "required") == "true" {
				need = "yes"
			}
			o.Parameters = append(o.Parameters, parameter{textOf(one, "name"), textOf(one, "in"), need, textOf(one, "description")})
		}
	}
	if body := resolved(root, member(node, "requestBody")); body != nil {
		if content := member(body, "content"); content != nil && len(content.Content) > 1 {
			reference := textOf(member(content.Content[1], "schema"), "$ref")
			o.Body = reference[strings.LastIndex(reference, "/")+1:]
		}
	}
	answers := member(node, "responses")
	for i := 0; answers != nil && i+1 < len(answers.Content); i += 2 {
		o.Answers = append(o.Answers, answerOf{answers.Content[i].Value, textOf(resolved(root, answers.Content[i+1]), "description")})
	}
	return o
}

// resolved follows a reference within the document.
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
