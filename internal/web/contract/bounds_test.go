package contract_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weft-automation/weft/gen/api"
)

// keywordsOf returns the extensions that a document uses outside of examples.
func keywordsOf(node any) []string {
	var found []string
	switch node := node.(type) {
	case object:
		for key, child := range node {
			if strings.HasPrefix(key, "x-") {
				found = append(found, key)
			}
			if key != "example" && key != "examples" {
				found = append(found, keywordsOf(child)...)
			}
		}
	case []any:
		for _, child := range node {
			found = append(found, keywordsOf(child)...)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// info/x-keywords explains exactly the extensions that the document uses.
func TestEveryKeywordIsExplained(t *testing.T) {
	d := read(t)
	info := under(d.root, "info")
	explained := under(info, "x-keywords")
	delete(info, "x-keywords")
	if used, known := keywordsOf(d.root), slices.Sorted(maps.Keys(explained)); !slices.Equal(used, known) {
		t.Errorf("the document uses %v, and info/x-keywords explains %v", used, known)
	}
	for keyword, text := range explained {
		if text, _ := text.(string); len(text) < 20 {
			t.Errorf("%s is explained by %q", keyword, text)
		}
	}
}

// typesOf returns the types of a schema if it has several.
func typesOf(schema object) []any {
	list, _ := schema["type"].([]any)
	return list
}

// unbounded returns the integers in requests that have no bounds, or bounds outside their format.
func (d document) unbounded() []string {
	var found []string
	var look func(at string, node any)
	look = func(at string, node any) {
		schema := d.resolve(node)
		low, least := schema["minimum"].(float64)
		high, most := schema["maximum"].(float64)
		switch bound := map[any]float64{"int32": math.MaxInt32, "int64": math.MaxInt64}[schema["format"]]; {
		case schema["type"] != "integer" && !slices.Contains(typesOf(schema), any("integer")):
		case !least || !most || low < -bound-1 || high > bound:
			found = append(found, fmt.Sprintf("%s: %v of %v to %v", at, schema["format"], schema["minimum"], schema["maximum"]))
		}
		for name, child := range under(schema, "properties") {
			look(at+"."+name, child)
		}
		if items, ok := schema["items"]; ok {
			look(at+"[]", items)
		}
		alternatives, _ := schema["oneOf"].([]any)
		for _, one := range alternatives {
			look(at, one)
		}
	}
	for path, item := range d.sorted(d.root["paths"]) {
		for method, operation := range d.sorted(item) {
			parameters, _ := operation["parameters"].([]any)
			for _, parameter := range parameters {
				p := d.resolve(parameter)
				look(fmt.Sprintf("%s %s: %v", method, path, p["name"]), p["schema"])
			}
			for _, content := range d.sorted(d.resolve(operation["requestBody"])["content"]) {
				look(method+" "+path, content["schema"])
			}
		}
	}
	return found
}

func TestIntegersOfRequestsHaveBounds(t *testing.T) {
	d := read(t)
	for _, integer := range d.unbounded() {
		t.Error(integer)
	}
	delete(d.at("/components/schemas/WorkflowVersion").(object), "maximum")
	if found := d.unbounded(); len(found) == 0 {
		t.Error("unbounded doesn't find a version without a maximum")
	}
}

func TestRequiredFieldsExist(t *testing.T) {
	d := read(t)
	for name, schema := range d.sorted(d.at("/components/schemas")) {
		required, _ := schema["required"].([]any)
		for _, field := range required {
			if under(schema, "properties")[field.(string)] == nil {
				t.Errorf("%s requires the unknown field %v", name, field)
			}
		}
	}
}

// Tools match the examples of a request and its response by name.
func TestRequestAndResponseExamplesShareNames(t *testing.T) {
	d, pairs := read(t), 0
	for path, item := range d.sorted(d.root["paths"]) {
		for method, operation := range d.sorted(item) {
			answers := object{}
			for _, content := range d.sorted(d.resolve(d.resolve(operation["responses"])["200"])["content"]) {
				for name := range under(content, "examples") {
					answers[name] = true
				}
			}
			for _, content := range d.sorted(d.resolve(operation["requestBody"])["content"]) {
				if len(under(content, "examples")) == 0 {
					t.Errorf("%s %s: the request example has no name", method, path)
				}
				for name := range under(content, "examples") {
					if pairs++; answers[name] == nil {
						t.Errorf("%s %s: the 200 response has no example named %s", method, path, name)
					}
				}
			}
		}
	}
	if pairs < 20 {
		t.Errorf("checked only %d examples", pairs)
	}
}

// Handlers check the dependencies between fields, and the conformance cases test the handlers.
// This test checks that the schemas of the document state the same dependencies.
func TestDocumentStatesDependenciesBetweenFields(t *testing.T) {
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(api.SpecJSON()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	if err := compiler.AddResource("mem:///openapi.json", root); err != nil {
		t.Fatal(err)
	}
	const call, check, run = `"module":"A","input":{},"config":{}`, `"method":"GET","path":"/","timestamp":"1"`, `"rerunOf":{"runId":"019aa5f3-0a1b-7c2d-8e3f-4a5b6c7d8e9f"}`
	for _, c := range []struct {
		schema, body string
		right        bool
	}{
		{"ExecuteComponentRequest", `{` + call + `,"callbackUrl":"https://a.example","callbackSecret":"s","callbackHeaders":{"A":"b"}}`, true},
		{"ExecuteComponentRequest", `{` + call + `,"callbackHeaders":{}}`, false},
		{"ExecuteComponentRequest", `{` + call + `,"callbackSecret":null,"callbackHeaders":null}`, true},
		{"ExecuteComponentRequest", `{` + call + `,"callbackHeaders":{"A":"b"}}`, false},
		{"ExecuteComponentRequest", `{` + call + `,"callbackSecret":"s"}`, false},
		{"ExecuteComponentRequest", `{` + call + `,"callbackSecret":"s","callbackUrl":null}`, false},
		{"ExecuteComponentRequest", `{` + call + `,"callbackHeaders":{"A":"b"},"callbackUrl":null}`, false},
		{"SignatureCheckRequest", `{` + check + `,"body":"{}"}`, true},
		{"SignatureCheckRequest", `{` + check + `,"bodyBase64":"e30="}`, true},
		{"SignatureCheckRequest", `{` + check + `,"body":"{}","bodyBase64":"e30="}`, false},
		{"TriggerWorkflowRequest", `{"input":{}}`, true},
		{"TriggerWorkflowRequest", `{` + run + `,"input":null}`, true},
		{"TriggerWorkflowRequest", `{"rerunOf":null,"input":{}}`, true},
		{"TriggerWorkflowRequest", `{` + run + `,"input":{}}`, false},
		{"NewVerification", `{"scheme":"standardWebhooks","secret":"12345678","acceptRepeatedBodies":true}`, true},
		{"NewVerification", `{"secret":"12345678","header":"X-A","deliveryHeader":"X-B","acceptRepeatedBodies":true}`, true},
		{"NewVerification", `{"scheme":"hmac","secret":"12345678","header":"X-A","acceptRepeatedBodies":false}`, true},
		{"CreateApiKeyRequest", `{"label":"Ünsere Kasse 1","allowedWorkflowIds":[]}`, true},
		{"CreateApiKeyRequest", `{"label":" ","allowedWorkflowIds":[]}`, false},
		{"CreateApiKeyRequest", `{"label":"a\tb","allowedWorkflowIds":[]}`, false},
		{"AcceptInvitationRequest", `{"token":"t","name":"Ada\u0085","password":"correct horse"}`, false},
	} {
		schema, err := compiler.Compile("mem:///openapi.json#/components/schemas/" + c.schema)
		if err != nil {
			t.Fatal(err)
		}
		body, err := jsonschema.UnmarshalJSON(strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(body); (err == nil) != c.right {
			t.Errorf("%s %s: %v", c.schema, c.body, err)
		}
	}
}
