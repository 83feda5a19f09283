package orchestrator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// anyone may use all workflows.
type anyone struct{}

func (anyone) MayUse(uuid.UUID) bool { return true }

// finished is a run that is final, with its stages by component and iteration.
type finished struct {
	api.WorkflowRun
	stages map[string]api.RunStage
}

// play triggers a workflow and waits until the run is final.
func (n *node) play(t testing.TB, p run.TriggerParams) finished {
	t.Helper()
	p.WorkspaceID = n.workspace
	triggered, err := n.runs.Trigger(n.ctx, p)
	if err != nil {
		t.Fatalf("trigger: %v", err)
	}
	return n.finish(t, triggered.RunID)
}

// finish waits until a run is final.
func (n *node) finish(t testing.TB, id uuid.UUID) finished {
	t.Helper()
	key := notify.Key{WorkspaceID: n.workspace, ID: id}
	ctx, cancel := context.WithDeadline(n.ctx, waittest.Deadline(t))
	defer cancel()
	events, err := n.runs.Watch(ctx, key, anyone{}, nil)
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	for range events {
	}
	f := finished{stages: map[string]api.RunStage{}}
	if f.WorkflowRun, err = n.runs.Get(n.ctx, key, anyone{}); err != nil {
		t.Fatal(err)
	}
	for stage, err := range n.runs.Stages(n.ctx, key) {
		if err != nil {
			t.Fatal(err)
		}
		f.stages[fmt.Sprint(stage.ComponentID, stage.Iteration)] = stage
	}
	return f
}

// wantStatus fails the test if the run has another status.
func (f finished) wantStatus(t testing.TB, want status.Run) {
	t.Helper()
	if f.Status != want {
		t.Fatalf("the run is %s with the error %s, want %s", f.Status, f.Error, want)
	}
}

// executed reports whether a stage outside of loops has an execution.
func (f finished) executed(componentID string) bool {
	return f.stages[componentID+"[]"].ExecutionEventID != nil
}

const (
	chain      = `[{"id":"a","module":"ECHO"},{"id":"b","module":"ECHO"},{"id":"c","module":"ECHO","input":{"last":true}}]`
	chainEdges = `[{"id":"1","from":"a","to":"b"},{"id":"2","from":"b","to":"c"}]`
	openLoop   = `[{"id":"start","module":"ON_API_CALLED"},{"id":"loop","module":"FOR_EACH"},{"id":"body","module":"ECHO"}]`
	loopEdges  = `[{"id":"1","from":"start","to":"loop"},{"id":"2","from":"loop","to":"body","port":"each"}]`
	loopWires  = `[{"id":"1","from":{"componentId":"start","output":"items"},"to":{"componentId":"loop","input":"items"}},
		{"id":"2","from":{"componentId":"loop","output":"index"},"to":{"componentId":"body","input":"n"}}]`
)

// countCommits counts the transactions that change runs from now on.
func (n *node) countCommits(t testing.TB) (commits func() int64) {
	t.Helper()
	_, err := n.pool.Exec(t.Context(), `
		CREATE TABLE counted_commits (id xid8 PRIMARY KEY);
		CREATE FUNCTION count_commit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
		BEGIN
			INSERT INTO counted_commits VALUES (pg_current_xact_id()) ON CONFLICT DO NOTHING;
			RETURN NULL;
		END $$;
		CREATE TRIGGER counted AFTER INSERT OR UPDATE ON workflow_runs FOR EACH STATEMENT EXECUTE FUNCTION count_commit();
		CREATE TRIGGER counted AFTER INSERT OR UPDATE ON run_stages FOR EACH STATEMENT EXECUTE FUNCTION count_commit();
		CREATE TRIGGER counted AFTER INSERT OR UPDATE ON component_executions FOR EACH STATEMENT EXECUTE FUNCTION count_commit()`)
	if err != nil {
		t.Fatal(err)
	}
	return func() int64 { return n.number(t, "SELECT count(*) FROM counted_commits") }
}

// The first commit accepts the run. The second one computes its stages and finishes it.
func TestChainOfComputedStagesTakesTwoCommits(t *testing.T) {
	t.Parallel()
	n := start(t, 100, plan.Enterprise, echo())
	commits := n.countCommits(t)
	n.play(t, run.TriggerParams{WorkflowID: n.draw(t, chain, chainEdges, "")}).wantStatus(t, status.RunCompleted)
	if got := commits(); got != 2 {
		t.Errorf("the run took %d commits, want 2", got)
	}
}

func TestLoopOfComputedStagesTakesFewCommits(t *testing.T) {
	t.Parallel()
	n := start(t, 10_000, plan.Enterprise, echo())
	items, _ := json.Marshal(map[string]any{"items": make([]int, 1_000)})
	id, commits := n.draw(t, openLoop, loopEdges, loopWires), n.countCommits(t)
	got := n.play(t, run.TriggerParams{WorkflowID: id, Input: items})
	got.wantStatus(t, status.RunCompleted)
	if len(got.stages) != 1_002 {
		t.Errorf("the run has %d stages, want 1,002", len(got.stages))
	}
	// The first commit accepts the run. The others compute up to 500 stages each.
	if made := commits(); made != 3 {
		t.Errorf("the run took %d commits, want 3", made)
	}
	n.audit(t)
}

func TestComputedStageHasNoExecution(t *testing.T) {
	t.Parallel()
	n := start(t, 100, plan.Enterprise, echo())
	got := n.play(t, run.TriggerParams{WorkflowID: n.draw(t, chain, chainEdges, "")})
	last := got.stages["c[]"]
	if last.ExecutionEventID != nil {
		t.Errorf("its execution is %s", last.ExecutionEventID)
	}
	if last.ExecutionDispatchedAt != nil {
		t.Errorf("it was queued at %v", last.ExecutionDispatchedAt)
	}
	if last.ExecutionAttempt != 1 {
		t.Errorf("its attempt is %d, want 1", last.ExecutionAttempt)
	}
	if string(last.Output) != `{"last":true}` {
		t.Errorf("its output is %s", last.Output)
	}
	if stored := n.number(t, "SELECT count(*) FROM component_executions"); stored != 0 {
		t.Errorf("%d executions are stored", stored)
	}
}

func TestComputedStagesAreCountedLikeExecutions(t *testing.T) {
	t.Parallel()
	n := start(t, 100, plan.Enterprise, echo())
	n.play(t, run.TriggerParams{WorkflowID: n.draw(t, chain, chainEdges, "")})
	waittest.Until(t, "the metrics", func() bool {
		answer := httptest.NewRecorder()
		n.metrics.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
		counted := true
		for _, line := range []string{
			`weft_executions_submitted_total{module="ECHO"} 3`,
			`weft_execution_attempts_total{module="ECHO",outcome="completed"} 3`,
			`weft_executions_finished_total{module="ECHO",state="COMPLETED"} 3`,
		} {
			counted = counted && strings.Contains(answer.Body.String(), line)
		}
		return counted
	})
}

func TestStageWithEffectIsExecuted(t *testing.T) {
	t.Parallel()
	sends := echo()
	sends.Effect = component.EffectWrite
	n := start(t, 100, plan.Enterprise, sends)
	got := n.play(t, run.TriggerParams{WorkflowID: n.draw(t, chain, chainEdges, "")})
	if !got.executed("c") {
		t.Error("the stage has no execution")
	}
}

// LE-04: finished stages are charged, in one posting.
func TestLE04ComputedStagesAreCharged(t *testing.T) {
	t.Parallel()
	fails := made("FAILS", func(context.Context, component.Call) (component.Result, error) {
		return component.Result{}, component.Permanent("BROKEN", "it broke")
	})
	n := start(t, 100, plan.Enterprise, echo(), fails)
	components := strings.Replace(chain, `"c","module":"ECHO"`, `"c","module":"FAILS"`, 1)
	got := n.play(t, run.TriggerParams{WorkflowID: n.draw(t, components, chainEdges, "")})
	got.wantStatus(t, status.RunFailed)
	if used := got.stages["b[]"].CreditUsage; used != credit.Credits(1) {
		t.Errorf("a completed stage used %s, want 1", used)
	}
	if used := got.stages["c[]"].CreditUsage; used != 0 {
		t.Errorf("the failed stage used %s, want 0", used)
	}
	if got.TotalUsage != credit.Credits(2) {
		t.Errorf("the run used %s, want 2", got.TotalUsage)
	}
	if posted := n.number(t, "SELECT sum(usage)::bigint FROM credit_postings WHERE kind = 'RUN'"); credit.Amount(posted) != credit.Credits(2) {
		t.Errorf("the posting charges %s, want 2", credit.Amount(posted))
	}
	n.audit(t)
}

// Stages beyond the credits of the workspace are neither stored nor charged.
func TestComputedStagesStopAtTheCreditsOfTheWorkspace(t *testing.T) {
	t.Parallel()
	n := start(t, 7, plan.Starter, echo())
	items, _ := json.Marshal(map[string]any{"items": make([]int, 200)})
	got := n.play(t, run.TriggerParams{WorkflowID: n.draw(t, openLoop, loopEdges, loopWires), Input: items})
	got.wantStatus(t, status.RunFailed)
	if !bytes.Contains(got.Error, []byte(fault.InsufficientCredits)) {
		t.Errorf("its error is %s", got.Error)
	}
	if got.TotalUsage != credit.Credits(7) {
		t.Errorf("it used %s, want 7", got.TotalUsage)
	}
	n.audit(t)
}

func TestComputedStagesStopAtMaxCredits(t *testing.T) {
	t.Parallel()
	n := start(t, 1_000, plan.Enterprise, echo())
	items, _ := json.Marshal(map[string]any{"items": make([]int, 200)})
	got := n.play(t, run.TriggerParams{WorkflowID: n.draw(t, openLoop, loopEdges, loopWires), Input: items, MaxCredits: new(credit.Credits(7))})
	got.wantStatus(t, status.RunFailed)
	if got.TotalUsage != credit.Credits(7) {
		t.Errorf("it used %s, want 7", got.TotalUsage)
	}
	n.audit(t)
}

func TestSecretOutputOfComputedStageIsSealed(t *testing.T) {
	t.Parallel()
	keyed := echo()
	keyed.Module, keyed.Output = "KEYED", json.RawMessage(`{"type":"object","properties":{"key":{"type":"string","x-secret":true}}}`)
	n := start(t, 100, plan.Enterprise, echo(), keyed)
	id := n.draw(t, `[{"id":"a","module":"KEYED","input":{"key":"the key of the house"}},{"id":"b","module":"ECHO"}]`, `[{"id":"1","from":"a","to":"b"}]`,
		`[{"id":"1","from":{"componentId":"a","output":"key"},"to":{"componentId":"b","input":"key"}}]`)
	got := n.play(t, run.TriggerParams{WorkflowID: id})
	for _, at := range []string{"a[]", "b[]"} {
		if stage := got.stages[at]; string(stage.Output) != `{"key":"the key of the house"}` {
			t.Errorf("the output of %s is %s", at, stage.Output)
		}
	}
	if plain := n.number(t, "SELECT count(*) FROM run_stages WHERE json_typeof(output) <> 'string'"); plain != 0 {
		t.Errorf("%d outputs are not sealed", plain)
	}
}

// first returns the module FIRST, whose first call is a different function. Later calls return
// their input.
func first(call func(ctx context.Context) (component.Result, error)) module {
	var called atomic.Bool
	m := echo()
	later := m.run
	m.Module, m.run = "FIRST", func(ctx context.Context, c component.Call) (component.Result, error) {
		if !called.Swap(true) {
			return call(ctx)
		}
		return later(ctx, c)
	}
	return m
}

// A call that an advance cannot compute becomes an execution.
func TestStageIsExecutedIfItsComputation(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		first    func(ctx context.Context) (component.Result, error)
		attempts int
		bytes    int // of the input
	}{
		"takes too long": {first: func(ctx context.Context) (component.Result, error) {
			<-ctx.Done()
			return component.Result{}, ctx.Err()
		}},
		"waits": {first: func(context.Context) (component.Result, error) {
			return component.Result{Wait: &component.Wait{After: time.Millisecond}}, nil
		}},
		"may be retried": {attempts: 2, first: func(context.Context) (component.Result, error) {
			return component.Result{}, component.Temporary("BUSY", "it is busy")
		}},
		"has a large input": {bytes: 70_000, first: func(context.Context) (component.Result, error) {
			return component.Result{Output: json.RawMessage(`{}`)}, nil
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := startWith(t, 0, 100, plan.Enterprise, first(c.first))
			id := n.draw(t, fmt.Sprintf(`[{"id":"a","module":"FIRST","attempts":%d,"input":{"text":%q}}]`, max(c.attempts, 1), strings.Repeat("x", c.bytes)), "", "")
			got := n.play(t, run.TriggerParams{WorkflowID: id})
			got.wantStatus(t, status.RunCompleted)
			if !got.executed("a") {
				t.Error("the stage has no execution")
			}
			if got.TotalUsage != credit.Credits(1) {
				t.Errorf("the run used %s, want 1", got.TotalUsage)
			}
			n.audit(t)
		})
	}
}

// A module that ignores its deadline does not hold the advance.
func TestAdvanceDoesNotWaitForModuleThatIgnoresItsDeadline(t *testing.T) {
	t.Parallel()
	letGo := make(chan struct{})
	t.Cleanup(func() { close(letGo) })
	hangs := first(func(context.Context) (component.Result, error) {
		<-letGo
		return component.Result{}, nil
	})
	hangs.Timeout = time.Second // then its turn ends
	n := startWith(t, 0, 100, plan.Enterprise, hangs)
	got := n.play(t, run.TriggerParams{WorkflowID: n.draw(t, `[{"id":"a","module":"FIRST"}]`, "", "")})
	got.wantStatus(t, status.RunCompleted)
	if !got.executed("a") {
		t.Error("the stage has no execution")
	}
}

func TestTemporaryFailureWithoutAttemptsLeftFailsComputedStage(t *testing.T) {
	t.Parallel()
	n := start(t, 100, plan.Enterprise, first(func(context.Context) (component.Result, error) {
		return component.Result{}, component.Temporary("BUSY", "it is busy")
	}))
	got := n.play(t, run.TriggerParams{WorkflowID: n.draw(t, `[{"id":"a","module":"FIRST"}]`, "", "")})
	if want := `{"attempt":1,"code":"BUSY","message":"it is busy","retryable":true}`; string(got.stages["a[]"].Error) != want {
		t.Errorf("its error is %s, want %s", got.stages["a[]"].Error, want)
	}
	if got.executed("a") {
		t.Error("the stage has an execution")
	}
}

// crashEnv holds the database, the workspace and the workflow of the process that is killed.
const crashEnv = "WEFT_TEST_KILLED_IN_FOLD"

// A process that is killed after it computed stages, and before their commit, loses nothing: the
// next process computes them again, and they are charged once.
func TestLE04ComputedStagesOfKilledProcessAreChargedOnce(t *testing.T) {
	t.Parallel()
	if place := strings.Fields(os.Getenv(crashEnv)); len(place) == 3 {
		killed := &node{dsn: place[0], workspace: uuid.MustParse(place[1])}
		killed.serve(t, echo())
		if _, err := killed.runs.Trigger(killed.ctx, run.TriggerParams{WorkspaceID: killed.workspace, WorkflowID: uuid.MustParse(place[2])}); err != nil {
			t.Fatal(err)
		}
		<-waittest.Context(t).Done()
		return
	}
	n := start(t, 100, plan.Enterprise, echo())
	id := n.draw(t, chain, chainEdges, "")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), "WEFT_CRASH_AT=P8", crashEnv+"="+fmt.Sprint(n.dsn, " ", n.workspace, " ", id))
	if out, err := child.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the process ended with %v: %s", err, out)
	}
	var left uuid.UUID
	if err := n.pool.QueryRow(t.Context(), "SELECT id FROM workflow_runs").Scan(&left); err != nil {
		t.Fatal(err)
	}
	got := n.finish(t, left)
	got.wantStatus(t, status.RunCompleted)
	if got.TotalUsage != credit.Credits(3) {
		t.Errorf("it used %s, want 3", got.TotalUsage)
	}
	n.audit(t)
}
