package run_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// loop draws a loop over the specified number of items with one TRANSFORM, which is free.
func (n *node) loop(t testing.TB, items int) uuid.UUID {
	t.Helper()
	list, _ := json.Marshal(make([]int, items))
	return n.draw(t, fmt.Sprintf(`[{"id":"l","module":"FOR_EACH","input":{"items":%s},"config":{"concurrency":100}},{"id":"w","module":"TRANSFORM","config":{"expression":"1"}}]`, list),
		`[{"id":"1","from":"l","to":"w","port":"each"}]`, "")
}

// openLoop draws a loop with one component over the items in the run's input.
func (n *node) openLoop(t testing.TB, body string) uuid.UUID {
	t.Helper()
	return n.draw(t, fmt.Sprintf(`[{"id":"start","module":"ON_API_CALLED"},{"id":"l","module":"FOR_EACH","config":{"concurrency":100}},{"id":"w","module":%q,"config":{"expression":"1"}}]`, body),
		`[{"id":"1","from":"start","to":"l","port":"next"},{"id":"2","from":"l","to":"w","port":"each"}]`,
		`[{"id":"1","from":{"componentId":"start","output":"items"},"to":{"componentId":"l","input":"items"}}]`)
}

// on replaces the plan of the bench's workspace with p.
func (b *bench) on(t testing.TB, p billing.Plan) {
	t.Helper()
	p.WorkspaceID, p.Name = b.workspace, plan.Enterprise
	if err := (billing.Books{}).SetPlan(t.Context(), b.pool, p); err != nil {
		t.Fatal(err)
	}
}

func reason(err error) string {
	refusal, _ := errors.AsType[*fault.Error](err)
	if refusal == nil {
		return fmt.Sprint(err)
	}
	return string(refusal.Code) + " " + refusal.Reason
}

// A run of 1,201 stages pays for 201 of them, as its quote predicts.
func TestRunPaysForStagesBeyondTheFreeOnes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4, sweep: time.Second})
	id := n.loop(t, 1_200)
	got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	if want := credit.Amount(201_000); got.Status != status.RunCompleted || got.TotalUsage != want {
		t.Errorf("%s %s with %d stages used %s, want %s", got.Status, got.Error, len(stages), got.TotalUsage, want)
	}
	if quote := n.quote(t, id); quote.MaximumCredits == nil || *quote.MaximumCredits < got.TotalUsage || quote.MinimumCredits != got.TotalUsage {
		t.Errorf("it used %s, and the quote is %s to %v", got.TotalUsage, quote.MinimumCredits, quote.MaximumCredits)
	}
	b.balanced(t)
}

// A run and its descendants share one allowance of free stages.
func TestRunsOfTreeShareFreeStages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4, sweep: time.Second})
	inner := n.loop(t, 600)
	id := n.draw(t, fmt.Sprintf(`[{"id":"a","module":"RUN_WORKFLOW","config":{"workflowId":%q}},{"id":"b","module":"RUN_WORKFLOW","config":{"workflowId":%[1]q}}]`, inner),
		`[{"id":"1","from":"a","to":"b","port":"next"}]`, "")
	if got, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id})); got.Status != status.RunCompleted {
		t.Fatalf("%s %s", got.Status, got.Error)
	}
	// The root has 2 stages and its descendants have 2 x 601.
	if used, want := credit.Amount(b.number(t, "SELECT sum(usage)::bigint FROM workflow_runs")), credit.Amount(204_000); used != want {
		t.Errorf("the tree used %s, want %s", used, want)
	}
	b.balanced(t)
}

// A run that cannot pay for more stages stops shortly after the free stages.
func TestRunThatCannotPayForItsStagesFails(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		paid credit.Amount
		most *credit.Amount
	}{
		"no credits": {0, nil},
		"maxCredits": {credit.Credits(100), new(credit.Amount(1_000))},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.workspace = b.account(t, c.paid, plan.Starter)
			n := b.start(t, options{slots: 4, sweep: time.Second})
			items, _ := json.Marshal(map[string]any{"items": make([]int, 3_000)})
			got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: n.openLoop(t, "TRANSFORM"), Input: items, MaxCredits: c.most}))
			if got.Status != status.RunFailed || code(t, got) != "INSUFFICIENT_CREDITS" || got.TotalUsage != 0 {
				t.Errorf("%s %s, used %s", got.Status, got.Error, got.TotalUsage)
			}
			if len(stages) > 1_600 {
				t.Errorf("it made %d stages", len(stages))
			}
			b.balanced(t)
		})
	}
}

// A rerun reuses completed stages without paying for them again.
func TestRerunPaysNothingForReusedStages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4, sweep: time.Second})
	id := n.loop(t, 1_200)
	key := n.trigger(t, run.TriggerParams{WorkflowID: id})
	n.end(t, key)
	got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id, RerunOf: &orchestrator.Origin{RunID: key.ID}}))
	if got.Status != status.RunCompleted || len(stages) != 1_201 || got.TotalUsage != 0 {
		t.Errorf("%s %s, %d stages, used %s", got.Status, got.Error, len(stages), got.TotalUsage)
	}
	b.balanced(t)
}

// The account counts the bytes that a workspace stores: all of them after its runs have finished,
// and almost all of them while its runs wait.
func TestStoredBytesAreCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t, big())
	n := b.start(t, options{slots: 4, sweep: time.Second})
	long := fmt.Sprintf(`{"text":%q}`, strings.Repeat("a", 40_000))
	id := n.draw(t, `[{"id":"b","module":"BIG","config":{"bytes":50000}},{"id":"l","module":"FOR_EACH","input":{"items":[1,2,3,4,5,6,7,8,9,10]}},
		{"id":"t","module":"TRANSFORM","config":{"expression":"1"}},{"id":"w","module":"WAIT_FOR_SIGNAL","config":{"name":"go","timeoutMs":3600000}},{"id":"x","module":"TRANSFORM","config":{"expression":"text"}}]`,
		`[{"id":"1","from":"l","to":"t","port":"each"},{"id":"2","from":"b","to":"w","port":"next"},{"id":"3","from":"w","to":"x","port":"next"}]`,
		`[{"id":"1","from":{"componentId":"b","output":"text"},"to":{"componentId":"x","input":"text"}}]`)
	key := n.trigger(t, run.TriggerParams{WorkflowID: id, Input: json.RawMessage(long)})
	b.until(t, 11, nothing, "SELECT count(*) FROM run_stages WHERE run_id = $1 AND component_id IN ('b', 't') AND finished_at IS NOT NULL", key.ID)
	const stored = `SELECT (SELECT COALESCE(sum(octet_length(input::text) + COALESCE(octet_length(output::text), 0)), 0) FROM workflow_runs)
		+ (SELECT COALESCE(sum(COALESCE(octet_length(output::text), 0) + COALESCE(octet_length(items::text), 0)), 0) FROM run_stages)
		+ (SELECT COALESCE(sum(octet_length(output::text)), 0) FROM run_events)
		+ (SELECT COALESCE(sum(octet_length(payload::text)), 0) FROM run_signals)
		+ (SELECT COALESCE(sum(COALESCE(octet_length(output::text), 0)), 0) FROM component_executions)`
	counted := func() int64 {
		return b.number(t, "SELECT stored FROM credit_accounts WHERE workspace_id = $1", b.workspace)
	}
	if got, want := counted(), b.number(t, stored); got < want-16<<10 {
		t.Errorf("while the run waits, %d bytes are counted and %d are stored", got, want)
	}
	if _, err := n.runs.Signal(n.ctx, key, anyone{}, "go", json.RawMessage(long)); err != nil {
		t.Fatal(err)
	}
	if got, _ := n.end(t, key); got.Status != status.RunCompleted {
		t.Fatalf("%s %s", got.Status, got.Error)
	}
	got, want := counted(), b.number(t, stored)
	if got < want {
		t.Errorf("%d bytes are counted, and %d are stored", got, want)
	}
	if got > want+64<<10 {
		t.Errorf("%d bytes are counted for %d", got, want)
	}
	b.balanced(t)
}

// A workspace that has reached its plan's storage limit for the month starts nothing more: its
// runs fail at their next stage, and triggers and signals are refused.
func TestWorkspaceStoresNoMoreThanItsPlanAllows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.on(t, billing.Plan{Storage: new(int64(200_000))})
	n := b.start(t, options{slots: 4, sweep: time.Second})
	waits := n.waits(t)
	waiting := n.trigger(t, run.TriggerParams{WorkflowID: waits})
	if _, err := n.runs.Signal(n.ctx, waiting, anyone{}, "early", nil); err != nil {
		t.Errorf("a signal before: %v", err)
	}
	got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: n.loop(t, 9_000)}))
	if got.Status != status.RunFailed || code(t, got) != "STORAGE_EXHAUSTED" || len(stages) > 2_000 {
		t.Errorf("%s %s with %d stages", got.Status, got.Error, len(stages))
	}
	if stored := b.number(t, "SELECT stored FROM credit_accounts WHERE workspace_id = $1", b.workspace); stored > 1_200_000 {
		t.Errorf("%d bytes are stored", stored)
	}
	const refused = "INSUFFICIENT_CREDITS storage_exhausted"
	if _, err := n.runs.Trigger(n.ctx, run.TriggerParams{WorkspaceID: b.workspace, WorkflowID: waits}); reason(err) != refused {
		t.Errorf("a trigger: %v", err)
	}
	if _, err := n.runs.Signal(n.ctx, waiting, anyone{}, "go", nil); reason(err) != refused {
		t.Errorf("a signal: %v", err)
	}
	if _, err := n.runs.Signal(n.ctx, waiting, anyone{}, "early", nil); err != nil {
		t.Errorf("a signal that was stored before: %v", err)
	}
	b.on(t, billing.Plan{Storage: new(int64(2_000_000_000))})
	if _, err := n.runs.Signal(n.ctx, waiting, anyone{}, "go", nil); err != nil {
		t.Errorf("a signal with a larger plan: %v", err)
	}
	if got, _ := n.end(t, waiting); got.Status != status.RunCompleted {
		t.Errorf("%s %s", got.Status, got.Error)
	}
	b.balanced(t)
}

// One trigger in a workspace without credits stores a bounded amount, regardless of how many runs
// and loops it starts. Without the limit, the trigger would create 6,000 stages in this test, and
// store 200 MB in the soak test.
func TestFreeStorageOfOneTriggerIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.workspace = b.account(t, 0, plan.Starter)
	n := b.start(t, options{slots: 4, sweep: time.Second})
	list := func(items int) string { text, _ := json.Marshal(make([]int, items)); return string(text) }
	inner := n.draw(t, fmt.Sprintf(`[{"id":"s","module":"ON_API_CALLED"},{"id":"l","module":"FOR_EACH","input":{"items":%s},"config":{"concurrency":100}},{"id":"w","module":"TRANSFORM","config":{"expression":"text"}}]`, list(size(300, 50))),
		`[{"id":"0","from":"s","to":"l"},{"id":"1","from":"l","to":"w","port":"each"}]`, `[{"id":"1","from":{"componentId":"s","output":"text"},"to":{"componentId":"w","input":"text"}}]`)
	id := n.draw(t, fmt.Sprintf(`[{"id":"s","module":"ON_API_CALLED"},{"id":"l","module":"FOR_EACH","input":{"items":%s},"config":{"concurrency":100,"onItemFailure":"continue"}},
		{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":%q},"onFailure":"continue"}]`, list(20), inner),
		`[{"id":"0","from":"s","to":"l"},{"id":"1","from":"l","to":"c","port":"each"}]`, `[{"id":"1","from":{"componentId":"s","output":"text"},"to":{"componentId":"c","input":"text"}}]`)
	key := n.trigger(t, run.TriggerParams{WorkflowID: id, Input: fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("a", size(10, 200_000)))})
	n.end(t, key)
	b.until(t, 0, nothing, unfinished)
	// The limits are the free part and what concurrent advances may add.
	stages, stored := b.number(t, "SELECT sum(stage_count) FROM workflow_runs"), b.number(t, "SELECT sum(output_bytes)::bigint FROM workflow_runs")
	if most := int64(1_000 + orchestrator.AdvancesAtOnce*550); stages > most {
		t.Errorf("there are %d stages, at most %d were expected", stages, most)
	}
	if most := int64(32<<20 + orchestrator.AdvancesAtOnce*(17<<20)); stored > most {
		t.Errorf("%d MiB are stored, at most %d were expected", stored>>20, most>>20)
	}
	if usage := b.number(t, "SELECT sum(usage)::bigint FROM workflow_runs"); usage != 0 {
		t.Errorf("%d micro-credits were charged", usage)
	}
	b.balanced(t)
}

// Bytes that were stored in an earlier month do not count, even if the account's new period has
// not started yet.
func TestStorageOfAnEarlierMonthRefusesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.on(t, billing.Plan{Storage: new(int64(200_000))})
	n := b.start(t, options{slots: 4, sweep: time.Second})
	key := n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, `[{"id":"w","module":"WAIT_FOR_SIGNAL","config":{"name":"go","timeoutMs":3600000}},{"id":"x","module":"TRANSFORM","config":{"expression":"1"}}]`,
		`[{"id":"1","from":"w","to":"x","port":"next"}]`, "")})
	b.until(t, 1, nothing, "SELECT count(*) FROM run_stages WHERE run_id = $1 AND signal = 'go'", key.ID)
	b.exec(t, `UPDATE credit_accounts SET stored = storage_limit, month = (month - interval '1 month')::date, week = week - 35, valid_until = month
		WHERE workspace_id = $1`, b.workspace)
	if _, err := n.runs.Signal(n.ctx, key, anyone{}, "go", nil); err != nil {
		t.Fatalf("a signal: %v", err)
	}
	if got, _ := n.end(t, key); got.Status != status.RunCompleted {
		t.Errorf("%s %s", got.Status, got.Error)
	}
	if stored := b.number(t, "SELECT stored FROM credit_accounts WHERE workspace_id = $1", b.workspace); stored >= 200_000 {
		t.Errorf("%d bytes are stored in the new month", stored)
	}
}

// A run that pays for its stages continues after its account's period has ended, even if the next
// period has not started yet.
func TestRunPaysForStagesWithTheCreditsOfTheNextPeriod(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.on(t, billing.Plan{Credits: new(credit.Credits(4_000))})
	n := b.start(t, options{slots: 4, sweep: time.Second})
	list, _ := json.Marshal(make([]int, 1_200))
	key := n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, fmt.Sprintf(`[{"id":"l","module":"FOR_EACH","input":{"items":%s},"config":{"concurrency":100}},{"id":"t","module":"TRANSFORM","config":{"expression":"1"}},
		{"id":"w","module":"WAIT_FOR_SIGNAL","config":{"name":"go","timeoutMs":3600000}},{"id":"x","module":"TRANSFORM","config":{"expression":"1"}},
		{"id":"o","module":"WAIT_FOR_SIGNAL","config":{"name":"other","timeoutMs":3600000}}]`, list),
		`[{"id":"1","from":"l","to":"t","port":"each"},{"id":"2","from":"l","to":"w","port":"done"},{"id":"3","from":"w","to":"x","port":"next"}]`, "")})
	b.until(t, 1, nothing, "SELECT count(*) FROM run_stages WHERE run_id = $1 AND signal = 'go'", key.ID)
	b.exec(t, `UPDATE credit_accounts SET plan = 0, paid = 0, usage_limit = 0, month = (month - interval '1 month')::date, week = week - 35, valid_until = month
		WHERE workspace_id = $1`, b.workspace)
	n.goOn(t, key)
	b.until(t, 1, nothing, "SELECT count(*) FROM run_stages WHERE run_id = $1 AND signal = 'go' AND finished_at IS NOT NULL", key.ID)
	if _, err := n.runs.Signal(n.ctx, key, anyone{}, "other", nil); err != nil {
		t.Fatal(err)
	}
	if got, _ := n.end(t, key); got.Status != status.RunCompleted {
		t.Errorf("%s %s", got.Status, got.Error)
	}
}
