package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
)

// Limits of a stage that a fold computes. A stage beyond them becomes an execution.
const (
	maxComputeTime  = 50 * time.Millisecond // a call takes microseconds, but a busy machine may suspend it
	maxComputeBytes = 64 << 10              // of the input and the config
	maxSlow         = 2                     // slow calls in a fold, after which it computes nothing more
)

// computable reports whether folds compute the stages of a component, because its module has no
// effect.
func (f *fold) computable(componentID string) bool {
	c, _ := f.plan.Component(componentID)
	entry, known := f.engine.Modules.Lookup(c.Module)
	return known && controls[c.Module] == nil && entry.Effect == component.EffectNone
}

// withoutComputable leaves the computable components to the next fold, if this is the first fold:
// a request waits for it.
func (f *fold) withoutComputable(ready []string) []string {
	if !f.first || !slices.ContainsFunc(ready, f.computable) {
		return ready
	}
	f.more = true
	return slices.DeleteFunc(slices.Clone(ready), f.computable)
}

// result is the result of a module that the fold called.
type result struct {
	component.Result
	err     error
	inTime  bool // false: the call took too long, so there is no result
	elapsed time.Duration
}

// compute calls the modules of stages, until the fold is full. The results of stages whose scope the
// next fold would not find are always computed: nextRound limits their number.
func (f *fold) compute() error {
	for _, t := range f.need.calls {
		if f.full() && t.scope.resumable() {
			continue
		}
		entry, _ := f.engine.Modules.Lookup(t.component.Module)
		start, r := time.Now(), &result{}
		if limit := f.computeTime(t, entry); limit > 0 {
			r.Result, r.inTime, r.err = f.engine.Modules.Try(f.ctx, f.run.WorkspaceID, t.component.Module, t.call, limit)
			if !r.inTime {
				f.slow++
			}
		}
		if err := f.ctx.Err(); err != nil && !r.inTime {
			return err
		}
		r.elapsed = max(time.Since(start), 1)
		if failure, failed := errors.AsType[*component.Error](r.err); failed && failure.Err != nil {
			f.engine.Log.WarnContext(f.ctx, "computed stage failed", "run_id", f.run.ID.String(), "module", t.component.Module, "code", failure.Code, "error", failure.Err)
		}
		t.result = r
	}
	return nil
}

// setResult sets the result of a stage to that of its module, as if an execution had finished at once.
// It reports false if the stage needs an execution: the module has an effect, waits, took too long, or
// failed and may be retried. more is what the run has to reserve for the stage.
func (f *fold) setResult(t *stage, entry *component.Entry, more credit.Amount) bool {
	r := t.result
	if r == nil || !r.inTime || r.Wait != nil {
		return false
	}
	failure, failed := errors.AsType[*component.Error](r.err)
	switch {
	case failed && failure.Retryable && t.component.Attempts > 1:
		return false
	case failed:
		t.failed(failure)
	default:
		t.secret = t.secret || entry.SecretResult(t.call, r.Output)
		if t.completed(r.Output, ""); t.status == status.StageCompleted {
			t.usage = t.price
		}
	}
	t.elapsed = r.elapsed
	if more > 0 {
		f.toReserve = append(f.toReserve, more)
	}
	return true
}

// computeTime returns how long the module of a stage may run in this fold. It is not positive if
// the stage must become an execution.
func (f *fold) computeTime(t *stage, entry *component.Entry) time.Duration {
	if f.executeAll || f.engine.ExecuteAll || f.slow >= maxSlow || entry.Effect != component.EffectNone || len(t.call.Input)+len(t.call.Config) > maxComputeBytes {
		return 0
	}
	limit := min(maxComputeTime, time.Until(f.until))
	if t.component.TimeoutMs > 0 {
		limit = min(limit, time.Duration(t.component.TimeoutMs)*time.Millisecond)
	}
	return limit
}

// countComputed counts the computed stages of a committed fold as executions.
func (e *Engine) countComputed(f *fold) {
	for _, t := range f.made {
		if t.elapsed > 0 {
			e.Executions.CountComputed(t.component.Module, t.status == status.StageCompleted, t.elapsed)
		}
	}
}
