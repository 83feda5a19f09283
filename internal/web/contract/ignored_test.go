package contract_test

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/web/contract"
)

func TestIgnoredListsUnknownNames(t *testing.T) {
	operations := load(t)
	many := make([]string, 30)
	for i := range many {
		many[i] = fmt.Sprintf(`"f%02d":%d`, i, i)
	}
	const workflow = `{"name":"n","components":[{"id":"a","module":"A","input":{"x":1},"config":{"y":1},"colour":1}],"triggers":[]}`
	for _, c := range []struct{ name, operation, query, body, want string }{
		{name: "nothing", operation: "executeComponent", body: `{"module":"A","input":{},"config":{}}`},
		{name: "a parameter and a field", operation: "executeComponent", query: "limt=1&a=1", body: `{"module":"A","input":{},"config":{},"Module":1}`, want: `"a", "limt", "/Module"`},
		{name: "a parameter twice", operation: "listComponents", query: "b=1&b=2", body: `{}`, want: `"b"`},
		{name: "known parameters", operation: "listWorkflowRuns", query: "limit=5&status=FAILED", body: `{}`},
		{name: "a body of an operation without one", operation: "replayComponentCallback", body: `{"force":true}`, want: `"/force"`},
		{name: "objects of free form", operation: "triggerWorkflow", body: `{"input":{"a":1},"metadata":{"b":1},"inputs":{}}`, want: `"/inputs"`},
		{name: "below a workflow", operation: "createWorkflow", body: workflow, want: `"/components/0/colour"`},
		{name: "a body of any form", operation: "sendRunSignal", body: `{"approved":true}`},
		{name: "names to escape", operation: "executeComponent", query: "%2Fa%22=1&=1&%C3%A9=1", body: `{"module":"A","input":{},"config":{},"a/b~c\" ,\\é":1}`, want: `"", "%2Fa%22", "%C3%A9", "/a~1b~0c%22%20%2C%5C%C3%A9"`},
		{name: "many", operation: "replayComponentCallback", body: "{" + strings.Join(many, ",") + "}", want: `"/f00", "/f01", "/f02", "/f03", "/f04", "/f05", "/f06", "/f07", "/f08", "/f09", "/f10", "/f11", "/f12", "/f13", "/f14", "/f15", "/f16", "/f17", "/f18", "/f19", more`},
		{name: "long", operation: "replayComponentCallback", body: `{"a":1,"b` + strings.Repeat("b", 1000) + `":1,"c":1}`, want: `"/a", more`},
		{name: "too long", operation: "replayComponentCallback", body: `{"` + strings.Repeat("b", 1000) + `":1}`, want: `more`},
		{name: "as long as can be", operation: "replayComponentCallback", body: `{"` + strings.Repeat("b", 991) + `":1,"c":1}`, want: `"/` + strings.Repeat("b", 991) + `", more`},
	} {
		t.Run(c.name, func(t *testing.T) {
			query, err := url.ParseQuery(c.query)
			if err != nil {
				t.Fatal(err)
			}
			ignored := new(contract.Ignored)
			none := func(string) string { return "019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e" }
			if err := operations[c.operation].CheckParameters(none, query, nil, ignored); err != nil {
				t.Fatal(err)
			}
			if _, err := operations[c.operation].CheckBody([]byte(c.body), ignored); err != nil {
				t.Fatal(err)
			}
			got := ignored.String()
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if got != "" && (!listed.MatchString(got) || len(got) > 1000) {
				t.Errorf("%s doesn't match the pattern in the document", got)
			}
		})
	}
}

// listed is the pattern of the header in the document.
var listed = regexp.MustCompile(`^("[A-Za-z0-9._~$&+=:@%/-]*"(, "[A-Za-z0-9._~$&+=:@%/-]*")*(, more)?|more)$`)

func TestNullMeansMissing(t *testing.T) {
	operations := load(t)
	for _, c := range []struct{ operation, body, want string }{
		{
			"executeComponent", `{"module":"A","input":{},"config":{},"attempts":null,"waitForMs":null,"maxCredits":null,"callbackUrl":null,"callbackSecret":null,"callbackHeaders":null}`,
			`{"config":{},"input":{},"module":"A"}`,
		},
		{"triggerWorkflow", `{"input":null,"metadata":null,"waitForMs":null,"maxCredits":null,"version":null,"rerunOf":null}`, `{}`},
		{"triggerWorkflow", `{"rerunOf":{"runId":"019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e","fromStageId":null}}`, `{"rerunOf":{"runId":"019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e"}}`},
		{"triggerWorkflow", `{"version":2e0,"rerunOf":{"runId":"019AA5F2-6C3E-7B11-9D0A-3F1C2B4A5D6E"}}`, `{"rerunOf":{"runId":"019AA5F2-6C3E-7B11-9D0A-3F1C2B4A5D6E"},"version":2}`},
		{"createSchedule", `{"workflowId":"019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e","input":null}`, `{"workflowId":"019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e"}`},
		{"replaceSchedule", `{"cron":"@daily","input":null,"previous":null}`, `{"cron":"@daily","input":null,"previous":null}`}, // null removes
	} {
		got, err := operations[c.operation].CheckBody([]byte(c.body), nil)
		if err != nil || string(got) != c.want {
			t.Errorf("got %s, %v, want %s", got, err, c.want)
		}
	}
	for _, c := range []struct{ operation, body, want string }{
		{"executeComponent", `{"module":null,"input":null,"config":null}`, "/config must be an object; /input must be an object; /module must be a string"},
		{"cancelWorkflowRun", `{"reason":null}`, "/reason must be a string"},
		{"triggerWorkflow", `{"version":1e131071}`, "/version is out of range; /version must be at least 1"},
	} {
		_, err := operations[c.operation].CheckBody([]byte(c.body), nil)
		if got := faults(t, err); got != c.want {
			t.Errorf("%s: got %s, want %s", c.body, got, c.want)
		}
	}
}

// The test reads the fields from the document, so that it also covers optional fields added
// later.
func TestEveryOptionalFieldOfExecuteAndTriggerMayBeNull(t *testing.T) {
	document, err := openapi3.NewLoader().LoadFromData(api.SpecYAML())
	if err != nil {
		t.Fatal(err)
	}
	var walk func(at string, schema *openapi3.Schema)
	walk = func(at string, schema *openapi3.Schema) {
		for name, ref := range schema.Properties {
			property, null := ref.Value, ref.Value.Type.Includes("null")
			for _, one := range property.OneOf {
				if one.Value.Type.Is("null") {
					null = true
				} else {
					walk(at+"/"+name, one.Value)
				}
			}
			if !null && !slices.Contains(schema.Required, name) {
				t.Errorf("%s/%s is optional, but null is invalid", at, name)
			}
			walk(at+"/"+name, property)
		}
	}
	for _, name := range []string{"ExecuteComponentRequest", "TriggerWorkflowRequest"} {
		schema := document.Components.Schemas[name]
		if schema == nil {
			t.Fatalf("schema %s is missing", name)
		}
		walk(name, schema.Value)
	}
}
