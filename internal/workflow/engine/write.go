package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/storage"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// writeUnchanged writes only the time of the next fold, for a fold that changed nothing else.
func (f *fold) writeUnchanged() {
	if !f.scanned {
		return
	}
	f.queueRun(f.tx.AtCommit(), f.nextWake())
}

// write writes all changes of the fold: stages, loops, an event and the run. The charge for a
// finished run comes last, because it locks the account.
func (f *fold) write() error {
	f.decideStatus()
	f.showLive()
	if err := f.sealAll(); err != nil {
		return err
	}
	batch := f.tx.AtCommit()
	f.queueStages(batch)
	f.queueFinished(batch)
	f.queueLoops(batch)
	f.queueAbove(batch)
	return f.queueOutcome(batch)
}

// decideFirst decides the outcome of the first fold, sets row to it, and returns the event.
func (f *fold) decideFirst(row *db.RunInsertParams) (event db.RunEventInsertParams, err error) {
	f.decideStatus()
	f.showLive()
	if err := f.sealAll(); err != nil {
		return event, err
	}
	if event, err = f.nextEvent(); err != nil {
		return event, err
	}
	row.UncountedBytes = max(0, f.run.UncountedBytes+f.stored())
	row.Status, row.Output, row.Error = f.run.Status, f.run.Output, f.run.Error
	row.Committed, row.Reserved, row.Usage = f.run.Committed, f.run.Reserved, f.run.Usage
	row.StageCount, row.FailedCount, row.PendingCount = f.run.StageCount, f.run.FailedCount, f.run.PendingCount
	row.OutputBytes, row.EventSeq = f.run.OutputBytes, f.run.EventSeq
	row.Grace = f.nextWake().Sub(f.run.Now)
	return event, nil
}

// queueOutcome writes the run and an event, wakes the parent of a run that has finished, and
// charges the run. The account is locked last.
func (f *fold) queueOutcome(batch *postgres.Batch) error {
	event, err := f.nextEvent()
	if err != nil {
		return err
	}
	final, stored := f.run.Status.Terminal(), max(0, f.run.UncountedBytes+f.stored())
	count := final || stored >= countedFrom
	f.run.UncountedBytes = stored
	if count {
		f.run.UncountedBytes = 0
	}
	q := db.New()
	f.queueRun(batch, f.nextWake())
	_ = q.RunEventInsert(f.ctx, batch, event)
	if final && f.run.ParentRunID != nil {
		_ = q.RunWake(f.ctx, batch, db.RunWakeParams{WorkspaceID: f.run.WorkspaceID, ID: *f.run.ParentRunID})
	}
	if !f.counted && (f.run.InTree || len(f.children) > 0) {
		_ = f.writeTree(batch)
	}
	if len(f.toReserve) > 0 {
		billing.QueueReserveForRun(f.ctx, batch, f.run.WorkspaceID, f.toReserve)
	}
	switch {
	case final:
		_ = q.RiverJobDeleteMany(f.ctx, batch, []int64{f.run.JobID})
		charge := billing.Charge{WorkspaceID: f.run.WorkspaceID, ExecutionID: f.run.ID, Amount: f.run.Usage, Reserved: f.run.Reserved, Bytes: stored}
		billing.Books{}.QueueSettleRun(batch, charge)
	case count:
		billing.QueueStore(f.ctx, batch, f.run.WorkspaceID, stored)
	}
	return nil
}

// nextEvent returns an event with the state of the run, and counts it.
func (f *fold) nextEvent() (event db.RunEventInsertParams, err error) {
	output, err := f.eventOutput(f.live[:min(len(f.live), shownStages)])
	if err != nil {
		return event, err
	}
	f.run.EventSeq++
	f.events += storage.EventBytes + int64(len(output))
	return db.RunEventInsertParams{
		WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, Seq: f.run.EventSeq, Status: f.run.Status, Output: output, Error: f.shownError(), At: f.unlessFirst(f.stamp),
	}, nil
}

// shownError returns the error of a run that has failed.
func (f *fold) shownError() json.RawMessage {
	if f.run.Status == status.RunFailed {
		return f.run.Error
	}
	return nil
}

// decideStatus sets the status of the run after this fold, and whether another fold must follow
// immediately. A cancel takes precedence over a failure.
func (f *fold) decideStatus() {
	// A scan cancels the stages that wait for a timer or a child run.
	f.more = f.more || f.halted && !f.cleared && f.run.PendingCount > 0 || f.endsLater()
	switch {
	case !f.over || f.run.PendingCount > 0 || f.endsLater():
		if f.run.StageCount > 0 {
			f.run.Status = status.RunExecuting
		}
	case f.run.CancelRequestedAt != nil:
		f.run.Status = status.RunCanceled
	case len(f.run.Error) > 0:
		f.run.Status = status.RunFailed
	default:
		f.run.Status = status.RunCompleted
	}
}

// endsLater reports whether the run must finish in the next fold. Finishing locks the parent's row,
// to wake the parent. But this fold has locked the account already, and accounts are locked last.
func (f *fold) endsLater() bool { return (f.dropped || f.charged) && f.run.ParentRunID != nil }

// readRemaining reads what the writes need. Nothing may be read once the account is locked.
func (f *fold) readRemaining() (err error) {
	if f.changed && f.run.PendingCount > 0 {
		f.before, err = f.liveBefore()
		return err
	}
	return nil
}

// nextWake returns when the run must be folded next if nothing wakes it. A fold that did not scan
// never postpones that time: a signal may have arrived while the fold waited for its lock.
func (f *fold) nextWake() *time.Time {
	if f.run.Status.Terminal() {
		return nil
	}
	next := f.run.Deadline
	earlier := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	switch again := f.run.Now.Add(cancelRetry); {
	case f.more:
		earlier(f.run.Now)
	case f.ending() && next.Before(again):
		next = again
	case f.ending():
		earlier(again)
	}
	for _, w := range f.unfinished {
		if w.WakeAt != nil && !f.finished[w.ID] {
			earlier(*w.WakeAt)
		}
	}
	if f.scanned && f.deadline != nil {
		earlier(*f.deadline)
	}
	if len(f.orphans) > 0 { // until the orphans have finished
		earlier(f.run.Now.Add(cancelRetry))
	}
	if !f.scanned && f.run.WakeAt != nil {
		earlier(*f.run.WakeAt)
	}
	for _, t := range f.made {
		if t.wake > 0 && !t.dropped {
			earlier(f.run.Now.Add(t.wake))
		}
		if limit := timeout(f.plan.Component(t.component.ID)); limit > 0 && !t.status.Terminal() {
			earlier(f.run.Now.Add(limit))
		}
	}
	f.wake = next
	return &next
}

// queueRun writes the run.
func (f *fold) queueRun(batch *postgres.Batch, wake *time.Time) {
	_ = db.New().RunFold(f.ctx, batch, db.RunFoldParams{
		WorkspaceID: f.run.WorkspaceID, ID: f.run.ID, Status: f.run.Status, Output: f.run.Output, Error: f.run.Error,
		Committed: f.run.Committed, Reserved: f.run.Reserved, Usage: f.run.Usage, UsageBelow: f.run.UsageBelow,
		StageCount: f.run.StageCount, FailedCount: f.run.FailedCount, PendingCount: f.run.PendingCount,
		OutputBytes: f.run.OutputBytes, StorageFee: f.run.StorageFee, UncountedBytes: f.run.UncountedBytes, EventSeq: f.run.EventSeq, WakeAt: wake, Final: f.run.Status.Terminal(), At: f.stamp,
	})
}

// unlessFirst returns t, or nil in the first fold of a run. PostgreSQL then uses the time of the
// transaction, which is also the creation time of the run.
func (f *fold) unlessFirst(t time.Time) *time.Time {
	if f.first {
		return nil
	}
	return &t
}

// queueStages inserts the new stages.
func (f *fold) queueStages(batch *postgres.Batch) {
	p := db.StageInsertManyParams{WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, At: f.unlessFirst(f.stamp), Now: f.unlessFirst(f.run.Now)}
	for _, t := range f.made {
		if !t.dropped {
			appendStage(&p, t)
		}
	}
	if len(p.Ids) > 0 {
		_ = db.New().StageInsertMany(f.ctx, batch, p)
	}
}

func appendStage(p *db.StageInsertManyParams, t *stage) {
	p.Ids = append(p.Ids, t.id)
	p.ComponentIds = append(p.ComponentIds, t.component.ID)
	p.Modules = append(p.Modules, t.component.Module)
	p.Names = append(p.Names, t.component.Name)
	p.Iterations = append(p.Iterations, pgArray(t.iteration))
	p.Statuses, p.Ports = append(p.Statuses, string(t.status)), append(p.Ports, t.port)
	p.Outputs = append(p.Outputs, string(t.output))
	p.Errors, p.Usages = append(p.Errors, string(t.failure)), append(p.Usages, int64(t.usage))
	executionID := uuid.Nil
	if t.execution != nil {
		executionID = t.execution.ExecutionID
	}
	p.ExecutionIds = append(p.ExecutionIds, executionID)
	p.ChildRunIds = append(p.ChildRunIds, t.child)
	p.Items = append(p.Items, string(t.items))
	l := loop{count: -1}
	if t.loop != nil {
		l = *t.loop
	}
	p.ItemCounts, p.NextItems = append(p.ItemCounts, l.count), append(p.NextItems, l.next)
	p.LiveItems, p.FailedItems = append(p.LiveItems, l.live), append(p.FailedItems, l.failed)
	p.WakeMs = append(p.WakeMs, t.wake.Milliseconds())
	p.Signals = append(p.Signals, t.signal)
}

// queueFinished finishes stages of earlier folds.
func (f *fold) queueFinished(batch *postgres.Batch) {
	p := db.StageFinishManyParams{WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, At: f.stamp}
	add := func(e end) {
		p.Ids = append(p.Ids, e.id)
		p.Statuses, p.Ports = append(p.Statuses, string(e.status)), append(p.Ports, e.port)
		p.Outputs, p.Errors = append(p.Outputs, string(e.output)), append(p.Errors, string(e.failure))
		p.ExecutionIds, p.ChildRunIds = append(p.ExecutionIds, e.execution), append(p.ChildRunIds, e.child)
		p.NextItems, p.FailedItems = append(p.NextItems, e.next), append(p.FailedItems, e.failed)
	}
	for _, l := range f.finishedLoops {
		add(end{id: l.id, status: l.result.status, port: l.result.port, output: l.result.output, failure: l.result.failure, next: l.next, failed: l.failed})
	}
	for _, e := range f.ends {
		add(e)
	}
	if len(p.Ids) > 0 {
		_ = db.New().StageFinishMany(f.ctx, batch, p)
	}
}

// queueLoops writes the progress of loops of earlier folds.
func (f *fold) queueLoops(batch *postgres.Batch) {
	on := db.StageAdvanceLoopsParams{WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, At: f.stamp}
	var moved []*loop
	for _, l := range f.loops {
		if l != nil && l.dirty && l.stage == nil && l.result == nil {
			moved = append(moved, l)
		}
	}
	slices.SortFunc(moved, func(a, b *loop) int { return bytes.Compare(a.id[:], b.id[:]) })
	for _, l := range moved {
		on.Ids, on.NextItems = append(on.Ids, l.id), append(on.NextItems, l.next)
		on.LiveItems, on.FailedItems = append(on.LiveItems, l.live), append(on.FailedItems, l.failed)
	}
	if len(on.Ids) > 0 {
		_ = db.New().StageAdvanceLoops(f.ctx, batch, on)
	}
}

// eventOutput returns the output of an event of the run (contract 2.5).
func (f *fold) eventOutput(live []api.NonTerminalStage) (json.RawMessage, error) {
	output, err := strictjson.Encode(api.RunEventOutput{
		TotalUsage: f.run.Usage, PendingStageCount: f.run.PendingCount, FailedStageCount: f.run.FailedCount,
		CancelRequestedAt: timestamp.OfPointer(f.run.CancelRequestedAt), CancelReason: f.run.CancelReason, NonTerminalStages: live,
	})
	if err != nil {
		return nil, fmt.Errorf("encode an event: %w", err)
	}
	return output, nil
}

// shownStages is the maximum number of live stages in an event.
const shownStages = 100

// showLive collects the stages that are not final after this fold, the oldest first.
func (f *fold) showLive() {
	f.live = []api.NonTerminalStage{}
	if f.run.PendingCount == 0 {
		return
	}
	for _, l := range f.finishedLoops {
		f.finished[l.id] = true
	}
	for _, stage := range f.before {
		if !f.finished[stage.ID] {
			f.live = append(f.live, stage)
		}
	}
	for _, t := range f.made {
		if !t.status.Terminal() && !t.dropped {
			stage := api.NonTerminalStage{ID: t.id, Module: t.component.Module, Status: t.status, ExecutionAttempt: 1}
			if t.execution != nil {
				stage.ExecutionEventID = &t.execution.ExecutionID
			}
			f.live = append(f.live, stage)
		}
	}
}

// liveBefore returns the stages that were not final before this fold, with their present status.
func (f *fold) liveBefore() ([]api.NonTerminalStage, error) {
	if f.run.EventSeq == 0 {
		return nil, nil
	}
	rows := f.unfinished
	if !f.scanned {
		before := f.previous.live
		if before != nil {
			return before, f.updateProgress(before[:min(len(before), shownStages)])
		}
		var err error
		rows, err = db.New().StageListWaiting(f.ctx, f.tx, db.StageListWaitingParams{WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, MaxRows: liveKept + 1})
		if err != nil {
			return nil, fmt.Errorf("list unfinished stages: %w", err)
		}
	}
	before := make([]api.NonTerminalStage, len(rows))
	for i, row := range rows {
		before[i] = liveStage(row)
	}
	return before, nil
}

// liveStage returns an unfinished stage in the form of an event.
func liveStage(row waiting) api.NonTerminalStage {
	return api.NonTerminalStage{
		ID: row.ID, Module: row.Module, Status: status.Stage(row.Status), ExecutionEventID: row.ExecutionID, ExecutionAttempt: row.Attempt,
	}
}

// updateProgress updates the stages whose executions have started.
func (f *fold) updateProgress(stages []api.NonTerminalStage) error {
	places := map[uuid.UUID]int{}
	var ids []uuid.UUID
	for i, stage := range stages {
		if stage.ExecutionEventID != nil && !f.finished[stage.ID] {
			places[*stage.ExecutionEventID] = i
			ids = append(ids, *stage.ExecutionEventID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := db.New().StageListProgress(f.ctx, f.tx, db.StageListProgressParams{WorkspaceID: f.run.WorkspaceID, Ids: ids})
	if err != nil {
		return fmt.Errorf("read the progress of live stages: %w", err)
	}
	for _, row := range rows {
		stage := &stages[places[row.ID]]
		stage.Status, stage.ExecutionAttempt = status.StageRunning, max(row.Attempt, 1)
	}
	return nil
}
