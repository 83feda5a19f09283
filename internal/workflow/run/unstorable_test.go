package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// unstorable is a module whose output contains characters that PostgreSQL cannot store, if its
// config says so.
func unstorable() module {
	return workflowtest.Made("UNSTORABLE", 0, workflowtest.Anything, func(_ context.Context, call component.Call) (component.Result, error) {
		var config struct{ In string }
		if err := json.Unmarshal(call.Config, &config); err != nil {
			return component.Result{}, err
		}
		switch config.In {
		case "code":
			return component.Result{}, component.Permanent("BRO\x00KEN", "it broke")
		case "message":
			return component.Result{}, component.Permanent("BROKEN", "it\x00broke")
		case "details":
			return component.Result{}, component.Permanent("BROKEN", "it broke").With(map[string]any{"a\x00b": []string{"c\x00"}})
		case "raw details":
			return component.Result{}, &component.Error{Code: "BROKEN", Message: "it broke", Details: json.RawMessage("{\"a\":\"\x00\"}")}
		case "member":
			return component.Result{Output: json.RawMessage(`{"a\u0000b":1}`)}, nil
		case "surrogate":
			return component.Result{Output: json.RawMessage(`{"value":"\ud800"}`)}, nil
		case "raw":
			return component.Result{Output: json.RawMessage("{\"value\":\"\x00\"}")}, nil
		case "state":
			return component.Result{Wait: &component.Wait{After: time.Millisecond, State: json.RawMessage(`{"value":"\u0000"}`)}}, nil
		}
		return component.Result{Output: json.RawMessage(`{"value":"a\u0000b"}`)}, nil
	})
}

// An output that cannot be stored fails its stage with an error that says so. From an error, the
// unstorable part is omitted. Neither blocks the run or its ancestors.
func TestUnstorableOutputFailsStage(t *testing.T) {
	t.Parallel()
	b := newBench(t, unstorable())
	n := b.start(t, options{slots: 8, sweep: time.Second})
	for in, want := range map[string]struct{ code, message string }{
		"output": {"INTERNAL_ERROR", "cannot be stored"}, "member": {"INTERNAL_ERROR", "cannot be stored"},
		"surrogate": {"INTERNAL_ERROR", "cannot be stored"}, "raw": {"INTERNAL_ERROR", "cannot be stored"},
		"code": {"BROKEN", "it broke"}, "message": {"BROKEN", "it broke"}, "details": {"BROKEN", "it broke"}, "raw details": {"BROKEN", "it broke"},
		"state": {"INTERNAL_ERROR", "cannot be stored"},
	} {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			inner := n.draw(t, fmt.Sprintf(`[{"id":"u","module":"UNSTORABLE","config":{"in":%q}}]`, in), "", "")
			id := n.draw(t, fmt.Sprintf(`[{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":%q}}]`, inner), "", "")
			key := n.trigger(t, run.TriggerParams{WorkflowID: id})
			got, _ := n.end(t, key)
			_, stages := n.end(t, n.child(t, key))
			var failure api.ExecutionError
			if stage := stages["u@[]"]; json.Unmarshal(stage.Error, &failure) != nil || failure.Code != want.code || !strings.Contains(failure.Message, want.message) ||
				got.Status != status.RunFailed || code(t, got) != want.code {
				t.Errorf("the stage is %s %s, the run above %s %s", stage.Status, stage.Error, got.Status, got.Error)
			}
		})
	}
	t.Cleanup(func() { b.balanced(t) })
}

// A definition that cannot be stored is rejected with a pointer when it is saved. A string that
// contains the escape sequence of such a character as plain text is accepted.
func TestUnstorableDefinitionIsRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 1})
	for components, pointer := range map[string]string{
		`[{"id":"a","module":"WORK","name":"a\u0000b"}]`:                          "/components/0/name",
		`[{"id":"a","module":"WORK","input":{"x":["\u0000"]}}]`:                   "/components/0/input/x/0",
		`[{"id":"a","module":"WORK","config":{"x":"\ud800"}}]`:                    "/components/0/config/x",
		`[{"id":"a","module":"WORK","name":"a\\u0000b","input":{"x":"\\ud800"}}]`: "",
	} {
		_, _, err := n.workflows.Create(n.ctx, workflow.CreateParams{WorkspaceID: n.workspace, Draft: workflow.Draft{Name: "test", Components: json.RawMessage(components)}})
		if pointer == "" {
			if err != nil {
				t.Errorf("%s: %v", components, err)
			}
			continue
		}
		refusal, ok := errors.AsType[*fault.Error](err)
		if !ok || refusal.Code != fault.InvalidInput || len(refusal.Details) == 0 || refusal.Details[0].Pointer != pointer {
			t.Errorf("%s: %s, want one at %s", components, told(err), pointer)
		}
	}
}

// An input that connections fill has the same limits as an input from a caller, for every
// component. If it exceeds them, its stage fails, and no part of the input is stored.
func TestInputFromConnectionsIsLimited(t *testing.T) {
	t.Parallel()
	b := newBench(t, big())
	n := b.start(t, options{slots: 8, sweep: time.Second})
	inner := n.draw(t, `[{"id":"r","module":"RESPOND"}]`, "", "")
	for module, config := range map[string]string{
		"WORK": `{}`, "TRANSFORM": `{"expression":"1"}`, "RESPOND": `{}`, "RUN_WORKFLOW": fmt.Sprintf(`{"workflowId":%q}`, inner), "IF": `{"expression":"true"}`,
	} {
		id := n.draw(t, fmt.Sprintf(`[{"id":"a","module":"BIG","config":{"bytes":600000}},{"id":"b","module":"BIG","config":{"bytes":600000}},
			{"id":"t","module":%q,"config":%s}]`, module, config), `[{"id":"1","from":"a","to":"t","port":"next"}]`,
			`[{"id":"1","from":{"componentId":"a","output":"text"},"to":{"componentId":"t","input":"x"}},{"id":"2","from":{"componentId":"b","output":"text"},"to":{"componentId":"t","input":"y"}}]`)
		got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
		if stage := stages["t@[]"]; got.Status != status.RunFailed || code(t, got) != "INVALID_INPUT" || !strings.Contains(string(stage.Error), "At most 1048576 are allowed") {
			t.Errorf("%s: %s %s, its stage %s %s", module, got.Status, got.Error, stage.Status, stage.Error)
		}
	}
	deep := `[{"id":"v","module":"JSON_CONSTANT","config":{"value":` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + `}}`
	edges, connections, from := `[`, `[`, `"v","output":"value"`
	for i := range 20 {
		deep += fmt.Sprintf(`,{"id":"a%d","module":"ARRAY_BUILDER"}`, i)
		connections += fmt.Sprintf(`{"id":"%d","from":{"componentId":%s},"to":{"componentId":"a%d","input":"0"}},`, i, from, i)
		edges += fmt.Sprintf(`{"id":"%d","from":"a%d","to":"a%d"},`, i, i, i+1)
		from = fmt.Sprintf(`"a%d","output":"array"`, i)
	}
	id := n.draw(t, deep+`,{"id":"a20","module":"WORK"}]`, strings.TrimSuffix(edges, ",")+`]`, strings.TrimSuffix(connections, ",")+`]`)
	if got, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id})); got.Status != status.RunFailed || code(t, got) != "INVALID_INPUT" {
		t.Errorf("deeply nested: %s %s", got.Status, got.Error)
	}
	if held := b.number(t, "SELECT max(octet_length(input::text)) FROM workflow_runs"); held > 1<<20 {
		t.Errorf("an input of %d bytes is kept", held)
	}
	b.balanced(t)
}
