package orchestrator

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// outcome decides the state of the run after the advance, seals what is secret, and returns the event.
func (a *advance) outcome() (event db.RunEventInsertParams, err error) {
	a.Decide()
	if err := cmp.Or(a.sealAll(), a.sealResult()); err != nil {
		return event, err
	}
	return a.nextEvent()
}

// write writes all changes of the advance: stages, loops, an event and the run. The charge for a
// finished run comes last, because it locks the account.
func (a *advance) write() error {
	event, err := a.outcome()
	if err != nil {
		return err
	}
	batch := a.tx.AtCommit()
	a.queueStages(batch)
	a.queueFinished(batch)
	a.queueLoops(batch)
	a.queueAbove(batch)
	return a.queueOutcome(batch, event)
}

// setRow sets the row of a run to its state after the first advance.
func (a *advance) setRow(row *db.RunInsertParams) {
	row.UncountedBytes = max(0, a.row.UncountedBytes+a.stored())
	row.Status, row.Output, row.Error = a.Run.Status, a.Run.Output, a.Run.Error
	row.Committed, row.Reserved, row.Usage = a.Run.Committed, a.Run.Reserved, a.Run.Usage
	row.StageCount, row.FailedCount, row.PendingCount = a.Run.StageCount, a.Run.FailedCount, a.Run.PendingCount
	row.OutputBytes, row.EventSeq = a.Run.OutputBytes, a.row.EventSeq
	row.Paces = a.storedPaces()
	a.wake = *a.NextWake()
	row.Grace = a.wake.Sub(a.Run.Now)
}

// queueOutcome writes the run and an event, wakes the parent of a run that has finished, freezes its
// callback, stores its result for its schedule, and charges the run. The account is locked last.
func (a *advance) queueOutcome(batch *postgres.Batch, event db.RunEventInsertParams) error {
	final, stored := a.Run.Status.Terminal(), max(0, a.row.UncountedBytes+a.stored())
	count := final || stored >= countedFrom
	a.row.UncountedBytes = stored
	if count {
		a.row.UncountedBytes = 0
	}
	q := db.New()
	a.queueRun(batch)
	_ = q.RunEventInsert(a.ctx, batch, event)
	if err := a.freezeCallback(); err != nil {
		return err
	}
	if final && a.Run.ParentRunID != nil {
		_ = q.RunWake(a.ctx, batch, db.RunWakeParams{WorkspaceID: a.row.WorkspaceID, ID: *a.Run.ParentRunID})
	}
	if a.result != nil {
		_ = q.ScheduleStorePrevious(a.ctx, batch, db.ScheduleStorePreviousParams{
			WorkspaceID: a.row.WorkspaceID, ID: *a.row.ScheduleID, SealedPrevious: a.result, ScheduledAt: *a.row.ScheduledAt,
		})
	}
	switch {
	case final && a.row.InTree && a.row.RootRunID == a.Run.ID: // even if countInTree has added the advance
		_ = q.RunTreeDelete(a.ctx, batch, db.RunTreeDeleteParams{WorkspaceID: a.row.WorkspaceID, RootRunID: a.Run.ID})
	case !a.counted && (a.row.InTree || len(a.Children) > 0):
		_ = a.writeTree(batch)
	}
	if len(a.Reserve) > 0 {
		billing.QueueReserveForRun(a.ctx, batch, a.row.WorkspaceID, a.Reserve)
	}
	switch {
	case final:
		_ = q.RiverJobDeleteMany(a.ctx, batch, []int64{a.row.JobID})
		charge := billing.Charge{WorkspaceID: a.row.WorkspaceID, ExecutionID: a.Run.ID, Amount: a.Run.Usage, Reserved: a.Run.Reserved, Bytes: stored + a.calls.Bytes()}
		billing.Books{}.QueueSettleRun(batch, charge)
	case count:
		billing.QueueStore(a.ctx, batch, a.row.WorkspaceID, stored)
	}
	return nil
}

// readRemaining inserts the child runs and reads the unfinished stages for the event. Unless the budget is
// exact, the account is not locked yet.
func (a *advance) readRemaining() (err error) {
	a.NotBefore(a.Run.Now.Add(time.Since(a.locked))) // computing took time
	if err := a.insertChildren(); err != nil {
		return err
	}
	if a.Changed {
		a.live, err = a.liveAfter()
	}
	return err
}

// queueRun writes the run.
func (a *advance) queueRun(batch *postgres.Batch) {
	wake := a.NextWake()
	if wake != nil {
		a.wake = *wake
	}
	_ = db.New().RunFold(a.ctx, batch, db.RunFoldParams{
		WorkspaceID: a.row.WorkspaceID, ID: a.Run.ID, Status: a.Run.Status, Output: a.Run.Output, Error: a.Run.Error,
		Committed: a.Run.Committed, Reserved: a.Run.Reserved, Usage: a.Run.Usage, UsageBelow: a.Run.UsageBelow,
		StageCount: a.Run.StageCount, FailedCount: a.Run.FailedCount, PendingCount: a.Run.PendingCount,
		OutputBytes: a.Run.OutputBytes, StorageFee: a.Run.StorageFee, UncountedBytes: a.row.UncountedBytes, EventSeq: a.row.EventSeq, WakeAt: wake, Paces: a.storedPaces(), Final: a.Run.Status.Terminal(), At: a.At,
	})
}

// storedPaces returns the stored form of the paces of a run, or nil without any.
func (a *advance) storedPaces() []byte {
	paces := a.Paces()
	if len(paces) == 0 || a.Run.Status.Terminal() {
		return nil
	}
	encoded, _ := json.Marshal(paces) // times always encode
	return encoded
}

// unlessFirst returns t, or nil in the first advance of a run. PostgreSQL then uses the time of the
// transaction, which is also the creation time of the run.
func (a *advance) unlessFirst(t time.Time) *time.Time {
	if a.First {
		return nil
	}
	return &t
}

// queueStages inserts the new stages.
func (a *advance) queueStages(batch *postgres.Batch) {
	p := db.StageInsertManyParams{WorkspaceID: a.row.WorkspaceID, RunID: a.Run.ID, At: a.unlessFirst(a.At), Now: a.unlessFirst(a.Run.Now)}
	for _, t := range a.Stages {
		appendStage(&p, t)
	}
	if len(p.Ids) > 0 {
		_ = db.New().StageInsertMany(a.ctx, batch, p)
	}
}

func appendStage(p *db.StageInsertManyParams, t *engine.Stage) {
	p.Ids = append(p.Ids, t.ID)
	p.ComponentIds = append(p.ComponentIds, t.Component.ID)
	p.Modules = append(p.Modules, t.Component.Module)
	p.Names = append(p.Names, t.Component.Name)
	p.Iterations = append(p.Iterations, engine.PlaceOf("", t.Iteration).Iteration)
	p.Statuses, p.Ports = append(p.Statuses, string(t.Status)), append(p.Ports, t.Port)
	p.Outputs = append(p.Outputs, string(t.Output))
	p.Errors, p.Usages = append(p.Errors, string(t.Failure)), append(p.Usages, int64(t.Usage))
	executionID := uuid.Nil
	if t.Execution != nil {
		executionID = t.Execution.ID
	}
	p.ExecutionIds = append(p.ExecutionIds, executionID)
	p.ChildRunIds = append(p.ChildRunIds, t.Child)
	p.Items = append(p.Items, string(t.Items))
	l := engine.StoredLoop{ItemCount: -1}
	if t.Loop != nil {
		l = *t.Loop
	}
	p.ItemCounts, p.NextItems = append(p.ItemCounts, l.ItemCount), append(p.NextItems, l.NextItem)
	p.LiveItems, p.FailedItems = append(p.LiveItems, l.LiveItems), append(p.FailedItems, l.FailedItems)
	p.WakeMs = append(p.WakeMs, t.Wake.Milliseconds())
	p.Signals = append(p.Signals, t.Signal)
}

// queueFinished finishes stages of earlier advances.
func (a *advance) queueFinished(batch *postgres.Batch) {
	p := db.StageFinishManyParams{WorkspaceID: a.row.WorkspaceID, RunID: a.row.ID}
	byID := func(a, b engine.End) int { return bytes.Compare(a.ID[:], b.ID[:]) }
	for _, e := range slices.SortedFunc(slices.Values(a.Ends), byID) {
		if e.At.IsZero() {
			e.At = a.At
		}
		p.Ats = append(p.Ats, e.At)
		p.Ids = append(p.Ids, e.ID)
		p.Statuses, p.Ports = append(p.Statuses, string(e.Status)), append(p.Ports, e.Port)
		p.Outputs, p.Errors = append(p.Outputs, string(e.Output)), append(p.Errors, string(e.Failure))
		p.ExecutionIds, p.ChildRunIds = append(p.ExecutionIds, e.Execution), append(p.ChildRunIds, e.Child)
		p.NextItems, p.FailedItems = append(p.NextItems, e.Next), append(p.FailedItems, e.Failed)
	}
	if len(p.Ids) > 0 {
		_ = db.New().StageFinishMany(a.ctx, batch, p)
	}
}

// queueLoops writes the progress of loops of earlier advances.
func (a *advance) queueLoops(batch *postgres.Batch) {
	on := db.StageAdvanceLoopsParams{WorkspaceID: a.row.WorkspaceID, RunID: a.row.ID, At: a.At}
	for _, l := range a.Moved() {
		on.Ids, on.NextItems = append(on.Ids, l.ID), append(on.NextItems, l.NextItem)
		on.LiveItems, on.FailedItems = append(on.LiveItems, l.LiveItems), append(on.FailedItems, l.FailedItems)
	}
	if len(on.Ids) > 0 {
		_ = db.New().StageAdvanceLoops(a.ctx, batch, on)
	}
}
