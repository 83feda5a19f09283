package engine

import (
	"fmt"
	"time"

	"github.com/weft-automation/weft/internal/account/storage"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
)

// Decide sets the status of the run after this advance, and whether another advance must follow
// immediately. A cancel takes precedence over a failure.
func (a *Advance) Decide() {
	// A scan cancels the stages that wait for a timer or a child run.
	a.More = a.More || a.Halted && !a.cleared && a.Run.PendingCount > 0 || a.endsLater()
	switch {
	case !a.over || a.Run.PendingCount > 0 || a.endsLater():
		if a.Run.StageCount > 0 {
			a.Run.Status = status.RunExecuting
		}
	case a.Run.CancelRequestedAt != nil:
		a.Run.Status = status.RunCanceled
	case len(a.Run.Error) > 0:
		a.Run.Status = status.RunFailed
	default:
		a.Run.Status = status.RunCompleted
	}
}

// endsLater reports whether the run must finish in the next advance. Finishing locks the parent's row,
// to wake the parent, or the row of the schedule, to store the result. But this advance has locked the
// account already, and accounts are locked last.
func (a *Advance) endsLater() bool {
	return a.locked && (a.Run.ParentRunID != nil || a.Run.Scheduled)
}

// NextWake returns when the run must be advanced next if nothing wakes it. An advance that did not scan
// never postpones that time: a signal may have arrived while the advance waited for its lock.
func (a *Advance) NextWake() *time.Time {
	if a.Run.Status.Terminal() {
		return nil
	}
	next := a.Run.Deadline
	earlier := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	switch again := a.Run.Now.Add(cancelRetry); {
	case a.More:
		earlier(a.Run.Now)
	case a.Ending() && next.Before(again):
		next = again
	case a.Ending():
		earlier(again)
	}
	for _, w := range a.Unfinished {
		if w.WakeAt != nil && !a.Finished[w.ID] {
			earlier(*w.WakeAt)
		}
	}
	for _, t := range a.Paces() {
		earlier(t)
	}
	if a.Scanned && a.deadline != nil {
		earlier(*a.deadline)
	}
	if len(a.CancelChildren) > 0 { // until the orphans have finished
		earlier(a.Run.Now.Add(cancelRetry))
	}
	if !a.Scanned && a.Run.WakeAt != nil {
		earlier(*a.Run.WakeAt)
	}
	for _, t := range a.Stages {
		if t.Wake > 0 {
			earlier(a.Run.Now.Add(t.Wake))
		}
		if limit := timeout(a.Plan.Component(t.Component.ID)); limit > 0 && !t.Status.Terminal() {
			earlier(a.Run.Now.Add(limit))
		}
	}
	return &next
}

// Fee returns the price of the stages and outputs of this advance beyond the free part of the tree.
func (a *Advance) Fee() credit.Amount {
	before := a.Own.Plus(a.Others).Plus(a.Reused)
	return storage.Fee(before, a.Run.Made().Plus(a.Others))
}

// Charge commits a storage fee of the advance. more is what the account reserves for it.
func (a *Advance) Charge(fee, more credit.Amount) {
	a.Run.Committed += fee
	a.Run.Reserved += more
	a.Run.StorageFee += fee
	a.Run.Usage += fee
	a.Spent += fee
}

// LockAccount records that the account is locked, or about to be: then a run that has a parent or a schedule finishes in
// the next advance.
func (a *Advance) LockAccount() { a.locked = true }

// Made returns the number of stages and output bytes of the run.
func (r *Run) Made() storage.Usage {
	return storage.Usage{Stages: int64(r.StageCount), Bytes: r.OutputBytes}
}

// ExceededBy reports whether a fee would exceed the maxCredits of this run or of one above it, and fails
// the run in that case.
func (a *Advance) ExceededBy(fee credit.Amount) bool {
	most := a.exceeded(fee)
	if most != nil {
		a.FailWith(string(fault.InsufficientCredits), fmt.Sprintf("The storage fee would make this run, or one above it, cost more than its maxCredits of %s.", *most))
	}
	return most != nil
}

// Copied adds stages that were copied from an earlier run to the counts of the run, before the first
// step. response is the output of the run.
func (a *Advance) Copied(made storage.Usage, failed int32, at time.Time, response Value) {
	a.Stored, a.Changed = true, true
	a.NotBefore(at)
	a.Run.StageCount += int32(made.Stages)
	a.Run.FailedCount += failed
	a.countOutput(made.Bytes)
	a.Reused = made
	a.Run.Output, a.Run.SecretOutput = response.Output, response.Secret
}

// RootStates returns the states of the components in no loop after the advance; nil: unknown.
func (a *Advance) RootStates() map[string]graph.State {
	if root := a.scopes[PlaceOf("", nil)]; root != nil && root.states != nil {
		return root.states
	}
	return a.Root
}
