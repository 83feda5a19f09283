package gen

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oasdiff/yaml"
)

// released is the document that is promised: that of the last release, or of before the first.
const released = "../conformance/released/openapi.yaml"

// breaks says whether a document breaks clients of another, and what the judge says.
func breaks(t *testing.T, before, after string) (bool, string) {
	t.Helper()
	output, err := tool(t.Context(), "oasdiff", "breaking", before, after, "--fail-on", "WARN",
		"--severity-levels", "../conformance/released/severity.txt", "--format", "singleline")
	if err != nil && !strings.Contains(string(output), " at ") {
		t.Fatalf("oasdiff: %v: %s", err, output)
	}
	return err != nil, string(output)
}

func TestTheContractBreaksNothingThatIsPromised(t *testing.T) {
	if broken, says := breaks(t, released, "../openapi.yaml"); broken {
		t.Errorf("under /v1 the contract only grows (decisions 9.6):\n%s", says)
	}
}

// changed is a copy of the released document with one change.
func changed(t *testing.T, change func(at func(string) object)) string {
	t.Helper()
	text, err := os.ReadFile(released)
	if err != nil {
		t.Fatal(err)
	}
	if text, err = yaml.YAMLToJSON(text); err != nil {
		t.Fatal(err)
	}
	var root object
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	change(func(pointer string) object {
		node := root
		for token := range strings.SplitSeq(pointer, "/") {
			child, ok := node[strings.ReplaceAll(token, "~1", "/")].(object)
			if !ok {
				t.Fatalf("%s: there is no %s", pointer, token)
			}
			node = child
		}
		return node
	})
	data, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestABreakingChangeOfTheContractIsRefused(t *testing.T) {
	text := object{"type": "string"}
	for want, change := range map[string]func(at func(string) object){
		"api-path-removed-without-deprecation": func(at func(string) object) { delete(at("paths"), "/v1/sdk/limits") },
		"api-removed-without-deprecation":      func(at func(string) object) { delete(at("paths/~1v1~1sdk~1hooks~1{hookId}"), "delete") },
		"response-required-property-removed":   func(at func(string) object) { delete(at("components/schemas/Limits/properties"), "streams") },
		"response-property-type-changed":       func(at func(string) object) { at("components/schemas/Problem/properties/title")["type"] = "integer" },
		"response-property-became-nullable": func(at func(string) object) {
			at("components/schemas/Problem/properties/title")["type"] = []string{"string", "null"}
		},
		"response-property-enum-value-added": func(at func(string) object) {
			at("components/schemas/RunStatus")["enum"] = []string{"CREATED", "EXECUTING", "COMPLETED", "FAILED", "CANCELED", "LOST"}
		},
		"response-media-type-removed": func(at func(string) object) {
			delete(at("paths/~1healthz/get/responses/200/content"), "application/json")
		},
		"response-success-status-removed": func(at func(string) object) {
			responses := at("paths/~1healthz/get/responses")
			responses["201"] = responses["200"]
			delete(responses, "200")
		},
		"request-property-removed": func(at func(string) object) {
			delete(at("components/schemas/ExecuteComponentRequest/properties"), "waitForMs")
		},
		"new-required-request-property": func(at func(string) object) {
			schema := at("components/schemas/CreateSessionRequest")
			at("components/schemas/CreateSessionRequest/properties")["code"] = text
			schema["required"] = []string{"email", "password", "code"}
		},
		"request-property-max-decreased": func(at func(string) object) {
			at("components/schemas/ExecuteComponentRequest/properties/waitForMs")["maximum"] = 1000
		},
		"request-property-enum-value-removed": func(at func(string) object) { at("components/schemas/CancelMode")["enum"] = []string{"graceful"} },
		"new-required-request-parameter": func(at func(string) object) {
			operation := at("paths/~1v1~1sdk~1limits/get")
			operation["parameters"] = append(operation["parameters"].([]any), object{"name": "plan", "in": "query", "required": true, "schema": text})
		},
		"api-security-removed": func(at func(string) object) {
			at("paths/~1v1~1sessions~1current/get")["security"] = []object{{"SessionToken": []string{}}}
		},
		"api-operation-id-removed":           func(at func(string) object) { at("paths/~1v1~1sdk~1limits/get")["operationId"] = "limits" },
		"response-optional-property-removed": func(at func(string) object) { delete(at("components/schemas/Problem/properties"), "serverTime") },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			if broken, says := breaks(t, released, changed(t, change)); !broken || !strings.Contains(says, "["+want+"]") {
				t.Errorf("broken %v: %s", broken, says)
			}
		})
	}
}

func TestWhatGrowsTheContractIsNotRefusedAndIsTold(t *testing.T) {
	grown := changed(t, func(at func(string) object) {
		at("paths")["/v1/sdk/more"] = object{"get": object{"operationId": "more", "responses": object{"200": object{"description": "More."}}}}
		at("components/schemas/Limits/properties")["more"] = object{"type": "string"}
		at("components/schemas/ExecuteComponentRequest/properties")["more"] = object{"type": "string"}
	})
	if broken, says := breaks(t, released, grown); broken {
		t.Error(says)
	}
	changes, err := tool(t.Context(), "oasdiff", "changelog", released, grown, "--format", "markdown")
	if err != nil {
		t.Fatalf("%v: %s", err, changes)
	}
	for _, want := range []string{"GET /v1/sdk/more", "POST /v1/sdk/components", "GET /v1/sdk/limits"} {
		if !strings.Contains(string(changes), want) {
			t.Errorf("%s is not told: %s", want, changes)
		}
	}
}
