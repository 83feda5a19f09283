package execution

import (
	"context"
	"encoding/json"
	"errors"
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
	if r.finishWithRun(f) {
		return nil
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

// End finishes a stage's execution in the transaction that advances its run.
type End struct {
	ExecutionID uuid.UUID

	runner *Runner
	finish finish
	rows   *postgres.Rows[db.ExecutionFinishManyRow]
	first  map[attemptKey]finish
	made   followUp
}

// ErrApart is returned if an execution must finish in a separate transaction from its run.
var ErrApart = errors.New("the execution must finish apart from its run")

// Queue makes the execution final. If the row no longer belongs to this worker, the statement
// changes nothing, and SettleTx returns ErrApart.
func (e *End) Queue(batch *postgres.Batch) {
	var p db.ExecutionFinishManyParams
	p, e.first = finishing([]finish{e.finish})
	e.rows = postgres.Returning[db.ExecutionFinishManyRow](batch, db.ExecutionFinishMany, p)
}

// SettleTx does the rest of the finish. It settles the credits with the commit (tx.AtCommit). If stages
// are accepted in the same transaction, they use the room and the slot; then how is their acceptance.
// Otherwise how is nil, and parked executions are released.
func (e *End) SettleTx(ctx context.Context, tx *postgres.Tx, how *Acceptance) error {
	rows := e.rows.All()
	if len(rows) == 0 {
		return ErrApart
	}
	charges, err := e.runner.finishRowsTx(ctx, tx, rows, e.first, &e.made)
	if err != nil {
		return err
	}
	billing.Books{}.QueueSettle(tx.AtCommit(), charges)
	if how == nil {
		e.made.next = e.runner.queueRelease(tx.AtCommit(), e.made.left)
		return nil
	}
	how.inPlace, how.freed = 1, e.finish.local && e.runner == how.service.local
	return nil
}

// finishWithRunTimeout limits how long a finish waits for its run, which may stay locked for
// longer.
const finishWithRunTimeout = 2 * time.Second

// finishWithRun finishes a stage's execution together with its run and reports whether it did. If
// not, the caller must finish the execution separately. Work that finishWithRun starts does not
// use the execution's context.
func (r *Runner) finishWithRun(f finish) bool {
	if f.run == nil || r.EndWithRun == nil || r.ctx.Err() != nil {
		return false
	}
	end := &End{ExecutionID: f.key.ID, runner: r, finish: f}
	ctx, cancel := context.WithTimeout(context.Background(), finishWithRunTimeout)
	defer cancel()
	if err := r.EndWithRun(ctx, notify.Key{WorkspaceID: f.key.WorkspaceID, ID: *f.run}, end); err != nil {
		r.dropReleased(end.made.next, err)
		if !errors.Is(err, ErrApart) && !undone(err) && !postgres.Unavailable(err) {
			r.log.WarnContext(ctx, "could not finish execution together with its run; finishing it on its own", "execution_id", f.key.ID.String(), "error", err)
		}
		return false
	}
	r.lastProgress.Store(time.Now().UnixNano())
	failpoint.Reached(failpoint.AfterFinish)
	end.made.followed = true
	r.afterCommit(context.Background(), []notify.Key{f.key}, &end.made)
	return true
}

// flushFinishes makes executions final in one transaction and publishes the changes. It also
// publishes executions that were already final, because the response to an earlier commit may be
// lost. If shared is set, it fails with an error for billing.Held instead of waiting for an account.
func (r *Runner) flushFinishes(ctx context.Context, items []finish, shared bool) ([]struct{}, error) {
	made, err := r.commit(ctx, func(made *followUp) error {
		var batch postgres.Batch
		p, first := finishing(items)
		rows := postgres.Returning[db.ExecutionFinishManyRow](&batch, db.ExecutionFinishMany, p)
		return postgres.InTx(ctx, r.DB, &batch, func(tx *postgres.Tx) error { return r.finishTx(ctx, tx, rows.All(), first, shared, made) })
	})
	if err != nil {
		return nil, err
	}
	r.lastProgress.Store(time.Now().UnixNano())
	failpoint.Reached(failpoint.AfterFinish)
	keys := make([]notify.Key, len(items))
	for i, f := range items {
		keys[i] = f.key
	}
	r.afterCommit(ctx, keys, made)
	return make([]struct{}, len(items)), nil
}

// commit calls fn, which runs a transaction, and returns the work that fn leaves for after the commit.
// If the credit period of an affected workspace is over, commit starts the next period and tries
// again.
func (r *Runner) commit(ctx context.Context, fn func(made *followUp) error) (made *followUp, err error) {
	err = billing.Books{}.InPeriod(ctx, r.DB, func() error {
		made = &followUp{}
		err := fn(made)
		if err != nil {
			err = billing.PeriodError(err, made.workspaces()...)
			made.deliveries.Drop()
			r.dropReleased(made.next, err)
			made = &followUp{}
		}
		return err
	})
	return made, err
}

// afterCommit wakes waiters, starts deliveries and successors, and reports finished stages to their
// runs.
func (r *Runner) afterCommit(ctx context.Context, keys []notify.Key, made *followUp) {
	won := make(map[notify.Key]finished, len(made.done))
	runs := make(map[notify.Key][]uuid.UUID)
	stages := 0
	for _, f := range made.done {
		won[f.key()] = f
		r.Metrics.Finished(f.row.Module, f.row.Status)
		r.log.InfoContext(ctx, "execution finished", "workspace_id", f.row.WorkspaceID.String(), "execution_id", f.row.ID.String(),
			"module", f.row.Module, "status", string(f.row.Status))
		if f.run != nil {
			stages++
			run := notify.Key{WorkspaceID: f.row.WorkspaceID, ID: *f.run}
			runs[run] = append(runs[run], f.row.ID)
		}
	}
	changes := make([]notify.Change, len(keys))
	for i, key := range keys {
		changes[i].Key = key
		// Delivering the callback changes the record again, so the record cannot be published here.
		if end, ok := won[key]; ok && !end.callback {
			changes[i].Value = end.row
		}
	}
	r.Metrics.Posted(len(made.done) - stages)
	r.Hub.Publish(changes...)
	made.deliveries.Start()
	r.startReleased(ctx, made.next)
	if len(runs) > 0 && r.Ended != nil && !made.followed {
		r.Ended(ctx, runs)
	}
}

// followUp is the work to do after a commit that finished executions.
type followUp struct {
	done       []finished
	deliveries *callback.Ready
	left       []vacancy
	next       *release // nil: no parked execution is released
	followed   bool     // the run was advanced in the same commit
}

// workspaces returns the workspaces of the executions that have become final.
func (u *followUp) workspaces() []uuid.UUID {
	ids := make([]uuid.UUID, len(u.done))
	for i, f := range u.done {
		ids[i] = f.row.WorkspaceID
	}
	return ids
}

// finishTx does the rest of the finish of rows, in the transaction that has made them final. Started
// executions become final nowhere else, except for cancellation and End. The state, the frozen
// callback with its delivery job, the deletion of the execution's job, and the settlement of its
// credits commit together. The same transaction releases parked executions that now have room.
func (r *Runner) finishTx(ctx context.Context, tx *postgres.Tx, rows []db.ExecutionFinishManyRow, first map[attemptKey]finish, shared bool, made *followUp) error {
	if len(rows) == 0 {
		return nil
	}
	charges, err := r.finishRowsTx(ctx, tx, rows, first, made)
	if err != nil {
		return err
	}
	r.queueCharges(ctx, tx.AtCommit(), charges, shared, made)
	return nil
}

// queueCharges settles the charges, with the accounts locked until the commit, and releases parked
// executions that now have room. shared is as in flushFinishes.
func (r *Runner) queueCharges(ctx context.Context, batch *postgres.Batch, charges []billing.Charge, shared bool, made *followUp) {
	if shared {
		billing.QueueLockShared(ctx, batch, ownersOf(charges, func(c billing.Charge) uuid.UUID { return c.WorkspaceID }))
	}
	billing.Books{}.QueueSettle(batch, charges)
	made.next = r.queueRelease(batch, made.left)
}

// attemptKey identifies an attempt. One batch may finish an execution twice: by its worker and by
// a sweep, or in two epochs. The first finish with the row's epoch counts.
type attemptKey struct {
	key   notify.Key
	epoch int32
}

// finishing returns the parameters of ExecutionFinishMany, and the first finish of each attempt.
func finishing(items []finish) (p db.ExecutionFinishManyParams, first map[attemptKey]finish) {
	first = make(map[attemptKey]finish, len(items))
	for _, f := range items {
		if _, twice := first[attemptKey{f.key, f.epoch}]; twice {
			continue
		}
		first[attemptKey{f.key, f.epoch}] = f
		p.WorkspaceIds = append(p.WorkspaceIds, f.key.WorkspaceID)
		p.Ids = append(p.Ids, f.key.ID)
		p.Epochs = append(p.Epochs, f.epoch)
		p.Statuses = append(p.Statuses, string(f.status))
		p.Outputs = append(p.Outputs, string(f.output))
		p.Errors = append(p.Errors, string(f.err))
	}
	return p, first
}

// finishRowsTx freezes the callbacks of rows that have become final and deletes the jobs. It returns
// the charges, which the caller must settle last.
func (r *Runner) finishRowsTx(ctx context.Context, tx *postgres.Tx, rows []db.ExecutionFinishManyRow, first map[attemptKey]finish, made *followUp) (charges []billing.Charge, err error) {
	charges = make([]billing.Charge, len(rows))
	jobs := make([]int64, len(rows))
	made.done = make([]finished, len(rows))
	var frozen []callback.Final
	for i, row := range rows {
		charges[i] = billing.Charge{
			WorkspaceID: row.WorkspaceID, ExecutionID: row.ID, Amount: row.Usage, Reserved: row.Reserved, Stage: row.RunID != nil,
		}
		jobs[i] = row.JobID
		end := first[attemptKey{notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}, row.Epoch}]
		made.done[i] = finished{row: final(row, end), callback: row.HasCallback, run: row.RunID}
		charges[i].Bytes = int64(end.weight())
		made.left = append(made.left, vacancy{workspaceID: row.WorkspaceID, slot: end.local, ran: true})
		if row.HasCallback {
			frozen = append(frozen, callback.Final(made.done[i].row))
			charges[i].Bytes *= 2 // the callback's body contains a copy
		}
	}
	if made.deliveries, err = r.Deliverer.FreezeManyTx(ctx, tx, r.Jobs, r.Vault, frozen); err != nil {
		return nil, err
	}
	_ = db.New().RiverJobDeleteMany(ctx, tx.AtCommit(), jobs)
	failpoint.Reached(failpoint.InFinish)
	return charges, nil
}

// finished is an execution that has become final.
type finished struct {
	row      db.ExecutionGetRow // without the callback's fields
	callback bool               // it has a callback
	run      *uuid.UUID         // the run of a stage, or nil
}

func (f finished) key() notify.Key { return notify.Key{WorkspaceID: f.row.WorkspaceID, ID: f.row.ID} }

// final returns the row after the finish, with the output in stored form and without a callback.
func final(row db.ExecutionFinishManyRow, f finish) db.ExecutionGetRow {
	return db.ExecutionGetRow{
		WorkspaceID: row.WorkspaceID, ID: row.ID, Module: row.Module, Status: row.Status,
		Output: f.output, Error: f.err, Usage: row.Usage, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}
}
