package run_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/secret/seal"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// A run is shown even if some outputs cannot be decrypted. The field outputProblem of the run and
// of each such stage says so.
func TestRunIsShownWithoutOutputsThatCannotBeDecrypted(t *testing.T) {
	t.Parallel()
	b := withSecrets(t)
	n := b.start(t, options{slots: 4, sweep: time.Second})
	id := n.draw(t, `[{"id":"start","module":"ON_API_CALLED"},{"id":"work","module":"WORK"},{"id":"plain","module":"TRANSFORM","config":{"expression":"1 + 1"}},{"id":"answer","module":"RESPOND"}]`,
		`[{"id":"1","from":"start","to":"work"},{"id":"2","from":"start","to":"plain"},{"id":"3","from":"work","to":"answer"},{"id":"4","from":"plain","to":"answer"}]`,
		`[{"id":"a","from":{"componentId":"work","output":"value"},"to":{"componentId":"answer","input":"w"}}]`)
	key := n.trigger(t, run.TriggerParams{WorkflowID: id, Input: json.RawMessage(`{"kind":"order"}`)})
	whole, stages := n.end(t, key)
	if whole.Status != status.RunCompleted || whole.OutputProblem != nil || len(stages) != 4 {
		t.Fatalf("it ended %s with %d stages, %+v", whole.Status, len(stages), whole.OutputProblem)
	}
	keyring, err := seal.NewKeyring(seal.Key{ID: "other", Secret: [32]byte{9, 8, 7, 6, 5, 4, 3, 2, 1}})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := &bench{dsn: b.dsn, pool: b.pool, workspace: b.workspace, modules: b.modules, keyring: keyring}
	elsewhere.start(t, options{}).shows(t, key, whole, stages, fault.Unavailable)
	if _, err := b.pool.Exec(t.Context(), "DELETE FROM output_keys"); err != nil {
		t.Fatal(err)
	}
	b.start(t, options{}).shows(t, key, whole, stages, fault.Internal)
}

// shows compares all forms in which a run is shown with the forms that were shown when everything
// could be decrypted.
func (n *node) shows(t *testing.T, key notify.Key, whole api.WorkflowRun, stages map[string]api.RunStage, why fault.Code) {
	t.Helper()
	runs, err := n.runs.List(n.ctx, n.workspace, run.ListParams{Limit: 10})
	if err != nil || len(runs.Data) != 1 {
		t.Fatalf("%s: the list has %d runs, %v", why, len(runs.Data), err)
	}
	one, err := n.runs.Get(n.ctx, key, anyone{})
	if err != nil {
		t.Fatalf("%s: %v", why, err)
	}
	for _, got := range []api.WorkflowRun{one, runs.Data[0]} {
		unopened(t, "the run", why, got.Output, got.OutputProblem)
		if got.Output, got.OutputProblem = whole.Output, nil; inJSON(t, got) != inJSON(t, whole) {
			t.Errorf("%s: without its output it is %s, but was %s", why, inJSON(t, got), inJSON(t, whole))
		}
	}
	page, err := n.runs.StagePage(n.ctx, key, anyone{}, run.StageParams{Limit: 10})
	if err != nil || len(page.Data) != len(stages) {
		t.Fatalf("%s: a page has %d stages, %v", why, len(page.Data), err)
	}
	all := n.stages(t, key)
	for _, paged := range page.Data {
		at := workflowtest.Place(paged.ComponentID, paged.Iteration)
		for _, got := range []api.RunStage{paged, all[at]} {
			if paged.ComponentID == "work" || paged.ComponentID == "answer" {
				unopened(t, at, why, got.Output, got.OutputProblem)
				got.Output, got.OutputProblem = stages[at].Output, nil
			}
			if inJSON(t, got) != inJSON(t, stages[at]) {
				t.Errorf("%s: %s is %s, and was %s", why, at, inJSON(t, got), inJSON(t, stages[at]))
			}
		}
	}
}

func unopened(t *testing.T, what string, why fault.Code, output json.RawMessage, problem *api.OutputProblem) {
	t.Helper()
	if output != nil || problem == nil || problem.Code != why || !strings.Contains(problem.Message, "output cannot be") {
		t.Errorf("the output of %s is %s, %+v, want %s", what, output, problem, why)
	}
}

func inJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
