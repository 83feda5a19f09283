package execution

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/failpoint"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/vault"
)

// finish is the final state of one execution, to be written.
type finish struct {
	key    notify.Key
	epoch  int32
	status status.Execution
	output json.RawMessage // in stored form: sealed if secret
	err    json.RawMessage
	local  bool       // it holds a slot of this process, which is released after the commit
	run    *uuid.UUID // the run of a stage; nil: not a stage, or unknown
}

func (f finish) owner() uuid.UUID { return f.key.WorkspaceID }

func (f finish) weight() int { return len(f.output) + len(f.err) }

// sealResult returns a result in stored form: sealed if it is secret. A secret result must be
// sealed before it is used elsewhere.
func (r *Runner) sealResult(ctx context.Context, at vault.Place, result json.RawMessage, secret bool) (stored json.RawMessage, err error) {
	if !secret || result == nil {
		return result, nil
	}
	err = r.persist(ctx, maxResultRefusals, func(ctx context.Context) (err error) {
		stored, err = r.Vault.SealJSON(ctx, at, result)
		return err
	})
	return stored, err
}

// outputAt returns the place that the output of an execution is sealed for. All copies of the
// output stay sealed for that place.
func outputAt(workspaceID, executionID uuid.UUID) vault.Place {
	return vault.Place{WorkspaceID: workspaceID, Row: executionID, Field: vault.Output}
}

// failed returns the final state of an execution that failed at the specified attempt.
func failed(workspaceID, executionID uuid.UUID, epoch int32, attempt int, failure *component.Error) (finish, error) {
	encoded, err := errorOf(failure, attempt)
	if err != nil {
		return finish{}, err
	}
	return finish{
		key: notify.Key{WorkspaceID: workspaceID, ID: executionID}, epoch: epoch,
		status: status.ExecutionFailed, err: encoded,
	}, nil
}

// errorOf encodes the `error` field of an execution that failed at the specified attempt.
func errorOf(failure *component.Error, attempt int) (json.RawMessage, error) {
	shown := api.ExecutionError{
		Code: failure.Code, Message: failure.Message, Retryable: failure.Retryable, Attempt: int32(attempt), Details: failure.Details,
	}
	if failure.Outcome != "" {
		shown.Outcome = &failure.Outcome
	}
	return present.ExecutionError(shown)
}

// settle writes a final state with the retries of persist. For a stage, it advances the run in the
// same commit if possible.
func (r *Runner) settle(ctx context.Context, f finish) error {
	if f.run != nil && r.Finish != nil && r.ctx.Err() == nil {
		// The outcome is not written with the execution's context, which the work that follows must not use.
		err := withTimeout(context.Background(), finishWithRunTimeout, func(ctx context.Context) error {
			return r.Finish(ctx, Outcome{Run: notify.Key{WorkspaceID: f.key.WorkspaceID, ID: *f.run}, Executions: []uuid.UUID{f.key.ID}, final: &f, runner: r})
		})
		if err == nil {
			return nil
		}
	}
	err := r.persist(ctx, maxResultRefusals, func(ctx context.Context) error {
		_, err := r.finishes.Do(ctx, f)
		return err
	})
	if err != nil {
		return fmt.Errorf("finish execution: %w", err)
	}
	return nil
}

// finishWithRunTimeout limits how long a finish waits for its run, which may stay locked for
// longer.
const finishWithRunTimeout = 2 * time.Second

// Stored reports whether the executions are final. Otherwise QueueFinish makes them final.
func (out Outcome) Stored() bool { return out.final == nil }

// QueueFinish makes an execution final in the transaction that advances its run.
func (out Outcome) QueueFinish(batch *postgres.Batch) *Finishing {
	f := out.runner.queueFinish(batch, []finish{*out.final})
	f.advanced = true
	return f
}

// flushFinishes makes executions final in one transaction. If shared is set, it fails with an error for
// billing.Held instead of waiting for an account.
func (r *Runner) flushFinishes(ctx context.Context, items []finish, shared bool) ([]struct{}, error) {
	err := r.finishNow(ctx, func(batch *postgres.Batch) *Finishing {
		f := r.queueFinish(batch, items)
		f.shared = shared
		return f
	})
	return make([]struct{}, len(items)), err
}

// finishNow makes executions final in a separate transaction. If the credit period of an affected
// workspace is over, it starts the next period and tries again.
func (r *Runner) finishNow(ctx context.Context, queue func(*postgres.Batch) *Finishing) error {
	var f *Finishing
	err := billing.Books{}.InPeriod(ctx, r.DB, func() error {
		var first postgres.Batch
		f = queue(&first)
		return f.Failed(postgres.InTx(ctx, r.DB, &first, func(tx *postgres.Tx) error { return f.Close(ctx, tx) }))
	})
	if err == nil {
		f.Done(ctx)
	}
	return err
}

// Finishing makes executions final in a transaction. Executions become final nowhere else. The
// statement that changes their rows is queued first. Close does the rest in the same transaction. Call
// Done after the commit, or Failed if the commit failed or is in doubt.
type Finishing struct {
	runner *Runner
	keys   []notify.Key // to publish, even if the executions were already final
	items  map[attemptKey]finish
	rows   *postgres.Rows[db.ExecutionFinishManyRow] // executions that became final

	direct   bool // they are stored in their final state, without a job and a reservation
	free     bool // no worker has them
	shared   bool // fail with an error for billing.Held instead of waiting for an account
	replaced bool // stages that are accepted in the same transaction use the room and the slot
	advanced bool // the run is advanced in the same transaction

	owners     []uuid.UUID
	deliveries *callback.Ready
	next       *release // nil: no parked execution is released
}

// attemptKey identifies an attempt. One batch may finish an execution twice: by its worker and by
// a sweep, or in two epochs. The first finish with the row's epoch counts.
type attemptKey struct {
	key   notify.Key
	epoch int32
}

// queueFinish queues the statement that makes started executions final. The response to an earlier commit
// may be lost, so executions that were already final are published as well.
func (r *Runner) queueFinish(batch *postgres.Batch, items []finish) *Finishing {
	f := &Finishing{runner: r, items: make(map[attemptKey]finish, len(items))}
	var p db.ExecutionFinishManyParams
	for _, item := range items {
		f.keys = append(f.keys, item.key)
		of := attemptKey{item.key, item.epoch}
		if _, twice := f.items[of]; twice {
			continue
		}
		f.items[of] = item
		p.WorkspaceIds, p.Ids, p.Epochs = append(p.WorkspaceIds, item.key.WorkspaceID), append(p.Ids, item.key.ID), append(p.Epochs, item.epoch)
		p.Statuses, p.Outputs, p.Errors = append(p.Statuses, string(item.status)), append(p.Outputs, string(item.output)), append(p.Errors, string(item.err))
	}
	f.rows = postgres.Returning[db.ExecutionFinishManyRow](batch, db.ExecutionFinishMany, p)
	return f
}

// Close freezes the callbacks of the executions, and queues for the commit: their delivery jobs, the
// deletion of the executions' own jobs, the settlement of their credits, and the release of parked
// executions that now have room. The accounts are locked last, and only until the commit.
func (f *Finishing) Close(ctx context.Context, tx *postgres.Tx) (err error) {
	r, rows, last := f.runner, f.rows.All(), tx.AtCommit()
	if len(rows) == 0 {
		return nil
	}
	charges, jobs, left := make([]billing.Charge, len(rows)), make([]int64, len(rows)), make([]vacancy, len(rows))
	var frozen []callback.Final
	for i, row := range rows {
		item, charge := f.item(row), &charges[i]
		*charge = billing.Charge{
			WorkspaceID: row.WorkspaceID, ExecutionID: row.ID, Amount: row.Usage, Reserved: row.Reserved, Stage: row.RunID != nil,
		}
		if !f.free { // the error of a stage that was canceled without an attempt isn't counted
			charge.Bytes = int64(item.weight())
		}
		jobs[i] = row.JobID
		left[i] = vacancy{workspaceID: row.WorkspaceID, slot: item.local, ran: !f.free}
		if row.HasCallback {
			final, err := callback.OfExecution(ctx, r.Vault, f.record(row))
			if err != nil {
				return err
			}
			frozen = append(frozen, final)
			charge.Bytes *= 2 // the callback's body contains a copy
		}
	}
	f.owners = ownersOf(charges, func(c billing.Charge) uuid.UUID { return c.WorkspaceID })
	if f.deliveries, err = r.Deliverer.FreezeManyTx(ctx, tx, r.Vault, frozen); err != nil {
		return err
	}
	failpoint.Reached(failpoint.InFinish)
	if !f.direct {
		_ = db.New().RiverJobDeleteMany(ctx, last, jobs)
	}
	if f.shared {
		billing.QueueLockShared(ctx, last, f.owners)
	}
	if f.direct {
		billing.Books{}.QueueCharge(last, charges)
		return nil
	}
	billing.Books{}.QueueSettle(last, charges)
	if !f.replaced {
		f.next = r.queueRelease(last, left)
	}
	return nil
}

// Lost reports whether no execution became final, because their rows no longer belong to this worker.
func (f *Finishing) Lost() bool { return len(f.rows.All()) == 0 }

// replace lets stages that are accepted in the same transaction use the room of the executions, and reports
// whether they also take over a slot of r. No parked executions are released then.
func (f *Finishing) replace(r *Runner) (passes bool) {
	if f == nil {
		return false
	}
	f.replaced = true
	for _, item := range f.items {
		passes = item.local && f.runner == r
	}
	return passes
}

// Failed releases what Close has reserved, if err is not nil. It returns err, or *billing.PeriodOver if
// the transaction failed because the period of a workspace is over.
func (f *Finishing) Failed(err error) error {
	if f == nil || err == nil {
		return err
	}
	err = billing.PeriodError(err, f.owners...)
	f.deliveries.Drop()
	f.runner.dropReleased(f.next, err)
	f.deliveries, f.next = nil, nil
	return err
}

// Done wakes waiters, starts deliveries and successors, and reports finished stages to their runs.
func (f *Finishing) Done(ctx context.Context) {
	r, rows := f.runner, f.rows.All()
	if !f.free {
		r.lastProgress.Store(time.Now().UnixNano())
		failpoint.Reached(failpoint.AfterFinish)
	}
	records := make(map[notify.Key]any, len(rows))
	runs := make(map[notify.Key][]uuid.UUID)
	stages := 0
	for _, row := range rows {
		r.Metrics.Finished(row.Module, row.Status)
		r.log.InfoContext(ctx, "execution finished", "workspace_id", row.WorkspaceID.String(), "execution_id", row.ID.String(),
			"module", row.Module, "status", string(row.Status))
		if !row.HasCallback { // delivering a callback changes the record again
			records[notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}] = f.record(row)
		}
		if row.RunID != nil {
			stages++
			run := notify.Key{WorkspaceID: row.WorkspaceID, ID: *row.RunID}
			runs[run] = append(runs[run], row.ID)
		}
	}
	changes := make([]notify.Change, len(f.keys))
	for i, key := range f.keys {
		changes[i] = notify.Change{Key: key, Value: records[key]}
	}
	r.Metrics.Posted(len(rows) - stages)
	r.Hub.Publish(changes...)
	f.deliveries.Start()
	r.startReleased(ctx, f.next)
	for run, stages := range runs {
		if r.Finish != nil && !f.advanced {
			_ = r.Finish(ctx, Outcome{Run: run, Executions: stages})
		}
	}
}

// item returns the finish that has made an execution final.
func (f *Finishing) item(row db.ExecutionFinishManyRow) finish {
	return f.items[attemptKey{notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}, row.Epoch}]
}

// record returns the final record of an execution, with the output in stored form and without a callback.
func (f *Finishing) record(row db.ExecutionFinishManyRow) db.ExecutionGetRow {
	item := f.item(row)
	return db.ExecutionGetRow{
		WorkspaceID: row.WorkspaceID, ID: row.ID, Module: row.Module, Status: row.Status,
		Output: item.output, Error: item.err, Usage: row.Usage, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt, Attempt: row.Attempt,
	}
}
