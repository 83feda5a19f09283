package engine

import (
	"time"

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
