package workflow_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/workflow"
)

func TestUpdateMergesComponentIntoNextVersion(t *testing.T) {
	t.Parallel()
	b := setup(t)
	made := b.create(t, draft("w", `[{"id":"call","module":"CALL","name":"Ask","config":{"url":"https://a.test","options":{"a":1,"b":{"x":1,"y":2}}},"position":[1,2]},{"id":"other","module":"CALL","config":{"url":"https://o.test"}}]`))
	got, err := b.update(made.ID, "call", `{"big":1.50,"options":{"a":null,"b":{"y":null,"z":[null]},"c":{"n":null}}}`)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"url":"https://a.test","options":{"b":{"x":1,"z":[null]},"c":{}},"big":1.50}`; string(got.Config) != want {
		t.Errorf("got  %s\nwant %s", got.Config, want)
	}
	if got.WorkflowVersion != 2 || got.Name != "Ask" || string(got.Position) != "[1,2]" || got.ID != "call" || got.Module != "CALL" || string(got.Input) != "{}" {
		t.Errorf("absent fields changed: %+v", got)
	}
	named, err := b.UpdateComponent(b.ctx, workflow.UpdateParams{
		WorkspaceID: b.workspace, WorkflowID: made.ID, ComponentID: "call", Name: new(""), Position: json.RawMessage(`[-1,0.5]`), Expected: []int32{2},
	})
	if err != nil || named.WorkflowVersion != 3 || named.Name != "" || string(named.Position) != "[-1,0.5]" || string(named.Config) != string(got.Config) {
		t.Errorf("%+v, %v", named, err)
	}
	before, err := b.Get(b.ctx, b.workspace, made.ID, new(int32(1)))
	if err != nil || string(before.Components) != string(made.Components) {
		t.Errorf("version 1 changed: %s, %v", before.Components, err)
	}
	now, err := b.Get(b.ctx, b.workspace, made.ID, nil)
	if err != nil || now.Version != 3 || !strings.Contains(string(now.Components), `"url":"https://o.test"`) {
		t.Errorf("%s, %v", now.Components, err)
	}
}

func TestUpdateKeepsTheOrderOfFields(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Service = b.serviceOf(t, addressed(t))
	const id = "019aa5f3-0a1b-7c2d-8e3f-4a5b6c7d8e9f"
	made := b.create(t, components(`[{"id":"c","module":"RUN_WORKFLOW","config":{"z":1,"workflowId":"`+id+`","m":{"z":1,"a":2},"b":0,"a":2}}]`))
	got, err := b.update(made.ID, "c", `{"y":{"q":1,"p":[{"d":1,"c":2}]},"b":null,"workflowId":"`+strings.ToUpper(id)+`","m":{"c":3,"z":4,"b":5},"x":6}`)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"z":1,"workflowId":"` + id + `","m":{"z":4,"a":2,"c":3,"b":5},"a":2,"y":{"q":1,"p":[{"d":1,"c":2}]},"x":6}`
	if string(got.Config) != want {
		t.Errorf("got  %s\nwant %s", got.Config, want)
	}
	if now, err := b.Get(b.ctx, b.workspace, made.ID, nil); err != nil || !strings.Contains(string(now.Components), want) {
		t.Errorf("stored %s, %v", now.Components, err)
	}
}

func TestEmptyUpdateCreatesNoVersion(t *testing.T) {
	t.Parallel()
	b := setup(t)
	made := b.create(t, draft("w", one))
	got, err := b.update(made.ID, "call", "")
	if err != nil || got.WorkflowVersion != 1 || !strings.Contains(string(got.Config), "a.test") {
		t.Errorf("%+v, %v", got, err)
	}
	if now, err := b.Get(b.ctx, b.workspace, made.ID, nil); err != nil || now.Version != 1 {
		t.Errorf("%+v, %v", now, err)
	}
}

func TestWorkflowIDsInConfigsAreStoredInLowerCase(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Service = b.serviceOf(t, addressed(t))
	const lower = "019aa5f3-0a1b-7c2d-8e3f-4a5b6c7d8e9f"
	upper := strings.ToUpper(lower)
	config := func(id string) string { return `{"note":"` + upper + `","workflowId":"` + id + `"}` }
	d := components(`[{"id":"c","module":"RUN_WORKFLOW","config":` + config(upper) + `},{"id":"d","module":"FETCH","config":` + config(upper) + `}]`)
	made := b.create(t, d)
	replaced, err := b.Replace(b.ctx, workflow.ReplaceParams{WorkspaceID: b.workspace, WorkflowID: made.ID, Draft: d})
	if err != nil {
		t.Fatal(err)
	}
	for _, saved := range []string{string(made.Components), string(replaced.Components)} {
		if !strings.Contains(saved, config(lower)) || !strings.Contains(saved, config(upper)) {
			t.Errorf("saved %s", saved)
		}
	}
	for _, restricted := range []bool{true, false} {
		got, err := b.tryUpdate(made.ID, restricted, `{"workflowId":"`+upper+`"}`)
		if err != nil || string(got.Config) != config(lower) {
			t.Errorf("restricted %v: %s, %v", restricted, got.Config, err)
		}
	}
	if _, err := b.tryUpdate(made.ID, true, `{"workflowId":"`+upper[:35]+`0"}`); fault.CodeOf(err) != fault.Forbidden {
		t.Errorf("another workflow: %v", err)
	}
}

func TestInvalidUpdateIsRejected(t *testing.T) {
	t.Parallel()
	b := setup(t)
	made := b.create(t, draft("w", one))
	_, err := b.update(made.ID, "call", `{"url":7,"big":"x"}`)
	if got := faults(t, err); !slices.Equal(got, []string{"/config/big", "/config/url"}) {
		t.Errorf("got %v", got)
	}
	failure, _ := errors.AsType[*fault.Error](err)
	if !strings.HasPrefix(failure.Message, "/config/big: ") {
		t.Errorf("message %q", failure.Message)
	}
	_, err = b.update(made.ID, "call", `{"url":null}`)
	if got := faults(t, err); !slices.Equal(got, []string{"/config/url"}) {
		t.Errorf("got %v", got)
	}
	if _, err := b.update(made.ID, "nowhere", `{}`); fault.CodeOf(err) != fault.NotFound || !strings.Contains(err.Error(), "no component") {
		t.Errorf("%v", err)
	}
	_, err = b.UpdateComponent(b.ctx, workflow.UpdateParams{WorkspaceID: b.workspace, WorkflowID: made.ID, ComponentID: "call", Name: new("x"), Expected: []int32{7}})
	if fault.CodeOf(err) != fault.PreconditionFailed {
		t.Errorf("%v", err)
	}
	// Each patch is small, but the resulting workflow must also fit into one request.
	large := `{"options":{"a":"` + strings.Repeat("a", 600_000) + `"}}`
	if _, err := b.update(made.ID, "call", large); err != nil {
		t.Fatal(err)
	}
	if _, err := b.update(made.ID, "call", strings.Replace(large, `"a"`, `"b"`, 1)); len(faults(t, err)) != 1 {
		t.Errorf("%v", err)
	}
	deep := strings.Repeat(`{"a":`, 61) + "1" + strings.Repeat("}", 61)
	if _, err := b.update(made.ID, "call", `{"options":`+deep+`}`); fault.CodeOf(err) != fault.InvalidInput {
		t.Errorf("too deeply nested: %v", err)
	}
	if now, err := b.Get(b.ctx, b.workspace, made.ID, nil); err != nil || now.Version != 2 {
		t.Errorf("version %d, %v", now.Version, err)
	}
}

// Package encoding/json decodes URL into a field named url. A check that reads only url would then
// see a different value than the component that runs.
func TestPlanHasOnlyFieldsOfTheSchemas(t *testing.T) {
	t.Parallel()
	b := setup(t)
	made := b.create(t, draft("w", `[{"id":"call","module":"CALL","input":{"count":1,"Count":2},
		"config":{"url":"https://a.test","URL":"https://b.test","options":{"url":1,"URL":2},"note":"x"}}]`))
	loaded, err := b.Load(b.ctx, b.scoped, b.workspace, made.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := loaded.Plan.Component("call")
	if string(got.Input) != `{"count":1}` || string(got.Config) != `{"options":{"url":1,"URL":2},"url":"https://a.test"}` {
		t.Errorf("the plan has the input %s and the config %s", got.Input, got.Config)
	}
	if !strings.Contains(string(made.Components), `"URL":"https://b.test"`) || !strings.Contains(string(made.Components), `"note":"x"`) {
		t.Errorf("it is shown as %s", made.Components)
	}
	_, _, err = b.Create(b.ctx, workflow.CreateParams{WorkspaceID: b.workspace, Draft: draft("w", `[{"id":"call","module":"CALL","config":{"url":"https://a.test","url":"https://b.test"}}]`)})
	if fault.CodeOf(err) != fault.InvalidInput {
		t.Errorf("a duplicate field: %v", err)
	}
}
