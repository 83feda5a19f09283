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
// deadline of the advance.
func (a *Advance) late(componentID string, started *time.Time) bool {
	limit := timeout(a.Plan.Component(componentID))
	if limit == 0 || started == nil {
		return false
	}
	at := started.Add(limit)
	if at.Before(a.Run.Now) {
		return true
	}
	if a.deadline == nil || at.Before(*a.deadline) {
		a.deadline = &at
	}
	return false
}

// lateAround reports whether a loop around the scope has exceeded its timeout.
func (a *Advance) lateAround(sc *scope) bool {
	for sc.Component != "" {
		if l := a.loopOf(sc); l != nil && l.late {
			return true
		}
		sc = a.scopeOf(sc.Component, sc.iteration[:len(sc.iteration)-1])
	}
	return false
}
