package gen

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oasdiff/yaml"
)

// released is the document that the next one must not break: that of the last release, or a
// snapshot until the first release.
const released = "../conformance/released/openapi.yaml"

// breaks returns the breaking changes from one document to another, a line for each.
func breaks(t *testing.T, before, after string) []string {
	t.Helper()
	output, err := tool(t.Context(), "oasdiff", "breaking", before, after, "--fail-on", "WARN",
		"--severity-levels", "../conformance/released/severity.txt", "--format", "singleline",
		"--deprecation-days-stable", "365") // decisions 9.6
	var found []string
	for line := range strings.Lines(string(output)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "error") || strings.HasPrefix(line, "warning") {
			found = append(found, line)
		}
	}
	if (err != nil) != (len(found) > 0) {
		t.Fatalf("oasdiff: %v: %s", err, output)
	}
	return append(found, brokenPromises(document(t, before), document(t, after))...)
}

func document(t *testing.T, path string) object {
	t.Helper()
	text, err := os.ReadFile(path)
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
	return root
}

// agreed are in the findings about the breaking changes that were decided on. A 503 with the reason
// outcome_unknown has no Retry-After if the request had no Idempotency-Key (decisions 3), because a
// client that obeyed it could pay twice. The response to a save always has warnings, if only an
// empty list. The verification of a hook shows the scheme, algorithm and encoding that a client chose:
// hooks that were made without the new values still show the old ones. A delivery to a hook with
// respond, which no hook had before, gets the output of RESPOND instead of a DeliveryResult. The keyword
// x-null-removes is new, and so are the fields that it names. What was the ID of a workflow may also be its key: the pattern
// takes the place of the format, and every UUID matches it.
var agreed = []string{
	"added the pattern `^([a-z][a-z0-9-]{0,62}|[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12})$` to the ",
	"/info/x-keywords/x-null-removes was changed",
	"/paths//v1/sdk/hooks/{hookId}/put/x-null-removes was changed",
	"/paths//v1/sdk/schedules/{scheduleId}/put/x-null-removes was changed",
	"/paths//v1/sdk/hooks/{hookId}/put/x-null-removes was changed",
	"in API POST /v1/hooks/{hookId} added `#/components/schemas/DeliveryResult, subschema #2` to the response body `anyOf` list",
	"in API POST /v1/hooks/{hookId} the response's body `type` changed from `object` to `any`",
	"in API POST /v1/hooks/{hookId} removed the required property `",
	"enum value to the `verification/scheme` response property",
	"enum value to the `verification/algorithm` response property",
	"enum value to the `verification/encoding` response property",
	"enum value to the `data/items/verification/scheme` response property",
	"enum value to the `data/items/verification/algorithm` response property",
	"enum value to the `data/items/verification/encoding` response property",
	"the response header `retry-after` became optional for the status `503` [response-header-became-optional]",
	"the `warnings` response property's minItems was unset from `1` for the response status",
}

// `make breaking` runs it.
func TestTheContractBreaksNothingThatIsPromised(t *testing.T) {
	found := breaks(t, released, "../openapi.yaml")
	found = slices.DeleteFunc(found, func(line string) bool {
		return slices.ContainsFunc(agreed, func(part string) bool { return strings.Contains(line, part) })
	})
	if len(found) > 0 {
		t.Errorf("under /v1 the contract only grows (decisions 9.6):\n%s", strings.Join(found, "\n"))
	}
}

// edit is a change of a document.
type edit func(at func(string) object)

// changed returns the path of a copy of the released document with some edits.
func changed(t *testing.T, edits ...edit) string {
	t.Helper()
	root := document(t, released)
	for _, change := range edits {
		change(func(pointer string) object {
			node := root
			for token := range strings.SplitSeq(pointer, "/") {
				if token == "" {
					continue // the document itself
				}
				child, ok := node[strings.ReplaceAll(token, "~1", "/")].(object)
				if !ok {
					t.Fatalf("%s: %s does not exist", pointer, token)
				}
				node = child
			}
			return node
		})
	}
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

// set returns an edit that sets a field.
func set(pointer, field string, value any) edit {
	return func(at func(string) object) { at(pointer)[field] = value }
}

// remove returns an edit that removes a field.
func remove(pointer, field string) edit {
	return func(at func(string) object) {
		node := at(pointer)
		if _, there := node[field]; !there {
			panic(pointer + " has no " + field)
		}
		delete(node, field)
	}
}

// renamed returns an edit that gives a schema another name, wherever it is used.
func renamed(name, into string) edit {
	const schemas = "#/components/schemas/"
	return func(at func(string) object) {
		all := at("components/schemas")
		all[into] = all[name]
		delete(all, name)
		var walk func(any)
		walk = func(node any) {
			switch node := node.(type) {
			case object:
				if node["$ref"] == schemas+name {
					node["$ref"] = schemas + into
				}
				for _, child := range node {
					walk(child)
				}
			case []any:
				for _, child := range node {
					walk(child)
				}
			}
		}
		walk(at(""))
	}
}

// deprecated returns an edit that deprecates an operation, with its sunset in so many days.
func deprecated(pointer string, days int) edit {
	return func(at func(string) object) {
		at(pointer)["deprecated"] = true
		at(pointer)["x-sunset"] = time.Now().AddDate(0, 0, days).Format(time.DateOnly)
	}
}

// planted lists edits that break clients, each with the strings that one line of the findings
// must contain.
var planted = []struct {
	finding []string
	change  edit
}{
	{[]string{"GET /v1/sdk/limits ", "[api-path-removed-without-deprecation]"}, remove("paths", "/v1/sdk/limits")},
	{[]string{"GET /v1/sdk/environment-variables ", "[api-sunset-date-too-small]"}, deprecated("paths/~1v1~1sdk~1environment-variables/get", 360)},
	{[]string{"DELETE /v1/sdk/hooks/{hookId} ", "[api-removed-without-deprecation]"}, remove("paths/~1v1~1sdk~1hooks~1{hookId}", "delete")},
	{[]string{"`apiKey`", "[response-required-property-removed]"}, remove("components/schemas/CreatedApiKey/properties", "apiKey")},
	{[]string{"`title`", "[response-property-type-changed]"}, set("components/schemas/Problem/properties/title", "type", "integer")},
	{[]string{"`detail`", "[response-property-became-nullable]"}, set("components/schemas/Problem/properties/detail", "type", []string{"string", "null"})},
	{[]string{"`LOST`", "[response-property-enum-value-added]"}, set("components/schemas/RunStatus", "enum", []string{"CREATED", "EXECUTING", "COMPLETED", "FAILED", "CANCELED", "LOST"})},
	{[]string{"GET /healthz ", "[response-media-type-removed]"}, remove("paths/~1healthz/get/responses/200/content", "application/json")},
	{[]string{"GET /readyz ", "[response-success-status-removed]"}, func(at func(string) object) {
		responses := at("paths/~1readyz/get/responses")
		responses["201"] = responses["200"]
		delete(responses, "200")
	}},
	{[]string{"POST /v1/sdk/components ", "`maxCredits`", "[request-property-removed]"}, remove("components/schemas/ExecuteComponentRequest/properties", "maxCredits")},
	{[]string{"POST /v1/sessions ", "`code`", "[new-required-request-property]"}, func(at func(string) object) {
		at("components/schemas/CreateSessionRequest/properties")["code"] = object{"type": "string"}
		at("components/schemas/CreateSessionRequest")["required"] = []string{"email", "password", "code"}
	}},
	{[]string{"`waitForMs`", "[request-property-max-decreased]"}, set("components/schemas/ExecuteComponentRequest/properties/waitForMs", "maximum", 1000)},
	{[]string{"`immediate`", "[request-property-enum-value-removed]"}, set("components/schemas/CancelMode", "enum", []string{"graceful"})},
	{[]string{"GET /v1/sdk/workspace ", "`plan`", "[new-required-request-parameter]"}, set("paths/~1v1~1sdk~1workspace/get", "parameters",
		[]object{{"name": "plan", "in": "query", "required": true, "schema": object{"type": "string"}}})},
	{[]string{"GET /v1/sessions/current ", "[api-security-removed]"}, set("paths/~1v1~1sessions~1current/get", "security", []object{{"SessionToken": []string{}}})},
	{[]string{"`getComponent`", "[api-operation-id-removed]"}, set("paths/~1v1~1sdk~1components~1{module}/get", "operationId", "component")},
	{[]string{"`serverTime`", "[response-optional-property-removed]"}, remove("components/schemas/Problem/properties", "serverTime")},
	{[]string{"GET /v1/sdk/components/executions/{executionId}/stream ", "`totalUsage`", "[response-required-property-removed]"}, remove("components/schemas/ComponentExecutionEvent/properties", "totalUsage")},
	{[]string{"GET /v1/sdk/workflows/executions/{runId}/stream ", "[response-body-type-changed]"}, set("paths/~1v1~1sdk~1workflows~1executions~1{runId}~1stream/get/responses/200/content/text~1event-stream", "schema", object{"type": "string"})},
	{[]string{"/components/securitySchemes/ApiKey/name was changed"}, set("components/securitySchemes/ApiKey", "name", "X-Key")},
	{[]string{"/components/securitySchemes/SessionCookie was removed"}, remove("components/securitySchemes", "SessionCookie")},
	{[]string{"/servers: http://127.0.0.1:8080 was removed"}, set("", "servers", []object{{"url": "https://weft.example"}})},
	{[]string{"`limit`", "[request-parameter-default-value-changed]"}, set("components/parameters/Limit/schema", "default", 10)},
	{[]string{"`stages`", "[request-parameter-default-value-removed]"}, remove("components/parameters/StagesOfRun/schema", "default")},
	{[]string{"POST /v1/sdk/components ", "`idempotent-replayed`", "[optional-response-header-removed]"}, remove("paths/~1v1~1sdk~1components/post/responses/200/headers", "Idempotent-Replayed")},
	{[]string{"POST /v1/sdk/components ", "`409`", "[response-non-success-status-removed]"}, remove("paths/~1v1~1sdk~1components/post/responses", "409")},
	{[]string{"/components/schemas/ErrorCode/x-extensible-enum: CONFLICT was removed"}, set("components/schemas/ErrorCode", "x-extensible-enum", []string{"NOT_FOUND"})},
	{[]string{"/components/schemas/Problem/properties/reason/x-extensible-enum: max_credits was removed"}, remove("components/schemas/Problem/properties/reason", "x-extensible-enum")},
	{[]string{"`CallbackAttempt`", "[api-schema-removed]"}, renamed("CallbackAttempt", "Attempt")},
	{[]string{"`Runs`", "[api-tag-removed]"}, set("paths/~1v1~1sdk~1workflows~1executions~1{runId}/get", "tags", []string{"Workflows"})},
	{[]string{"/paths//v1/sdk/workflows/post/x-rate-limit-cost was raised"}, set("paths/~1v1~1sdk~1workflows/post", "x-rate-limit-cost", 2)},
	{[]string{"/components/schemas/ExecuteComponentRequest/properties/callbackSecret/x-secret was changed"}, remove("components/schemas/ExecuteComponentRequest/properties/callbackSecret", "x-secret")},
	{[]string{"/paths//v1/workspaces/{workspaceId}/get/x-role was changed"}, set("paths/~1v1~1workspaces~1{workspaceId}/get", "x-role", "admin")},
}

// All edits are in one document, so that oasdiff runs once.
func TestABreakingChangeOfTheContractIsRefused(t *testing.T) {
	edits := make([]edit, len(planted))
	for i, one := range planted {
		edits[i] = one.change
	}
	found := breaks(t, released, changed(t, edits...))
	for _, one := range planted {
		if !caught(found, one.finding) {
			t.Errorf("no finding contains %q", one.finding)
		}
	}
	if t.Failed() {
		t.Log(strings.Join(found, "\n"))
	}
}

func caught(found, texts []string) bool {
	for _, line := range found {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(line, text)
		}
		if all {
			return true
		}
	}
	return false
}

func TestWhatGrowsTheContractIsNotRefusedAndIsTold(t *testing.T) {
	grown := changed(t, deprecated("paths/~1v1~1sdk~1environment-variables/get", 370), func(at func(string) object) {
		at("paths")["/v1/sdk/more"] = object{"get": object{"operationId": "more", "x-rate-limit-cost": 1, "responses": object{"200": object{"description": "More."}}}}
		at("components/schemas/Limits/properties")["more"] = object{"type": "string"}
		at("components/schemas/ExecuteComponentRequest/properties")["more"] = object{"type": "string", "x-secret": true}
		at("paths/~1v1~1sdk~1components/post")["x-rate-limit-cost"] = 1
		people := at("paths/~1v1~1sdk~1limits/get")
		people["x-role"] = "viewer"
		people["security"] = append(list(at("")["security"]), object{"SessionToken": []string{}})
		known := at("components/schemas/ErrorCode")
		known["x-extensible-enum"] = append(list(known["x-extensible-enum"]), "MORE")
	})
	if found := breaks(t, released, grown); len(found) > 0 {
		t.Errorf("%q", found)
	}
	changes, err := tool(t.Context(), "oasdiff", "changelog", released, grown, "--format", "markdown")
	if err != nil {
		t.Fatalf("%v: %s", err, changes)
	}
	for _, want := range []string{"GET /v1/sdk/more", "POST /v1/sdk/components", "GET /v1/sdk/limits"} {
		if !strings.Contains(string(changes), want) {
			t.Errorf("the changelog does not mention %s: %s", want, changes)
		}
	}
}
