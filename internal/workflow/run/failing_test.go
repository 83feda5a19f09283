package run_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// A failing run lets running attempts finish, and cancels executions that wait for their next
// attempt. An upstream with a long Retry-After does not keep the run unfinished.
func TestFailedRunDoesNotWaitForFurtherAttempts(t *testing.T) {
	t.Parallel()
	letGo, begun, finish := make(chan struct{}), make(chan struct{}), make(chan struct{})
	busy := workflowtest.Made("BUSY", credit.Credits(1), workflowtest.Anything, func(context.Context, component.Call) (component.Result, error) {
		return component.Result{}, &component.Error{Code: component.CodeUpstream, Message: "it is busy", Retryable: true, RetryAfter: time.Hour}
	})
	slow := workflowtest.Made("SLOW", credit.Credits(1), workflowtest.Anything, func(ctx context.Context, _ component.Call) (component.Result, error) {
		close(begun)
		select {
		case <-finish:
			return component.Result{Output: json.RawMessage(`{}`)}, nil
		case <-ctx.Done():
			return component.Result{}, ctx.Err()
		}
	})
	b := newBench(t, held(letGo), busy, slow)
	n := b.start(t, options{slots: 4, sweep: 100 * time.Millisecond})
	id := n.draw(t, `[{"id":"busy","module":"BUSY","attempts":2},{"id":"slow","module":"SLOW"},{"id":"h","module":"HELD"},{"id":"f","module":"FAIL"}]`,
		`[{"id":"1","from":"h","to":"f","port":"next"}]`, "")
	key := n.trigger(t, run.TriggerParams{WorkflowID: id})
	<-begun
	n.until(t, 1, nothing, "SELECT count(*) FROM component_executions WHERE module = 'BUSY' AND not_before > now()")
	close(letGo)
	n.until(t, 1, nothing, "SELECT count(*) FROM run_stages WHERE component_id = 'busy' AND finished_at IS NOT NULL")
	close(finish)
	got, stages := n.end(t, key)
	if got.Status != status.RunFailed || stages["slow@[]"].Status != status.StageCompleted {
		t.Errorf("the run is %s %s, the stage under way %s", got.Status, got.Error, stages["slow@[]"].Status)
	}
	var why api.ExecutionError
	if stage := stages["busy@[]"]; stage.Status != status.StageCanceled || json.Unmarshal(stage.Error, &why) != nil || why.Code != component.CodeCanceled || why.Attempt != 1 {
		t.Errorf("the stage that paused is %s with %s", stage.Status, stage.Error)
	}
	b.balanced(t)
}
