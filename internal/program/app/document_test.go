package app

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/oasdiff/yaml"

	"github.com/weft-automation/weft/gen/api"
)

// operation is what the matrix needs to know of an operation of openapi.yaml.
type operation struct {
	id, method, path string
	signed, person   bool
	open             bool     // for everybody
	ids              []string // the parameters of the path that are ids
	cursor           bool     // it gives pages
	body             any      // that it takes, nil for none
	schema           any      // of the body
}

// document is openapi.yaml, for those who walk it.
type document map[string]any

func specification(t *testing.T) document {
	t.Helper()
	var doc document
	text, err := yaml.YAMLToJSON(api.SpecYAML())
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func (d document) resolve(node any) map[string]any {
	object, _ := node.(map[string]any)
	ref, ok := object["$ref"].(string)
	if !ok {
		return object
	}
	var at any = map[string]any(d)
	for token := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		at = at.(map[string]any)[token]
	}
	return d.resolve(at)
}

// operations reads every operation. A path parameter whose name ends in Id is one.
func operations(t *testing.T) []operation {
	t.Helper()
	doc := specification(t)
	var all []operation
	for path, item := range doc["paths"].(map[string]any) {
		for method, node := range item.(map[string]any) {
			o := operation{id: doc.resolve(node)["operationId"].(string), method: strings.ToUpper(method), path: path}
			security, own := doc.resolve(node)["security"].([]any)
			if !own {
				security = doc["security"].([]any) // as the document has it for all
			}
			for _, scheme := range security {
				_, key := scheme.(map[string]any)["ApiKey"]
				_, token := scheme.(map[string]any)["SessionToken"]
				o.signed, o.person = o.signed || key, o.person || token
			}
			o.open = own && len(security) == 0
			parameters, _ := doc.resolve(node)["parameters"].([]any)
			for _, parameter := range parameters {
				p := doc.resolve(parameter)
				name := p["name"].(string)
				if p["in"] == "path" && strings.HasSuffix(name, "Id") {
					o.ids = append(o.ids, name)
				}
				o.cursor = o.cursor || name == "cursor"
			}
			if content := doc.resolve(doc.resolve(doc.resolve(node)["requestBody"])["content"])["application/json"]; content != nil {
				o.schema = doc.resolve(content)["schema"]
				o.body = doc.sample(o.schema)
			}
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b operation) int { return strings.Compare(a.id, b.id) })
	return all
}

// sample is a value that a schema allows: with what it requires.
func (d document) sample(node any) any {
	s := d.resolve(node)
	if examples, ok := s["examples"].([]any); ok && len(examples) > 0 {
		return examples[0]
	}
	if values, ok := s["enum"].([]any); ok {
		return values[len(values)-1]
	}
	properties, ok := s["properties"].(map[string]any)
	if !ok {
		return map[string]any{}
	}
	made := map[string]any{}
	required, _ := s["required"].([]any)
	for _, name := range required {
		made[name.(string)] = d.sample(properties[name.(string)])
	}
	return made
}
