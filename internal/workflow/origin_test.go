package workflow_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/logic"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/workflow"
)

// fetch is a component with an address, secrets next to the address, and headers. All headers
// except Accept are secret.
type fetch struct{ module }

func (fetch) Open(name string) bool { return name == "Accept" }

func addressed(t *testing.T) *component.Registry {
	t.Helper()
	r, err := component.NewRegistry(
		fetch{describe("FETCH",
			`{"type":"object","properties":{"headers":{"type":"object","additionalProperties":{"type":"string","x-secret":true}},
				"node":{"type":"string","format":"uri","x-secret":true},"body":{}}}`,
			`{"type":"object","properties":{"url":{"type":"string","format":"uri"},"token":{"type":"string","x-secret":true},"timeoutMs":{"type":"integer"},"expression":{"type":"string"},
				"options":{"type":"object","additionalProperties":true}}}`,
			`{"type":"object","properties":{"text":{"type":"string"}}}`, component.Flow{})},
		describe("POST",
			`{"type":"object","properties":{"headers":{"type":"object","additionalProperties":{"type":"string","x-secret":true}}}}`,
			`{"type":"object","properties":{"url":{"type":"string","format":"uri"}}}`, none, component.Flow{}),
		describe("ENCRYPT", `{"type":"object","properties":{"data":{"type":"string","x-secret":true},"to":{"type":"array","items":{"type":"string","format":"age-recipient"}}}}`, none, none, component.Flow{}),
		describe("RUN_WORKFLOW", `{"type":"object","additionalProperties":true}`,
			`{"type":"object","properties":{"workflowId":{"type":"string"},"version":{"type":"integer"},"note":{"type":"string"}}}`, none, component.Flow{}),
		describe("COMPUTE", `{"type":"object","additionalProperties":true}`, `{"type":"object","properties":{"expression":{"type":"string"},"cases":{"type":"array"},"url":{"type":"string"}}}`,
			`{"type":"object","properties":{"result":{}}}`, component.Flow{}),
		describe("START", none, none, `{"type":"object","additionalProperties":true}`, component.Flow{Trigger: true}),
		describe("CALLED", none, `{"type":"object","properties":{"inputSchema":{"type":"object"}}}`, `{"type":"object","additionalProperties":true}`,
			component.Flow{Trigger: true, RunInput: func(config json.RawMessage) json.RawMessage {
				var c struct{ InputSchema json.RawMessage }
				_ = json.Unmarshal(config, &c)
				return c.InputSchema
			}}),
	)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (b *bench) tryUpdate(id uuid.UUID, restricted bool, config string) (api.UpdatedWorkflowComponent, error) {
	return b.UpdateComponent(b.ctx, workflow.UpdateParams{
		WorkspaceID: b.workspace, WorkflowID: id, ComponentID: "c", Restricted: restricted, Config: json.RawMessage(config),
	})
}

func components(text string) workflow.Draft { return draft("w", text) }

func TestStoredSecretIsNotSentToChangedOrigin(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Service = b.serviceOf(t, addressed(t))
	made := b.create(t, components(`[{"id":"c","module":"FETCH","input":{"headers":{"Accept":"text/plain","Authorization":"`+canary+`"}},
		"config":{"url":"https://A.test/x","token":"`+canary+`"}}]`))
	for _, same := range []string{`{"url":"https://a.test:443/y?z"}`, `{"timeoutMs":7}`, `{"url":"https://a.test/{{env.PATH}}"}`} {
		if _, err := b.tryUpdate(made.ID, false, same); err != nil {
			t.Errorf("%s keeps the origin: %v", same, err)
		}
	}
	for _, other := range []string{
		"https://b.test/x", "http://a.test/x", "https://a.test:8443/x", "https://a.test@b.test/", "https://a.test.b.test", "{{env.URL}}", "https://{{env.HOST}}/x",
		"https://a.test{{env.REST}}/", "https://a.test:{{env.PORT}}/",
	} {
		_, err := b.tryUpdate(made.ID, false, `{"url":"`+other+`"}`)
		want := []string{"/input/headers/Authorization", "/config/token"}
		if strings.Contains(other, "@") {
			want = append(want, "/config/url") // an address has no user information
		}
		if got := faults(t, err); !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", other, got, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "sent again") || strings.Contains(err.Error(), canary)) {
			t.Errorf("%s: %v", other, err)
		}
	}
	// The same rule applies when the whole workflow is saved: [redacted] stands for the stored
	// value only at the same origin.
	now, err := b.Get(b.ctx, b.workspace, made.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	save := func(pairs ...string) error {
		d := components(strings.NewReplacer(pairs...).Replace(string(now.Components)))
		_, err := b.Replace(b.ctx, workflow.ReplaceParams{WorkspaceID: b.workspace, WorkflowID: made.ID, Draft: d})
		return err
	}
	elsewhere := []string{"a.test", "b.test"}
	if got := faults(t, save(elsewhere...)); !slices.Equal(got, []string{"/components/0/input/headers/Authorization", "/components/0/config/token"}) {
		t.Errorf("saved with another origin: %v", got)
	}
	if got := faults(t, save(`"module":"FETCH"`, `"module":"POST"`, `"token":"[redacted]",`, "")); !slices.Equal(got, []string{"/components/0/input/headers/Accept", "/components/0/input/headers/Authorization"}) {
		t.Errorf("saved with another module: %v", got)
	}
	if err := save(append(elsewhere, `"Authorization":"[redacted]"`, `"Authorization":"fresh"`, `"token":"[redacted]"`, `"token":"fresh"`)...); err != nil {
		t.Errorf("with its secrets sent again: %v", err)
	}
}

// The address is the same string before and after, but refers to a different origin.
func TestStoredSecretIsNotSentToChangedVariable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Service = b.serviceOf(t, addressed(t))
	b.setVariable(t, "HOST", "a.test")
	b.setVariable(t, "PATH", "x")
	d := components(`[{"id":"c","module":"FETCH","input":{"headers":{"Accept":"text/plain","Authorization":"` + canary + `"}},
		"config":{"url":"https://{{env.HOST}}/","options":{"path":"{{env.PATH}}"}}}]`)
	made := b.create(t, d)
	fresh := d
	d.Components = made.Components
	save := func(d workflow.Draft) error {
		_, err := b.Replace(b.ctx, workflow.ReplaceParams{WorkspaceID: b.workspace, WorkflowID: made.ID, Draft: d})
		return err
	}
	b.setVariable(t, "HOST", "a.test")
	b.setVariable(t, "PATH", "y")
	if err := save(d); err != nil {
		t.Errorf("after the same value was set again, and a variable of no origin: %v", err)
	}
	b.setVariable(t, "HOST", "b.test")
	if got := faults(t, save(d)); !slices.Equal(got, []string{"/components/0/input/headers/Authorization"}) {
		t.Errorf("after another value: %v", got)
	}
	_, err := b.tryUpdate(made.ID, false, `{"timeoutMs":7}`)
	if got := faults(t, err); !slices.Equal(got, []string{"/input/headers/Authorization"}) || !strings.Contains(err.Error(), "HOST") {
		t.Errorf("after another value, by an update: %v, %v", got, err)
	}
	if err := save(fresh); err != nil {
		t.Errorf("with the secret sent again: %v", err)
	}
	if err := save(d); err != nil {
		t.Errorf("after the secret was sent again: %v", err)
	}
	b.deleteVariable(t, "HOST")
	b.setVariable(t, "HOST", "c.test")
	if got := faults(t, save(d)); len(got) != 1 {
		t.Errorf("after it was deleted and set: %v", got)
	}
}

func TestStoredSecretAcceptsFirstValueOfVariable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Service = b.serviceOf(t, addressed(t))
	d := components(`[{"id":"c","module":"FETCH","input":{"headers":{"Authorization":"` + canary + `"}},"config":{"url":"https://{{env.HOST}}/"}}]`)
	made := b.create(t, d)
	b.setVariable(t, "HOST", "a.test")
	d.Components = made.Components
	if _, err := b.Replace(b.ctx, workflow.ReplaceParams{WorkspaceID: b.workspace, WorkflowID: made.ID, Draft: d}); err != nil {
		t.Error(err)
	}
}

// If a connection fills an address, the source of the connection is its origin.
func TestStoredSecretIsNotSentToChangedConnection(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Service = b.serviceOf(t, addressed(t))
	d := components(`[{"id":"start","module":"START"},{"id":"c","module":"FETCH","input":{"headers":{"Authorization":"` + canary + `"},"node":"https://a.test"}}]`)
	d.SequenceEdges = json.RawMessage(`[{"id":"e","from":"start","to":"c"}]`)
	made := b.create(t, d)
	d.Components = made.Components
	save := func() error {
		_, err := b.Replace(b.ctx, workflow.ReplaceParams{WorkspaceID: b.workspace, WorkflowID: made.ID, Draft: d})
		return err
	}
	if err := save(); err != nil {
		t.Fatal(err)
	}
	d.DataConnections = json.RawMessage(`[{"id":"d","from":{"componentId":"start","output":"url"},"to":{"componentId":"c","input":"node"}}]`)
	if got := faults(t, save()); !slices.Contains(got, "/components/1/input/headers/Authorization") {
		t.Errorf("got %v", got)
	}
}

func TestRestrictedKeyCannotReachBeyondComponent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Service = b.serviceOf(t, addressed(t))
	for _, c := range []struct{ component, refused, taken string }{
		{`{"id":"c","module":"FETCH","config":{"url":"https://a.test/x"}}`, `{"url":"https://a.test/{{env.TOKEN}}"}`, `{"url":"https://b.test/"}`},
		{`{"id":"c","module":"FETCH","config":{"options":{"a":"{{env.TOKEN}}"}}}`, `{"options":{"b":["{{env.TOKEN}}"]}}`, `{"options":{"b":["x"]}}`},
		{`{"id":"c","module":"FETCH","config":{"options":{"a":"{{env.TOKEN}}"}}}`, `{"options":{"a":"x{{env.TOKEN}}"}}`, `{"options":{"a":"x"}}`},
		{`{"id":"c","module":"FETCH","config":{"token":"` + canary + `","url":"https://a.test/x"}}`, `{"url":"https://b.test/x"}`, `{"url":"https://a.test/y"}`},
		{`{"id":"c","module":"FETCH","config":{"token":"` + canary + `","url":"https://a.test/x"}}`, `{"url":"https://b.test/x","token":"mine"}`, `{"token":"mine"}`},
		{`{"id":"c","module":"FETCH","input":{"headers":{"Authorization":"` + canary + `"}},"config":{"url":"https://a.test/x"}}`, `{"url":"http://a.test/x"}`, `{"timeoutMs":1}`},
		{`{"id":"c","module":"FETCH","input":{"headers":{"Authorization":"{{env.TOKEN}}"}},"config":{"url":"https://a.test/x"}}`, `{"url":"https://b.test/x"}`, `{"url":"https://a.test/y"}`},
		{`{"id":"c","module":"FETCH","input":{"body":{"a":["{{env.TOKEN}}"]}},"config":{"url":"https://a.test/x"}}`, `{"url":"https://b.test/x"}`, `{"timeoutMs":1}`},
		{`{"id":"c","module":"FETCH","input":{"headers":{"Accept":"text/plain"}},"config":{"url":"https://a.test/x"}}`, "", `{"url":"https://b.test/x"}`},
		{`{"id":"c","module":"COMPUTE","input":{"a":"{{env.TOKEN}}"},"config":{"expression":"1"}}`, `{"expression":"a"}`, `{"expression":"1"}`},
		{`{"id":"c","module":"COMPUTE","input":{"a":"{{env.TOKEN}}"},"config":{"cases":[1]}}`, `{"cases":[1,2]}`, `{"url":"x"}`},
		{`{"id":"c","module":"COMPUTE","input":{"a":"b"},"config":{"expression":"1"}}`, "", `{"expression":"a"}`},
		{`{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":"one","version":1}}`, `{"workflowId":"two"}`, `{"note":"x","workflowId":"one"}`},
		{`{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":"one","version":1}}`, `{"version":2}`, `{"note":"x"}`},
		{`{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":"one","version":1}}`, `{"version":null}`, `{"note":"x"}`},
	} {
		made := b.create(t, components("["+c.component+"]"))
		if c.refused != "" {
			_, err := b.tryUpdate(made.ID, true, c.refused)
			failure, ok := errors.AsType[*fault.Error](err)
			if !ok || failure.Code != fault.Forbidden || failure.Reason != "needs_unrestricted_key" || strings.Contains(failure.Message, canary) {
				t.Errorf("%s into %s: %v", c.refused, c.component, err)
			}
		}
		if got, err := b.tryUpdate(made.ID, true, c.taken); err != nil || got.WorkflowVersion != 2 {
			t.Errorf("%s into %s: version %d, %v", c.taken, c.component, got.WorkflowVersion, err)
		}
	}
}

// Secret inputs of callers are hidden from readers of the run. So a restricted key must not have
// these inputs sent to a different origin or computed into an output. The same rule applies to
// variables that other components pass on.
func TestRestrictedKeyCannotRedirectSecretInputs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Service = b.serviceOf(t, addressed(t))
	const schema = `{"type":"object","properties":{"key":{"type":"string","x-secret":true},"list":{"type":"array","items":{"type":"object","properties":{"pin":{"type":"string","x-secret":true}}}},"amount":{"type":"integer"}}}`
	for _, c := range []struct {
		output string // output of the trigger that reaches the component through a second component
		text   string // text of the constant that also reaches the component
		secret bool
	}{
		{"amount", "x", false}, {"input.amount", "x", false}, {"list.0.name", "x", false},
		{"key", "x", true}, {"input", "x", true}, {"input.key", "x", true}, {"key.0", "x", true}, {"list", "x", true}, {"list.0", "x", true}, {"list.0.pin", "x", true}, {"input.list.0.pin", "x", true},
		{"amount", "{{env.TOKEN}}", true},
	} {
		for module, change := range map[string]string{"FETCH": `{"url":"https://b.test"}`, "COMPUTE": `{"expression":"body"}`} {
			d := components(`[{"id":"start","module":"START"},{"id":"text","module":"COMPUTE","config":{"expression":"` + c.text + `"}},
				{"id":"between","module":"COMPUTE","config":{"expression":"x"}},{"id":"c","module":"` + module + `","config":{"url":"https://a.test","expression":"x"}}]`)
			d.InputSchema = json.RawMessage(schema)
			d.SequenceEdges = json.RawMessage(`[{"id":"1","from":"start","to":"text"},{"id":"2","from":"text","to":"between"},{"id":"3","from":"between","to":"c"}]`)
			d.DataConnections = json.RawMessage(`[{"id":"a","from":{"componentId":"start","output":"` + c.output + `"},"to":{"componentId":"between","input":"a"}},
				{"id":"b","from":{"componentId":"between","output":"result"},"to":{"componentId":"c","input":"body"}},
				{"id":"c","from":{"componentId":"text","output":"result"},"to":{"componentId":"between","input":"b"}}]`)
			made := b.create(t, d)
			_, err := b.tryUpdate(made.ID, true, change)
			if refused := fault.CodeOf(err) == fault.Forbidden; refused != c.secret || err != nil && !refused {
				t.Errorf("%s of the trigger and %q reach a %s: %v", c.output, c.text, module, err)
			}
			if _, err := b.tryUpdate(made.ID, false, change); err != nil {
				t.Errorf("by an unrestricted key: %v", err)
			}
		}
	}
}

func TestRestrictedKeyCannotUnhideInputOfRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Service = b.serviceOf(t, addressed(t))
	schema := func(key string) string {
		return `{"inputSchema":{"type":"object","properties":{"amount":{"type":"integer"},"key":` + key + `}}}`
	}
	hidden := schema(`{"type":"string","x-secret":true}`)
	made := b.create(t, components(`[{"id":"c","module":"CALLED","config":`+hidden+`}]`))
	otherCase := `{"inputSchema":{"properties":{"key":{"x-secret":null}}},` + strings.Replace(hidden[1:], "inputSchema", "inputschema", 1)
	for _, change := range []string{schema(`{"x-secret":null}`), schema(`{"x-secret":false}`), schema(`null`), `{"inputSchema":null}`, otherCase} {
		_, err := b.tryUpdate(made.ID, true, change)
		if failure, ok := errors.AsType[*fault.Error](err); !ok || failure.Reason != "needs_unrestricted_key" {
			t.Errorf("%s: %v", change, err)
		}
	}
	if _, err := b.tryUpdate(made.ID, true, schema(`{"maxLength":20}`)); err != nil {
		t.Errorf("a change that hides as much: %v", err)
	}
	if _, err := b.tryUpdate(made.ID, true, `{"inputSchema":{"properties":{"amount":{"x-secret":true}}}}`); err != nil {
		t.Errorf("a change that hides more: %v", err)
	}
	if _, err := b.tryUpdate(made.ID, false, `{"inputSchema":null}`); err != nil {
		t.Errorf("by an unrestricted key: %v", err)
	}
}

// Otherwise a caller could read a stored secret by having it encrypted with a different key.
func TestStoredSecretIsNotSentToChangedRecipient(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Service = b.serviceOf(t, addressed(t))
	made := b.create(t, components(`[{"id":"c","module":"ENCRYPT","input":{"data":"`+canary+`","to":["a"]}}]`))
	for to, want := range map[string]bool{`["a"]`: true, `["b"]`: false, `["a","b"]`: false} {
		_, err := b.Replace(b.ctx, workflow.ReplaceParams{WorkspaceID: b.workspace, WorkflowID: made.ID, Draft: components(
			`[{"id":"c","module":"ENCRYPT","input":{"data":"[redacted]","to":` + to + `}}]`)})
		if got := fault.CodeOf(err) != fault.InvalidInput; got != want {
			t.Errorf("to %s: %v", to, err)
		}
	}
}

// A restricted key reaches no secret, no variable and no other component's output by a reference.
func TestRestrictedKeyCannotAddReferences(t *testing.T) {
	t.Parallel()
	b := setup(t)
	modules, err := component.NewRegistry(logic.Modules()...)
	if err != nil {
		t.Fatal(err)
	}
	b.Service = b.serviceOf(t, modules)
	for part, changes := range map[string]struct {
		refused []string
		taken   string
	}{
		`{"id":"c","module":"TRANSFORM","input":{"a":1},"config":{"expression":"a"}}`: {[]string{
			`{"expression":"start.key"}`, `{"expression":"env.TOKEN"}`, `{"expression":"run.id"}`, `{"expression":"now()"}`, `{"expression":"[a, outputs[\"start\"].key]"}`, `{"expression":"start.key ?? a"}`,
			`{"expression":"{{env.TOKEN}}"}`, `{"expression":"other.result"}`, `{"expression":"other.error.message ?? a"}`,
		}, `{"expression":"a + len(\"start.key\")"}`},
		`{"id":"c","module":"FAIL","config":{"message":"x {{ start.n }}"}}`: {[]string{
			`{"message":"{{ start.key }}"}`, `{"message":"x {{env.TOKEN}}"}`, `{"message":"{{ env.TOKEN }}"}`, `{"message":"x {{ start.n + 1 }}"}`, `{"message":"{{ now() }}"}`,
		}, `{"message":"y"}`},
		`{"id":"c","module":"SWITCH","input":{"a":1},"config":{"cases":[{"name":"one","expression":"a == 1"}]}}`: {[]string{
			`{"cases":[{"name":"one","expression":"start.key == 1"}]}`,
		}, `{"cases":[{"name":"one","expression":"a == 2"}]}`},
	} {
		d := components(`[{"id":"start","module":"ON_API_CALLED","config":{"inputSchema":{"type":"object","properties":{"key":{"type":"string","x-secret":true},"n":{}}}}},{"id":"other","module":"TRANSFORM","config":{"expression":"1"}},` + part + `]`)
		d.SequenceEdges = json.RawMessage(`[{"id":"1","from":"start","to":"other"},{"id":"2","from":"other","to":"c"}]`)
		made := b.create(t, d)
		for _, change := range changes.refused {
			_, err := b.tryUpdate(made.ID, true, change)
			if failure, ok := errors.AsType[*fault.Error](err); !ok || failure.Reason != "needs_unrestricted_key" {
				t.Errorf("%s into %s: %v", change, part, err)
			}
		}
		if _, err := b.tryUpdate(made.ID, true, changes.taken); err != nil {
			t.Errorf("%s into %s: %v", changes.taken, part, err)
		}
	}
}
