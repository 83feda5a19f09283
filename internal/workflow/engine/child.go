package engine

import (
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
)

// Limits of a tree of runs. Without them, workflows that run themselves or each other could fill
// the database.
const (
	MaxDepth = 8      // levels of descendants of a root
	MaxLive  = 1_000  // unfinished descendants of a root
	MaxBelow = 10_000 // unfinished child runs of a workspace; at this number, child runs start no further runs; approximate
)

// ReasonAbove is the cancelReason of a run that is canceled because of an ancestor.
const ReasonAbove = "the run that started it ended"

// runWorkflow starts a run of a workflow and waits for that run to finish. It reserves nothing in
// advance: the stages of the child run reserve their own prices.
func (a *Advance) runWorkflow(t *Stage) error {
	if t.starts.Refusal == ErrNotForKey {
		a.addStage(t.failed(ErrNotForKey))
		return nil
	}
	refusal := a.checkChildLimits()
	switch {
	case a.Ending():
	case refusal != nil:
		a.addStage(t.failed(refusal))
	case t.starts.Refusal != nil:
		a.addStage(t.failed(t.starts.Refusal))
	default:
		t.Child = t.starts.ID
		a.Children = append(a.Children, t.Child)
		t.Status = status.StageRunning
		a.addStage(t)
	}
	return nil
}

// ErrNotForKey is the error of a RUN_WORKFLOW whose workflow the run's key may not use.
var ErrNotForKey = &fault.Error{
	Code: fault.Forbidden, Reason: "workflow_not_allowed",
	Message: "The API key that triggered this run, or the run above it, may not use this workflow.",
}

// checkChildLimits returns the error with which a RUN_WORKFLOW fails if the run may not start a
// child run, and nil otherwise. If an ancestor is ending, checkChildLimits cancels this run.
//
// An ancestor may be canceled just after this check. That cancel waits for the lock on this run
// and then cancels this run too. The next advance then finds the new child run and cancels it.
func (a *Advance) checkChildLimits() *component.Error {
	if a.Live+len(a.Children) >= MaxLive {
		return component.Permanent("LIMIT_EXCEEDED", "A run can have at most %d unfinished runs below it.", MaxLive)
	}
	switch {
	case a.Run.ParentRunID == nil:
		return nil
	case a.above.Ending:
		a.cancelWithAbove()
		return nil
	case a.above.Depth >= MaxDepth:
		return component.Permanent("LIMIT_EXCEEDED", "Child runs can be nested at most %d levels deep.", MaxDepth)
	case a.above.Children+len(a.Children) >= MaxBelow:
		return component.Permanent("LIMIT_EXCEEDED", "The workspace has about %d unfinished child runs, so child runs cannot start more.", MaxBelow)
	}
	return nil
}

// cancelWithAbove cancels this run because an ancestor is ending.
func (a *Advance) cancelWithAbove() {
	mode := CancelGraceful
	if a.above.Immediate {
		mode = CancelImmediate
	}
	a.Run.CancelRequestedAt, a.Run.CancelMode, a.Run.CancelReason = new(a.At), &mode, new(ReasonAbove)
	a.CancelSelf, a.Changed, a.Halted = true, true, true
}

// exceeded returns the maxCredits that a stage of that price would exceed, of this run or of an
// ancestor. It returns nil if the stage exceeds none. The limits must be known.
func (a *Advance) exceeded(price credit.Amount) *credit.Amount {
	most := a.Run.MaxCredits
	if most == nil || price == 0 {
		return nil
	}
	if a.Run.Committed+a.Run.Below+price > *most {
		return most
	}
	for _, run := range a.limits {
		if run.Committed+run.Below+a.Spent+price > *run.MaxCredits {
			return run.MaxCredits
		}
	}
	return nil
}
