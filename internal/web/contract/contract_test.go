package contract_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/web/contract"
)

func load(t *testing.T) map[string]*contract.Operation {
	t.Helper()
	c, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]*contract.Operation{}
	for _, o := range c.Operations {
		byID[o.ID] = o
	}
	return byID
}

func TestLoadReadsSecurityCostAndMedia(t *testing.T) {
	operations := load(t)
	for id, want := range map[string]contract.Operation{
		"executeComponent":         {Method: "POST", Path: "/v1/sdk/components", Signed: true, Person: true, Role: "editor", Cost: 2, Media: []string{"application/json"}},
		"getComponentExecution":    {Method: "GET", Path: "/v1/sdk/components/executions/{executionId}", Signed: true, Person: true, Role: "viewer", Cost: 1, Media: []string{"application/json"}},
		"streamComponentExecution": {Method: "GET", Path: "/v1/sdk/components/executions/{executionId}/stream", Signed: true, Person: true, Role: "viewer", Cost: 1, Media: []string{"text/event-stream"}},
		"listWorkflowRuns":         {Method: "GET", Path: "/v1/sdk/workflows/executions", Signed: true, Person: true, Role: "viewer", Cost: 1, Media: []string{"application/json"}},
		"createSession":            {Method: "POST", Path: "/v1/sessions", SignIn: true, Media: []string{"application/json"}},
		"getCurrentSession":        {Method: "GET", Path: "/v1/sessions/current", Person: true, Media: []string{"application/json"}},
		"getWorkspace":             {Method: "GET", Path: "/v1/workspaces/{workspaceId}", Person: true, Role: "viewer", Cost: 1, Media: []string{"application/json"}},
		"revokeApiKey":             {Method: "DELETE", Path: "/v1/workspaces/{workspaceId}/api-keys/{keyId}", Person: true, Role: "admin", Media: []string{"application/json"}},
		"listSystemComponents":     {Method: "GET", Path: "/v1/system/components", Media: []string{"application/json"}},
		"checkSignature":           {Method: "POST", Path: "/v1/sdk/signature-check", Media: []string{"application/json"}},
		"getOpenapiYaml":           {Method: "GET", Path: "/openapi.yaml", Media: []string{"application/yaml"}},
		"getLiveness":              {Method: "GET", Path: "/healthz", Media: []string{"application/json"}},
	} {
		got := operations[id]
		if got == nil {
			t.Errorf("%s is missing", id)
			continue
		}
		if got.Method != want.Method || got.Path != want.Path || got.Signed != want.Signed || got.Person != want.Person || got.Role != want.Role || got.SignIn != want.SignIn || got.Cost != want.Cost || !slices.Equal(got.Media, want.Media) {
			t.Errorf("%s: %+v", id, got)
		}
	}
	if !operations["streamComponentExecution"].Stream() || operations["executeComponent"].Stream() {
		t.Error("Stream is wrong for an operation")
	}
}

// faults returns the pointers and messages of an INVALID_INPUT.
func faults(t *testing.T, err error) string {
	t.Helper()
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Code != fault.InvalidInput || e.Unprocessable {
		t.Fatalf("got %v, want INVALID_INPUT", err)
	}
	var lines []string
	for _, d := range e.Details {
		lines = append(lines, d.Pointer+" "+d.Message)
	}
	return strings.Join(lines, "; ")
}

func TestCheckBodyReportsAllFaults(t *testing.T) {
	execute := load(t)["executeComponent"]
	long := strings.Repeat("a", 10_000)
	for _, c := range []struct{ name, body, want string }{
		{"empty", `{}`, "/config is required: expected an object; /input is required: expected an object; /module is required: expected a string"},
		{"wrong types", `{"module":7,"input":[],"config":null}`, "/config must be an object; /input must be an object; /module must be a string"},
		{"out of range", `{"module":"A","input":{},"config":{},"attempts":4,"waitForMs":15001}`, "/attempts must be at most 3; /waitForMs must be at most 15000"},
		{"below range", `{"module":"A","input":{},"config":{},"attempts":0,"waitForMs":-1}`, "/attempts must be at least 1; /waitForMs must be at least 0"},
		{"fraction", `{"module":"A","input":{},"config":{},"attempts":1.5}`, "/attempts must be an integer or null"},
		{"null where none is allowed", `{"module":"A","input":{},"config":null}`, "/config must be an object"},
		{"long module", `{"module":"` + long + `","input":{},"config":{}}`, "/module must have at most 64 characters"},
		{"not a url", `{"module":"A","input":{},"config":{},"callbackUrl":"no url"}`, "/callbackUrl must be a valid uri, such as https://api.example.org/v1"},
		{"empty secret", `{"module":"A","input":{},"config":{},"callbackSecret":""}`, "/callbackSecret must have at least 1 character"},
		{"header value", `{"module":"A","input":{},"config":{},"callbackHeaders":{"a":"x\ny","b":7}}`, `/callbackHeaders/a must match ^[\x20-\x7E]*$; /callbackHeaders/b must be a string`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := execute.CheckBody([]byte(c.body), new(contract.Ignored))
			if got := faults(t, err); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if strings.Contains(err.Error(), long[:101]) {
				t.Error("the error contains the value")
			}
		})
	}
}

func TestCheckBodyReturnsKnownFields(t *testing.T) {
	execute := load(t)["executeComponent"]
	got, err := execute.CheckBody([]byte(`{"MODULE":"B", "module":"A","input":{"x": 1.0,"<":"&"},"config":{},"attempts":3.0,"waitForMs":1e3,"maxCredits":25e-6,"more":[1]}`), new(contract.Ignored))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"attempts":3,"config":{},"input":{"x": 1.0,"<":"&"},"maxCredits":0.000025,"module":"A","waitForMs":1000}`; string(got) != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	if !json.Valid(got) {
		t.Fatal("not JSON")
	}
}

func TestCheckBodyChecksNestedFields(t *testing.T) {
	create := load(t)["createWorkflow"]
	body := `{"name":"n","inputSchema":null,"components":[{"ID":"b","id":"a","module":"A","input":{"Id":1.0},"position":[1.0,2e2],"workspaceId":1}],` +
		`"dataConnections":[{"id":"d","from":{"componentId":"a","ComponentId":"b","output":"o"},"to":{"componentId":"a","input":"i"}}]}`
	got, err := create.CheckBody([]byte(body), new(contract.Ignored))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"components":[{"id":"a","input":{"Id":1.0},"module":"A","position":[1,200]}],` +
		`"dataConnections":[{"from":{"componentId":"a","output":"o"},"id":"d","to":{"componentId":"a","input":"i"}}],"name":"n"}`; string(got) != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	_, err = create.CheckBody([]byte(body), nil)
	if got, want := faults(t, err), "/components/0/ID is not a known field; /components/0/workspaceId is not a known field; /dataConnections/0/from/ComponentId is not a known field"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	_, err = create.CheckBody([]byte(`{"name":"","components":[{"module":"a","position":[1],"attempts":9},7],"sequenceEdges":{}}`), new(contract.Ignored))
	if got, want := faults(t, err), "/components/0/attempts must be at most 3; /components/0/id is required: expected a string; "+
		"/components/0/position must have at least 2 items; /components/1 must be an object; /name must have at least 1 character; /sequenceEdges must be an array"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The body of a signal is its payload, so CheckBody doesn't change it.
func TestCheckBodyReturnsOpaqueBodyUnchanged(t *testing.T) {
	signal := load(t)["sendRunSignal"]
	const body = `{"Approved": 1.0,"by":{"x":[1e3]}}`
	if got, err := signal.CheckBody([]byte(body), nil); err != nil || string(got) != body {
		t.Errorf("%s, %v", got, err)
	}
}

// A short string such as 1e999999999 can be a number that takes very long to expand or compare.
// CheckBody rejects such numbers without parsing them.
func TestCheckBodyRejectsHugeNumbers(t *testing.T) {
	create := load(t)["createWorkflow"]
	numbers := strings.TrimSuffix(strings.Repeat("1e131071,-1e-131071,", 20_000), ",")
	rest, err := create.CheckBody([]byte(`{"name":"n","components":[{"id":"a","module":"A","attempts":1e131071,"position":[`+numbers+`]},`+
		strings.Repeat("1,", 100_000)+`1]}`), new(contract.Ignored))
	for _, want := range []string{"/components must have at most 500 items", "/components/0/attempts is out of range", "/components/0/position/0 is out of range", "/components/0/position must have at most 2 items"} {
		if got := faults(t, err); !strings.Contains(got, want) {
			t.Errorf("%s is missing in %s", want, got)
		}
	}
	if rest != nil {
		t.Error("a body of which some items were not read was returned")
	}
}

func TestStrictHandlingRejectsUnknownNames(t *testing.T) {
	operations := load(t)
	_, err := operations["executeComponent"].CheckBody([]byte(`{"module":"A","input":{},"config":{},"Module":1,"workspaceId":2}`), nil)
	if got, want := faults(t, err), "/Module is not a known field; /workspaceId is not a known field"; got != want {
		t.Errorf("got %s", got)
	}
	if fit, err := operations["executeComponent"].CheckBody([]byte(`{"module":"A","input":{},"config":{},"more":1}`), nil); err == nil || string(fit) != `{"config":{},"input":{},"module":"A"}` {
		t.Errorf("body with an unknown field as the only fault: got %s, %v", fit, err)
	}
	fit, err := operations["executeComponent"].CheckBody([]byte(`{"module":"A","input":{},"more":1}`), nil)
	if got, want := faults(t, err), "/config is required: expected an object; /more is not a known field"; got != want || string(fit) != `{"input":{},"module":"A"}` {
		t.Errorf("got %s, %s", got, fit)
	}
	_, err = operations["replayComponentCallback"].CheckBody([]byte(`{"force":true}`), nil)
	if got, want := faults(t, err), "/force is not a known field"; got != want {
		t.Errorf("got %s", got)
	}
	if _, err = operations["replayComponentCallback"].CheckBody([]byte(`{"force":true}`), new(contract.Ignored)); err != nil {
		t.Errorf("lenient: %v", err)
	}
	none := func(string) string { return "" }
	err = operations["listComponents"].CheckParameters(none, url.Values{"nonce": {"1"}, "limit": {"5"}}, nil, nil)
	if got, want := faults(t, err), "/query/nonce is not a known query parameter"; got != want {
		t.Errorf("got %s", got)
	}
}

func TestCheckParameters(t *testing.T) {
	operations := load(t)
	const id = "019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e"
	for _, c := range []struct {
		name, operation, path, query string
		header                       http.Header
		want                         string // "" if valid, "404", or the faults
	}{
		{name: "nothing", operation: "listComponentExecutions"},
		{name: "right", operation: "listComponentExecutions", query: "limit=100&cursor=QUJD&nonce=7"},
		{name: "zero", operation: "listComponentExecutions", query: "limit=0", want: "/query/limit must be at least 1"},
		{name: "many", operation: "listComponentExecutions", query: "limit=101", want: "/query/limit must be at most 100"},
		{name: "no number", operation: "listComponentExecutions", query: "limit=ten", want: "/query/limit must be an integer"},
		{name: "huge", operation: "listComponentExecutions", query: "limit=" + strings.Repeat("9", 5000), want: "/query/limit must be at most 100"},
		{name: "hugely negative", operation: "listComponentExecutions", query: "limit=-" + strings.Repeat("9", 5000), want: "/query/limit must be at least 1"},
		{name: "leading zero", operation: "listComponentExecutions", query: "limit=020", want: "/query/limit must be an integer"},
		{name: "twice", operation: "listComponentExecutions", query: "limit=1&limit=2", want: "/query/limit must appear only once"},
		{name: "cursor", operation: "listComponentExecutions", query: "cursor=%20", want: "/query/cursor must match ^[A-Za-z0-9_-]+$"},
		{name: "id", operation: "getComponentExecution", path: id},
		{name: "upper case id", operation: "getComponentExecution", path: strings.ToUpper(id)},
		{name: "id without hyphens", operation: "getComponentExecution", path: strings.ReplaceAll(id, "-", ""), want: "404"},
		{name: "filter", operation: "listWorkflowRuns", query: "workflowId=" + strings.ToUpper(id)},
		{name: "no filter", operation: "listWorkflowRuns", query: "workflowId=No", want: "/query/workflowId must be the key or the ID of a workflow, such as ship-order"},
		{name: "braced id", operation: "getComponentExecution", path: "{" + id + "}", want: "404"},
		{name: "no id", operation: "getComponentExecution", path: "nope", want: "404"},
		{name: "force", operation: "replayComponentCallback", path: id, query: "force=true"},
		{name: "forced", operation: "replayComponentCallback", path: id, query: "force=yes", want: "/query/force must be a boolean"},
		{name: "enum", operation: "getWorkflowRun", path: id, query: "stages=none"},
		{name: "no enum", operation: "getWorkflowRun", path: id, query: "stages=some", want: `/query/stages must be one of "all", "none"`},
		{name: "version", operation: "exportWorkflow", path: id, query: "version=2"},
		{name: "version 0", operation: "getWorkflow", path: id, query: "version=0", want: "/query/version must be at least 1"},
		{name: "last version", operation: "getWorkflow", path: id, query: "version=2147483647"},
		{name: "version beyond int32", operation: "getWorkflow", path: id, query: "version=2147483648", want: "/query/version must be at most 2147483647"},
		{name: "last event", operation: "listRunEvents", path: id, query: "after=9223372036854775807"},
		{name: "event beyond int64", operation: "listRunEvents", path: id, query: "after=9223372036854775808", want: "/query/after must be at most 9223372036854775807"},
		{name: "event id beyond int64", operation: "streamWorkflowRun", path: id, header: http.Header{"Last-Event-Id": {"9999999999999999999"}}, want: "/header/Last-Event-ID must be at most 9223372036854775807"},
		{name: "status", operation: "listWorkflowRuns", query: "status=RUNNING", want: `/query/status must be one of "CREATED", "EXECUTING", "COMPLETED", "FAILED", "CANCELED"`},
		{name: "event id", operation: "streamWorkflowRun", path: id, query: "after=7", header: http.Header{"Last-Event-Id": {"9"}}},
		{name: "no event id", operation: "streamWorkflowRun", path: id, header: http.Header{"Last-Event-Id": {"x"}}, want: "/header/Last-Event-ID must be an integer"},
		{name: "etag", operation: "replaceWorkflow", path: id, header: http.Header{"If-Match": {`W/"12"`}}},
		{name: "no etag", operation: "replaceWorkflow", path: id, header: http.Header{"If-Match": {`12`}}},
		{name: "key", operation: "executeComponent", header: http.Header{"Idempotency-Key": {"order 4711, first"}}},
		{name: "long key", operation: "executeComponent", header: http.Header{"Idempotency-Key": {strings.Repeat("k", 256)}}, want: `/header/Idempotency-Key must have at most 255 characters; /header/Idempotency-Key must match ^[\x20-\x7E]{1,255}$`},
		{name: "two keys", operation: "executeComponent", header: http.Header{"Idempotency-Key": {"a", "b"}}, want: "/header/Idempotency-Key must appear only once"},
		{name: "key not ASCII", operation: "executeComponent", header: http.Header{"Idempotency-Key": {"clé"}}, want: `/header/Idempotency-Key must match ^[\x20-\x7E]{1,255}$`},
	} {
		t.Run(c.name, func(t *testing.T) {
			query, err := url.ParseQuery(c.query)
			if err != nil {
				t.Fatal(err)
			}
			err = operations[c.operation].CheckParameters(func(string) string { return c.path }, query, c.header, new(contract.Ignored))
			switch {
			case c.want == "":
				if err != nil {
					t.Fatal(err)
				}
			case c.want == "404":
				if fault.CodeOf(err) != fault.NotFound {
					t.Fatal(err)
				}
			default:
				if got := faults(t, err); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
			}
		})
	}
}

func BenchmarkCheckBody(b *testing.B) {
	c, err := contract.Load()
	if err != nil {
		b.Fatal(err)
	}
	var execute *contract.Operation
	for _, o := range c.Operations {
		if o.ID == "executeComponent" {
			execute = o
		}
	}
	body := []byte(`{"module":"HASH","input":{"algorithm":"sha256","data":"` + strings.Repeat("a", 200) + `"},"config":{},"attempts":3,"waitForMs":5000,"callbackUrl":"https://hooks.example.org/weft"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := execute.CheckBody(body, new(contract.Ignored)); err != nil {
			b.Fatal(err)
		}
	}
}
