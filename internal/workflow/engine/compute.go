package engine

import (
	"errors"
	"slices"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
)

// Limits of a stage that is computed. A stage beyond them becomes an execution.
const (
	maxComputeBytes = 64 << 10 // of the input and the config
	maxSlow         = 2        // slow calls in an advance, after which it computes nothing more
)

// computable reports whether advances compute the stages of a component, because its module has no
// effect.
func (a *Advance) computable(componentID string) bool {
	c, _ := a.Plan.Component(componentID)
	entry, known := a.modules.Lookup(c.Module)
	return known && controls[c.Module] == nil && entry.Effect == component.EffectNone
}

// withoutComputable leaves the computable components to the next advance, if this is the first advance:
// a request waits for it.
func (a *Advance) withoutComputable(ready []string) []string {
	if !a.First || !slices.ContainsFunc(ready, a.computable) {
		return ready
	}
	a.More = true
	return slices.DeleteFunc(slices.Clone(ready), a.computable)
}

// setResult sets the result of a stage to that of its module, as if an execution had finished at once.
// It reports false if the stage needs an execution: the module has an effect, waits, took too long, or
// failed and may be retried. more is what the run has to reserve for the stage.
func (a *Advance) setResult(t *Stage, entry *component.Entry, more credit.Amount) bool {
	r := t.result
	if r == nil || !r.InTime || r.Wait != nil {
		return false
	}
	failure, failed := errors.AsType[*component.Error](r.Err)
	switch {
	case failed && failure.Retryable && (t.Component.Attempts > 1 || t.Component.Retry != nil):
		return false
	case failed:
		t.failed(failure)
	default:
		t.Secret = t.Secret || entry.SecretResult(t.call, r.Output)
		if t.completed(r.Output, ""); t.Status == status.StageCompleted {
			t.Usage = t.price
		}
	}
	t.Elapsed = r.Elapsed
	if more > 0 {
		a.Reserve = append(a.Reserve, more)
	}
	return true
}

// canCompute reports whether the module of a stage may be called. Otherwise, the stage becomes an
// execution.
func (a *Advance) canCompute(t *Stage, entry *component.Entry) bool {
	return !a.ExecuteAll && !a.stop && a.slow < maxSlow && entry.Effect == component.EffectNone && len(t.call.Input)+len(t.call.Config) <= maxComputeBytes
}
