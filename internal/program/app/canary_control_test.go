package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/weft-automation/weft/gen/api"
)

// A run computes values from an input that is marked as secret, with every component that evaluates.
// No stored row and no log contains the secret or a value that was computed from it. The record
// shows both, except in the input and in the stage of the trigger (decision 8.14).
func TestMT05ValuesComputedFromASecretInputDoNotLeak(t *testing.T) {
	t.Parallel()
	w, traces := startTraced(t)
	n := &secretOutputs{tenant: w.tenant(t, "acme"), shown: map[string]string{}, identity: canary}
	upper := strings.ToUpper(canary)
	secrets := []string{canary, upper}
	var child api.Workflow
	below := drawn("start>more more>answer", "start.token>more.v more.result>answer.got")
	below["name"], below["components"] = "child", []any{
		part("start", "ON_API_CALLED", nil), part("more", "TRANSFORM", map[string]any{"config": map[string]any{"expression": `v + v`}}), part("answer", "RESPOND", nil),
	}
	n.sign(t, http.MethodPost, "/v1/sdk/workflows", below).into(t, &child)
	expression := func(text string, more ...string) map[string]any {
		fields := map[string]any{"config": map[string]any{"expression": text}}
		for _, onFailure := range more {
			fields["onFailure"] = onFailure
		}
		return fields
	}
	run := n.run(t, []any{
		secretEntry,
		part("loud", "TRANSFORM", expression(`upper(v)`)),
		part("holds", "IF", expression(`hasPrefix(v, "c4")`)),
		part("chosen", "SWITCH", map[string]any{"config": map[string]any{"cases": []any{map[string]any{"name": "long", "expression": "len(v) > 3"}}}}),
		part("wrong", "IF", expression(`upper(v)`)),
		part("broken", "TRANSFORM", expression(`fromJSON(upper(v))`, "continue")),
		part("number", "TRANSFORM", expression(`int(v)`, "continue")),
		part("none", "TRANSFORM", expression(`{(v): 1}[v].x`, "continue")),
		part("list", "ARRAY_BUILDER", map[string]any{"config": map[string]any{"itemType": "string"}}),
		part("each", "FOR_EACH", nil),
		part("inside", "TRANSFORM", expression(`"(" + item + ")"`)),
		part("below", "RUN_WORKFLOW", map[string]any{"config": map[string]any{"workflowId": child.ID}}),
		part("late", "WAIT_UNTIL", map[string]any{"onFailure": "continue"}),
		part("answer", "RESPOND", nil),
	}, drawn("start>loud loud>holds holds.then>chosen chosen.long>wrong wrong.error>broken broken>number number>none none>list list>each each.each>inside each.done>below below>late late>answer",
		"start.identity>loud.v start.identity>holds.v start.identity>chosen.v start.identity>wrong.v start.identity>broken.v start.identity>number.v start.identity>none.v"+
			" loud.result>list.0 start.identity>list.1 list.array>each.items each.item>inside.item loud.result>below.token loud.result>late.timestamp inside.result>answer.all below.got>answer.below"), "none")
	if run.Status != "COMPLETED" {
		t.Fatalf("the run is %s: %s", run.Status, run.Error)
	}
	n.expectShown(t, "the output", string(run.Output), "("+upper+")")
	n.expectShown(t, "the output", string(run.Output), upper+upper)
	failed := map[string]json.RawMessage{}
	for _, stage := range run.RunStages {
		if stage.Status == "FAILED" {
			failed[stage.ComponentID] = stage.Error
			expectNone(t, "the error of "+stage.ComponentID, string(stage.Error), secrets)
		}
	}
	if len(failed) != 5 {
		t.Errorf("the stages that failed are %s", failed)
	}
	n.keep(t, run)
	w.app.Stop(t.Context())
	expectNone(t, "the traces", traces.String(), secrets)
	expectNone(t, "the log at debug", w.log.String(), secrets)
	expectNone(t, "a dump of every table", dump(t, w.dsn), secrets)
}
