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

// compute runs the module of a stage and sets the result of the stage, as if an execution had
// finished at once. It reports false if the stage needs an execution: the module has an effect,
// waits, takes too long, or failed and may be retried. more is what the run has to reserve for the
// stage.
func (f *fold) compute(t *stage, entry *component.Entry, c component.Call, more credit.Amount) (done bool, err error) {
	limit := f.computeTime(t, entry, c)
	if limit <= 0 || more > 0 && !f.run.Solvent {
		return false, nil
	}
	start := time.Now()
	result, inTime, err := f.engine.Modules.Try(f.ctx, f.run.WorkspaceID, t.component.Module, c, limit)
	if !inTime {
		f.slow++
		return false, f.ctx.Err()
	}
	failure, failed := errors.AsType[*component.Error](err)
	switch {
	case result.Wait != nil, failed && failure.Retryable && t.component.Attempts > 1:
		return false, nil
	case failed:
		if failure.Err != nil {
			f.engine.Log.WarnContext(f.ctx, "computed stage failed", "run_id", f.run.ID.String(), "module", t.component.Module, "code", failure.Code, "error", failure.Err)
		}
		t.failed(failure)
	default:
		t.secret = t.secret || entry.SecretResult(c, result.Output)
		if t.completed(result.Output, ""); t.status == status.StageCompleted {
			t.usage = t.price
		}
	}
	t.elapsed = max(time.Since(start), 1)
	if more > 0 {
		f.toReserve = append(f.toReserve, more)
	}
	return true, nil
}

// computeTime returns how long the module of a stage may run in this fold. It is not positive if
// the stage must become an execution.
func (f *fold) computeTime(t *stage, entry *component.Entry, c component.Call) time.Duration {
	if f.executeAll || f.engine.ExecuteAll || f.slow >= maxSlow || entry.Effect != component.EffectNone || len(c.Input)+len(c.Config) > maxComputeBytes {
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
