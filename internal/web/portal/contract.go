package portal

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	yaml "github.com/oasdiff/yaml3"

	"github.com/weft-automation/weft/gen/api"
)

// contract contains the descriptions of the OpenAPI document, for the Markdown reference and
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
	return "tag/" + strings.ReplaceAll(strings.ToLower(o.Tag), " ", "-") + "/" + o.Method + o.Path
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

// remove removes a field from an object, if it has it.
func remove(node *yaml.Node, name string) {
	for i := 0; node != nil && i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			node.Content = append(node.Content[:i], node.Content[i+2:]...)
			return
		}
	}
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
