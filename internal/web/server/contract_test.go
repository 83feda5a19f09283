package server

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/web/protocol"
)

// parameters matches the parameters in a path.
var parameters = regexp.MustCompile(`\{[^}]+\}`)

func TestEveryOperationIsOnTheMux(t *testing.T) {
	s := start(t)
	if len(s.front.contract.Operations) < 13 {
		t.Fatalf("%d operations", len(s.front.contract.Operations))
	}
	for _, operation := range s.front.contract.Operations {
		target := parameters.ReplaceAllString(operation.Path, executionID)
		r, err := http.NewRequest(operation.Method, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, pattern := s.front.mux.Handler(r); pattern != operation.Pattern() {
			t.Errorf("%s is served by %q", operation.Pattern(), pattern)
		}
	}
}

func TestFaultCodesMatchContract(t *testing.T) {
	document, err := loadOnce()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(document.JSON)
	if err != nil {
		t.Fatal(err)
	}
	var known []fault.Code
	for _, value := range doc.Components.Schemas["ErrorCode"].Value.Extensions["x-extensible-enum"].([]any) {
		known = append(known, fault.Code(value.(string)))
	}
	if !slices.Equal(known, fault.Codes()) {
		t.Errorf("contract %v, fault %v", known, fault.Codes())
	}
	for _, code := range fault.Codes() {
		if title, _ := protocol.Describe(code); title == "" || code != fault.Internal && code != fault.RunFailed && protocol.Status(fault.New(code, "x")) == http.StatusInternalServerError {
			t.Errorf("%s has no status", code)
		}
	}
}

func TestContractIsValid(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(api.SpecYAML())
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context(), openapi3.IsOpenAPI31OrLater(), openapi3.DisableExamplesValidation()); err != nil {
		t.Fatal(err)
	}
}

// Every example of a schema, media type or parameter must be valid for its schema.
func TestExamplesOfTheContractValidate(t *testing.T) {
	document, err := loadOnce()
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(document.JSON, &root); err != nil {
		t.Fatal(err)
	}
	checked := 0
	walk(root, "", func(pointer string, node map[string]any) {
		at, values := pointer, []any{}
		switch examples := node["examples"].(type) {
		case []any:
			values = examples
		case map[string]any:
			at += "/schema"
			for _, example := range examples {
				values = append(values, resolve(root, example)["value"])
			}
		}
		if example, ok := node["example"]; ok && node["schema"] != nil {
			at, values = pointer+"/schema", append(values, example)
		}
		if len(values) == 0 || pointer == "/components" || strings.HasPrefix(pointer, "/components/examples") {
			return
		}
		schema := schemaOf(t, at)
		for _, value := range values {
			checked++
			if err := schema.Validate(normal(t, value)); err != nil {
				t.Errorf("%s: %v", at, err)
			}
		}
	})
	if checked < 500 {
		t.Errorf("found only %d examples", checked)
	}
}

// Generators and the breaking-change check find the events of a stream in the schema of its
// media type.
func TestStreamsNameTheSchemaOfTheirEvents(t *testing.T) {
	document, err := loadOnce()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(document.JSON)
	if err != nil {
		t.Fatal(err)
	}
	var events []string
	for _, item := range doc.Paths.Map() {
		if item.Get == nil {
			continue
		}
		if media := item.Get.Responses.Value("200").Value.Content["text/event-stream"]; media != nil {
			events = append(events, media.Schema.Ref)
		}
	}
	slices.Sort(events)
	if want := []string{"#/components/schemas/ComponentExecutionEvent", "#/components/schemas/RunEvent", "#/components/schemas/WorkspaceEvent"}; !slices.Equal(events, want) {
		t.Errorf("streams of %q, want %q", events, want)
	}
}

// The example of a problem must match the service: title and retryable must match the error code,
// and status must be the status of a response that contains the example.
func TestProblemExamplesMatchService(t *testing.T) {
	document, err := loadOnce()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(document.JSON)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			for status, answer := range operation.Responses.Map() {
				media := answer.Value.Content["application/problem+json"]
				if media == nil {
					continue
				}
				examples := []any{media.Example}
				if media.Example == nil {
					examples = nil
				}
				for _, example := range media.Examples {
					examples = append(examples, example.Value.Value)
				}
				for _, example := range examples {
					checked++
					problem := example.(map[string]any)
					code := fault.Code(problem["code"].(string))
					title, retryable := protocol.Describe(code)
					if problem["title"] != title || problem["retryable"] != retryable || problem["type"] != "urn:weft:problem:"+string(code) ||
						problem["error"] != problem["code"] || problem["message"] != problem["detail"] ||
						status != "default" && strconv.Itoa(int(problem["status"].(float64))) != status {
						t.Errorf("%s %s %s: got %v; its code has title %q and retryable %v", method, path, status, problem, title, retryable)
					}
				}
			}
		}
	}
	if checked < 400 {
		t.Errorf("found only %d examples", checked)
	}
}

// walk visits every object of a document with its JSON Pointer, escaped for a URL.
func walk(node any, pointer string, visit func(string, map[string]any)) {
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D", "$", "%24", "#", "%23")
	switch node := node.(type) {
	case map[string]any:
		visit(pointer, node)
		for key, child := range node {
			if key != "examples" && key != "example" {
				walk(child, pointer+"/"+escape.Replace(key), visit)
			}
		}
	case []any:
		for i, child := range node {
			walk(child, pointer+"/"+strconv.Itoa(i), visit)
		}
	}
}

// resolve follows the $ref of an example.
func resolve(root map[string]any, node any) map[string]any {
	example := node.(map[string]any)
	ref, ok := example["$ref"].(string)
	if !ok {
		return example
	}
	at := any(root)
	for _, token := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		at = at.(map[string]any)[token]
	}
	return at.(map[string]any)
}

func normal(t *testing.T, value any) any {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	value, err = jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// A fault in the form of a body hides no fault of the callback, the module or its input, where the
// body can be decoded.
func TestExecuteReportsTheFaultsOfFormCallbackAndModuleTogether(t *testing.T) {
	s := real(t, nil)
	for _, c := range []struct{ name, body, pointers string }{
		{"form, callback and input", `{"module":"HASH","input":{"data":"a","algorithm":"md2"},"config":{},"attempts":9,"callbackUrl":"ftp://x.example"}`, "/attempts /callbackUrl /input/algorithm"},
		{"callback and module", `{"module":"HASHH","input":{},"config":{},"callbackUrl":"ftp://x.example"}`, "/callbackUrl /module"},
		{"a missing config and an unknown module", `{"module":"HASHH","input":{}}`, "/config /module"},
		{"a missing module once", `{"input":{},"config":{},"attempts":9}`, "/attempts /module"},
		{"a wrong type", `{"module":"HASHH","input":{},"config":{},"attempts":"x"}`, "/attempts /module"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := s.do(t, "POST", executePath, c.body)
			var pointers []string
			for _, one := range got.problem(t).Errors {
				pointers = append(pointers, one.Pointer)
			}
			if all := strings.Join(pointers, " "); got.status != 400 || all != c.pointers {
				t.Errorf("%d %s, want %s", got.status, all, c.pointers)
			}
		})
	}
}

// A strict call of a component names each unknown field of its input and config, with what to write instead,
// next to the other faults.
func TestStrictExecuteNamesUnknownFieldsOfInputAndConfig(t *testing.T) {
	s := real(t, nil)
	const body = `{"module":"HASH","input":{"data":"x","Algorithm":"md2","encoding":"x","colour":1},"config":{"data":"x"}}`
	got := s.do(t, "POST", executePath, body, "Prefer: handling=strict")
	var faults []string
	for _, one := range got.problem(t).Errors {
		faults = append(faults, one.Pointer+" "+one.Message)
	}
	want := []string{
		`/config/data is not a known field; data belongs into input`, `/input/Algorithm is not a known field; write input.algorithm`,
		`/input/colour is not a known field`, `/input/encoding must be one of "utf8", "hex", "base64", "base64url", "base58", got "x"`,
	}
	slices.Sort(faults)
	if got.status != 400 || !slices.Equal(faults, want) {
		t.Errorf("%d\n%s\nwant\n%s", got.status, strings.Join(faults, "\n"), strings.Join(want, "\n"))
	}
	if lenient := s.do(t, "POST", executePath, body); lenient.status != 422 || len(lenient.problem(t).Errors) != 1 {
		t.Errorf("lenient: %d %s", lenient.status, lenient.body)
	}
}
