package engine

import (
	"fmt"
	"time"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
)

// timeout returns the timeout of a stage that the engine itself runs, or 0 if there is no limit.
// Executions have their own deadlines.
func timeout(c graph.Component, m graph.Module) time.Duration {
	if !m.Lasts {
		return 0
	}
	return time.Duration(c.TimeoutMs) * time.Millisecond
}

// errLate fails a stage that exceeded its timeoutMs.
func errLate(c graph.Component) error {
	return component.Temporary(component.CodeTimeout, "component %s did not finish within its timeoutMs of %d", c.ID, c.TimeoutMs)
}

// timed lists the components whose stages have a timeout. For each, it contains the error of a
// stage that exceeds the timeout.
type timed struct {
	componentIDs []string
	timeoutsMs   []int64
	errors       []string
}

// timed returns the components of the run whose stages have a timeout.
func (f *fold) timed() (all timed) {
	for _, c := range f.plan.Components() {
		if _, m := f.plan.Component(c.ID); timeout(c, m) > 0 {
			all.componentIDs = append(all.componentIDs, c.ID)
			all.timeoutsMs = append(all.timeoutsMs, int64(c.TimeoutMs))
			all.errors = append(all.errors, string(encodeFailure(errLate(c))))
		}
	}
	return all
}

// failLate fails the stages that wait for a timer or a signal and have exceeded their timeout.
func (f *fold) failLate(all timed) error {
	if len(all.componentIDs) == 0 {
		return nil
	}
	rows, err := db.New().StageFailTimedOut(f.ctx, f.tx, db.StageFailTimedOutParams{
		WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID,
		ComponentIds: all.componentIDs, TimeoutsMs: all.timeoutsMs, Errors: all.errors, At: f.stamp, Now: f.run.Now,
	})
	if err != nil {
		return fmt.Errorf("fail stages that timed out: %w", err)
	}
	for _, row := range rows {
		f.apply(finishedStage(row))
	}
	return nil
}

// late reports whether a stage has exceeded its timeout. If not, late updates the earliest
// deadline of the fold.
func (f *fold) late(componentID string, started *time.Time) bool {
	limit := timeout(f.plan.Component(componentID))
	if limit == 0 || started == nil {
		return false
	}
	at := started.Add(limit)
	if at.Before(f.run.Now) {
		return true
	}
	if f.deadline == nil || at.Before(*f.deadline) {
		f.deadline = &at
	}
	return false
}

// lateAround reports whether a loop around the scope has exceeded its timeout.
func (f *fold) lateAround(sc *scope) bool {
	for sc.component != "" {
		if l := f.loopOf(sc); l != nil && l.late {
			return true
		}
		sc = f.scopeOf(sc.component, sc.iteration[:len(sc.iteration)-1])
	}
	return false
}
