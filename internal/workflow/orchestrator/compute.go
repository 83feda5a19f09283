package orchestrator

import (
	"errors"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/status"
)

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

// countComputed counts the computed stages of a committed fold as executions.
func (e *Engine) countComputed(f *fold) {
	for _, t := range f.made {
		if t.elapsed > 0 {
			e.Executions.CountComputed(t.component.Module, t.status == status.StageCompleted, t.elapsed)
		}
	}
}
