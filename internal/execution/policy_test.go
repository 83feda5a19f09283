package execution_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
)

// flaky fails until an attempt, with an answer of a status or with an unknown outcome.
func flaky(name string, repeat component.Repeat, details string) module {
	return module{name: name, price: 3, repeat: repeat, run: func(_ context.Context, call component.Call) (component.Result, error) {
		if call.Attempt < 5 {
			return component.Result{}, &component.Error{Code: "UPSTREAM_ERROR", Retryable: true, Details: json.RawMessage(details)}
		}
		return component.Result{Output: json.RawMessage(`{}`)}, nil
	}}
}

const wasAnswered, wasUnknown = `{"class":"status","upstreamCode":503,"sent":"answered"}`, `{"class":"connection","sent":"unknown"}`

// An execution with a retry policy is attempted as often as the policy permits, and charged once.
func TestAPolicyDecidesWhichFailuresAreRepeated(t *testing.T) {
	t.Parallel()
	const often = `"initialDelayMs":100,"backoffFactor":1,"maxAttempts":5`
	for what, c := range map[string]struct {
		repeat          component.Repeat
		details, policy string
		attempts        int32 // 5 succeeds
	}{
		"an answer with a status":                    {component.RepeatPure, wasAnswered, `{` + often + `}`, 5},
		"a named status":                             {component.RepeatPure, wasAnswered, `{` + often + `,"on":[503]}`, 5},
		"a status that is not named":                 {component.RepeatPure, wasAnswered, `{` + often + `,"on":[404,"TIMEOUT"]}`, 1},
		"an unsafe call that was answered":           {component.RepeatUnsafe, wasAnswered, `{` + often + `}`, 5},
		"an unsafe call with an unknown outcome":     {component.RepeatUnsafe, wasUnknown, `{` + often + `,"on":["UPSTREAM_ERROR"]}`, 1},
		"a policy that permits two attempts":         {component.RepeatPure, wasAnswered, `{"initialDelayMs":100,"maxAttempts":2}`, 2},
		"an idempotent call with an unknown outcome": {component.RepeatIdempotent, wasUnknown, `{` + often + `}`, 5},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			n := b.start(t, options{slots: 4, workers: 2}, flaky("FLAKY", c.repeat, c.details))
			got := b.await(t, n, b.submit(t, n, execution.SubmitParams{Module: "FLAKY", Retry: json.RawMessage(c.policy)}).ID)
			count, sum := b.postings(t)
			switch {
			case c.attempts == 5 && (got.Status != status.ExecutionCompleted || count != 1 || sum != 3):
				t.Errorf("%s: %s, with %d postings of %d", got.Status, got.Error, count, sum)
			case c.attempts < 5 && (got.Status != status.ExecutionFailed || failure(got).Attempt != c.attempts):
				t.Errorf("%s: %s, want a failure in attempt %d", got.Status, got.Error, c.attempts)
			}
		})
	}
}

// The time of a policy counts from the start of the first attempt, whatever happened since.
func TestTheTimeOfAPolicyCountsFromTheFirstAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{workers: 2}, flaky("FLAKY", component.RepeatPure, wasAnswered))
	id := b.submit(t, n, execution.SubmitParams{Module: "FLAKY", Retry: json.RawMessage(`{"initialDelayMs":3600000}`)}).ID
	b.until(t, "SELECT count(*) > 0 FROM component_executions WHERE not_before > now() + interval '40 minutes'")
	b.exec(t, `UPDATE component_executions SET not_before = now(), first_attempt_at = now() - interval '25 hours';
		UPDATE river.river_job SET state = 'available', scheduled_at = now()`)
	if got := b.await(t, n, id); got.Status != status.ExecutionFailed || failure(got).Attempt != 2 {
		t.Errorf("a day after the first attempt, it is %s after attempt %d", got.Status, failure(got).Attempt)
	}
}

// An execution that waits for a retry has no worker, and does not start early, even if its job does. The job waits again for as long.
func TestARetryDoesNotStartBeforeItIsDue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{workers: 2}, flaky("FLAKY", component.RepeatPure, wasAnswered))
	b.submit(t, n, execution.SubmitParams{Module: "FLAKY", Retry: json.RawMessage(`{"initialDelayMs":3600000}`)})
	b.until(t, "SELECT count(*) > 0 FROM component_executions WHERE not_before > now() AND worker_id IS NULL")
	b.until(t, "SELECT state = 'scheduled' FROM river.river_job")
	b.exec(t, "UPDATE river.river_job SET state = 'available', scheduled_at = now()")
	b.until(t, "SELECT state = 'scheduled' AND scheduled_at > now() + interval '40 minutes' FROM river.river_job")
	var attempt int
	if err := b.pool.QueryRow(t.Context(), "SELECT attempt FROM component_executions").Scan(&attempt); err != nil || attempt != 1 {
		t.Errorf("attempt %d was started an hour early: %v", attempt, err)
	}
}

func TestInvalidPoliciesAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 1}, flaky("FLAKY", component.RepeatPure, wasAnswered))
	for policy, pointer := range map[string]string{
		`{"maxElapsedMs":1}`:       "/retry/maxElapsedMs",
		`{"on":["INVALID_INPUT"]}`: "/retry/on/0",
		`{"initialDelayMs":1000,"backoffFactor":1,"maxDelayMs":1000}`: "/retry",
	} {
		_, err := n.service.Submit(t.Context(), execution.SubmitParams{
			WorkspaceID: b.workspace, Module: "FLAKY", Input: json.RawMessage(`{}`), Config: json.RawMessage(`{}`), Attempts: 1, Retry: json.RawMessage(policy),
		})
		f, _ := errors.AsType[*fault.Error](err)
		if f == nil || f.Code != fault.InvalidInput || len(f.Details) != 1 || f.Details[0].Pointer != pointer {
			t.Errorf("%s: %v, want a fault at %s", policy, err, pointer)
		}
	}
}
