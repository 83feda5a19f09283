package run_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// Schema errors in a stage's input are in the details of the stage's error, in the usual form:
// code, message and pointer only.
func TestErrorsOfAStageHaveTheFormOfTheContract(t *testing.T) {
	t.Parallel()
	strict := workflowtest.Made("STRICT", 0, workflowtest.Anything, func(context.Context, component.Call) (component.Result, error) {
		return component.Result{Output: json.RawMessage(`{}`)}, nil
	})
	strict.Input = json.RawMessage(`{"type":"object","properties":{"list":{"type":"array","items":{"type":"integer","maximum":0}}}}`)
	n := newBench(t, strict).start(t, options{slots: 4})
	id := n.draw(t, `[{"id":"start","module":"ON_API_CALLED"},{"id":"strict","module":"STRICT"}]`, `[{"id":"1","from":"start","to":"strict"}]`,
		`[{"id":"a","from":{"componentId":"start","output":"list"},"to":{"componentId":"strict","input":"list"}}]`)
	got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id, Input: json.RawMessage(`{"list":[0,7]}`)}))
	var why struct {
		Code    string
		Details map[string][]map[string]string
	}
	err := json.Unmarshal(stages["strict@[]"].Error, &why)
	if err != nil || got.Status != status.RunFailed || why.Code != "INVALID_INPUT" || len(why.Details) != 1 || len(why.Details["errors"]) != 1 {
		t.Fatalf("the error is %s, %v", stages["strict@[]"].Error, err)
	}
	fault := why.Details["errors"][0]
	if len(fault) != 3 || fault["code"] != "INVALID_INPUT" || fault["pointer"] != "/input/list/1" || fault["message"] != "must be at most 0, got 7" {
		t.Errorf("the fault is %v", fault)
	}
}
