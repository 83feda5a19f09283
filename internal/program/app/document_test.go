package app

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/oasdiff/yaml"

	"github.com/weft-automation/weft/gen/api"
)

// operation is an operation of openapi.yaml, as the isolation matrix needs it.
type operation struct {
	id, method, path string
	signed, person   bool
	open             bool     // without authentication
	ids              []string // path parameters that are IDs
	cursor           bool     // it is paginated
	body             any      // sample request body, nil if it has none
	schema           any      // of the body
}

// document is the parsed openapi.yaml.
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

// operations returns every operation. A path parameter whose name ends in Id is an ID.
func operations(t *testing.T) []operation {
	t.Helper()
	doc := specification(t)
	var all []operation
	for path, item := range doc["paths"].(map[string]any) {
		for method, node := range item.(map[string]any) {
			o := operation{id: doc.resolve(node)["operationId"].(string), method: strings.ToUpper(method), path: path}
			security, own := doc.resolve(node)["security"].([]any)
			if !own {
				security = doc["security"].([]any) // the document's default
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

// sample returns a value that a schema allows, with the required fields only.
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

// everyWay returns every operation, and those that accept both a signature and a session twice.
func everyWay(t *testing.T) []operation {
	t.Helper()
	var all []operation
	for _, o := range operations(t) {
		if o.signed && o.person {
			bySession := o
			bySession.signed, o.person = false, false
			all = append(all, bySession)
		}
		all = append(all, o)
	}
	return all
}
