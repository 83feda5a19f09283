package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

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

// finish is the final state of one execution on its way into the database.
type finish struct {
	key    notify.Key
	epoch  int32
	status status.Execution
	output json.RawMessage // as it is stored
	err    json.RawMessage
	local  bool       // its run holds a slot, and gives it back once this is written
	run    *uuid.UUID // that it is a stage of; nil: none, or unknown
}

func (f finish) weight() int { return len(f.output) + len(f.err) }

// complete ends an execution with an output.
func (r *Runner) complete(ctx context.Context, row db.ExecutionStartManyRow, output json.RawMessage, secret, local bool) error {
	stored, err := r.kept(ctx, outputAt(row.WorkspaceID, row.ID), output, secret)
	if err != nil {
		return fmt.Errorf("finish execution: %w", err)
	}
	return r.settle(ctx, finish{
		key: notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}, epoch: row.Epoch,
		status: status.ExecutionCompleted, output: stored, local: local, run: row.RunID,
	})
}

// kept is what an execution gave as it is stored: sealed, where it is secret, before anything
// else sees it.
func (r *Runner) kept(ctx context.Context, at vault.Place, given json.RawMessage, secret bool) (stored json.RawMessage, err error) {
	if !secret || given == nil {
		return given, nil
	}
	err = r.persist(ctx, maxResultRefusals, func(ctx context.Context) (err error) {
		stored, err = r.Vault.SealJSON(ctx, at, given)
		return err
	})
	return stored, err
}

// outputAt is where the output of an execution is sealed for, whatever takes it over.
func outputAt(workspaceID, executionID uuid.UUID) vault.Place {
	return vault.Place{WorkspaceID: workspaceID, Row: executionID, Field: vault.Output}
}

// stateAt is where what an execution keeps while it waits is sealed for.
func stateAt(row db.ExecutionStartManyRow) vault.Place {
	return vault.Place{WorkspaceID: row.WorkspaceID, Row: row.ID, Field: vault.State}
}

func (r *Runner) fail(ctx context.Context, row db.ExecutionStartManyRow, failure *component.Error, local bool) error {
	if failure.Err != nil {
		r.log.WarnContext(ctx, "execution failed", "code", failure.Code, "error", failure.Err)
	}
	f, err := failed(row.WorkspaceID, row.ID, row.Epoch, int(row.Attempt), failure)
	if err != nil {
		return err
	}
	f.local, f.run = local, row.RunID
	return r.settle(ctx, f)
}

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

// errorOf is the `error` of an execution that failed at an attempt.
func errorOf(failure *component.Error, attempt int) (json.RawMessage, error) {
	shown := api.ExecutionError{
		Code: failure.Code, Message: failure.Message, Retryable: failure.Retryable, Attempt: int32(attempt), Details: failure.Details,
	}
	if failure.Outcome != "" {
		shown.Outcome = &failure.Outcome
	}
	return present.ExecutionError(shown)
}

func (r *Runner) settle(ctx context.Context, f finish) error {
	if r.endWithRun(f) {
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

// End is the end of a stage's execution in the transaction in which its run goes on.
type End struct {
	ExecutionID uuid.UUID

	runner *Runner
	finish finish
	rows   []db.ExecutionFinishManyRow
	first  map[turn]finish
	made   ends
}

// ErrApart says that an execution is to be ended without its run.
var ErrApart = errors.New("the execution is to be ended apart from its run")

// Write makes the execution final, with one statement. A row that is not this worker's any
// more is left alone: then SettleTx fails.
func (e *End) Write(ctx context.Context, tx pgx.Tx) (err error) {
	var p db.ExecutionFinishManyParams
	p, e.first = finishing([]finish{e.finish})
	if e.rows, err = db.New().ExecutionFinishMany(ctx, tx, p); err != nil {
		return fmt.Errorf("finish the execution: %w", err)
	}
	return nil
}

// SettleTx leaves to tx.Last what else goes with the end.
func (e *End) SettleTx(ctx context.Context, tx *postgres.Tx) (err error) {
	if len(e.rows) == 0 {
		return ErrApart
	}
	e.made, err = e.runner.endTx(ctx, tx, e.rows, e.first, func(charges []billing.Charge, _ int) (*successors, error) {
		return e.runner.settleLast(ctx, tx, charges), nil
	})
	return err
}

// togetherWithin is how long an end waits for its run: runs above may be locked for long.
const togetherWithin = 2 * time.Second

// endWithRun ends the execution of a stage where its run goes on, and reports whether it
// did; if not, it is to be ended apart. What follows has nothing of this execution's context.
func (r *Runner) endWithRun(f finish) bool {
	if f.run == nil || r.EndWithRun == nil || r.ctx.Err() != nil || r.window.crowded([]billing.Charge{{WorkspaceID: f.key.WorkspaceID}}) {
		return false
	}
	end := &End{ExecutionID: f.key.ID, runner: r, finish: f}
	ctx, cancel := context.WithTimeout(context.Background(), togetherWithin)
	defer cancel()
	if err := r.EndWithRun(ctx, notify.Key{WorkspaceID: f.key.WorkspaceID, ID: *f.run}, end); err != nil {
		if !errors.Is(err, ErrApart) && !undone(err) && !postgres.Unavailable(err) {
			r.log.WarnContext(ctx, "an execution could not be ended with its run, and is ended apart", "execution_id", f.key.ID.String(), "error", err)
		}
		return false
	}
	r.moved.Store(time.Now().UnixNano())
	failpoint.Reached(failpoint.AfterFinish)
	end.made.followed = true
	r.tell(context.Background(), []notify.Key{f.key}, end.made)
	return true
}

// flushFinishes makes executions final in one transaction and wakes whoever
// waits for them. All are told, also those that were final before: the answer
// to their commit may have been lost.
func (r *Runner) flushFinishes(ctx context.Context, items []finish) ([]struct{}, error) {
	made, err := r.commit(ctx, func(tx *postgres.Tx) (ends, error) { return r.finishTx(ctx, tx, items) })
	if err != nil {
		return nil, err
	}
	r.moved.Store(time.Now().UnixNano())
	failpoint.Reached(failpoint.AfterFinish)
	keys := make([]notify.Key, len(items))
	for i, f := range items {
		keys[i] = f.key
	}
	r.tell(ctx, keys, made)
	return make([]struct{}, len(items)), nil
}

// commit ends executions in a transaction, and begins periods of credits that are over
// first.
func (r *Runner) commit(ctx context.Context, end func(tx *postgres.Tx) (ends, error)) (made ends, err error) {
	err = r.Ledger.InPeriod(ctx, r.DB, func() error {
		err := postgres.InTx(ctx, r.DB, func(tx *postgres.Tx) (err error) {
			made, err = end(tx)
			return err
		})
		if err != nil {
			made.deliveries.Drop()
			made.next.drop(err)
			made = ends{}
		}
		return err
	})
	return made, err
}

// tell does what is to be done after a commit that ended executions: it wakes those
// who wait for them, and for the runs that they are stages of, and begins what comes in
// their place.
func (r *Runner) tell(ctx context.Context, keys []notify.Key, made ends) {
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
		// The progress of a callback goes on changing the record.
		if end, ok := won[key]; ok && !end.callback {
			changes[i].Value = end.row
		}
	}
	r.Metrics.Posted(len(made.done) - stages)
	r.Hub.Publish(changes...)
	made.deliveries.Start()
	made.next.start(ctx)
	if later := made.next.later; len(later) > 0 {
		// An account that somebody has locked holds up no other end.
		r.running.Go(func() { r.unparkLater(context.WithoutCancel(ctx), later) })
	}
	if len(runs) > 0 && r.Ended != nil && !made.followed {
		r.Ended(ctx, runs)
	}
}

// ends is what a transaction that ends executions leaves to be done after its
// commit, or to be dropped without one.
type ends struct {
	done       []finished
	deliveries *callback.Ready
	next       *successors // what begins in their place
	followed   bool        // the run of the one that ended has gone on with it
}

// finishTx is the one place where executions that were started become final, a
// cancellation and End aside: state, frozen callback with its delivery job, the end of its
// own job, and the settlement of its credits commit together or not at all, and with them go
// parked executions that now have room.
func (r *Runner) finishTx(ctx context.Context, tx *postgres.Tx, items []finish) (made ends, err error) {
	written, first := finishing(items)
	rows, err := db.New().ExecutionFinishMany(ctx, tx, written)
	if err != nil {
		return made, fmt.Errorf("finish executions: %w", err)
	}
	if len(rows) == 0 {
		return ends{next: &successors{}}, nil
	}
	return r.endTx(ctx, tx, rows, first, func(charges []billing.Charge, ending int) (*successors, error) {
		return r.chargeTx(ctx, tx, charges, ending)
	})
}

// turn is what ends: one execution may end twice in one batch, its run and the sweep that
// took this worker for lost, or a run that was taken over. The first counts, if its epoch
// is the row's.
type turn struct {
	key   notify.Key
	epoch int32
}

func finishing(items []finish) (p db.ExecutionFinishManyParams, first map[turn]finish) {
	first = make(map[turn]finish, len(items))
	for _, f := range items {
		if _, twice := first[turn{f.key, f.epoch}]; twice {
			continue
		}
		first[turn{f.key, f.epoch}] = f
		p.WorkspaceIds = append(p.WorkspaceIds, f.key.WorkspaceID)
		p.Ids = append(p.Ids, f.key.ID)
		p.Epochs = append(p.Epochs, f.epoch)
		p.Statuses = append(p.Statuses, string(f.status))
		p.Outputs = append(p.Outputs, string(f.output))
		p.Errors = append(p.Errors, string(f.err))
	}
	return p, first
}

// endTx writes what goes with the rows that have become final.
func (r *Runner) endTx(ctx context.Context, tx *postgres.Tx, rows []db.ExecutionFinishManyRow, first map[turn]finish, charge func(charges []billing.Charge, ending int) (*successors, error)) (made ends, err error) {
	charges := make([]billing.Charge, len(rows))
	jobs := make([]int64, len(rows))
	made.done = make([]finished, len(rows))
	var frozen []callback.Final
	ending := 0
	for i, row := range rows {
		charges[i] = billing.Charge{
			WorkspaceID: row.WorkspaceID, ExecutionID: row.ID, Amount: row.Usage, Reserved: row.Reserved, Stage: row.RunID != nil,
		}
		jobs[i] = row.JobID
		end := first[turn{notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}, row.Epoch}]
		made.done[i] = finished{row: final(row, end), callback: row.HasCallback, run: row.RunID}
		charges[i].Bytes = int64(end.weight())
		if end.local {
			ending++
		}
		if row.HasCallback {
			frozen = append(frozen, callback.Final(made.done[i].row))
			charges[i].Bytes *= 2 // the callback's body holds it again
		}
	}
	if made.deliveries, err = r.Deliverer.FreezeManyTx(ctx, tx, r.Jobs, r.Vault, frozen); err != nil {
		return made, err
	}
	tx.Last(dequeue(ctx, jobs))
	made.next, err = charge(charges, ending)
	failpoint.Reached(failpoint.InFinish)
	return made, err
}

// dequeue takes the jobs of what is final from the queue.
func dequeue(ctx context.Context, jobs []int64) func(tx pgx.Tx) error {
	return func(tx pgx.Tx) error {
		if err := db.New().RiverJobDeleteMany(ctx, tx, jobs); err != nil {
			return fmt.Errorf("take finished jobs from the queue: %w", err)
		}
		return nil
	}
}

// chargeTx settles, and lets parked executions go in the place of what has ended, where
// some were parked when last seen. ending is how many slots of local runs become free.
func (r *Runner) chargeTx(ctx context.Context, tx *postgres.Tx, charges []billing.Charge, ending int) (*successors, error) {
	if !r.window.crowded(charges) {
		return r.settleLast(ctx, tx, charges), nil
	}
	loads, err := r.Ledger.SettleTx(ctx, tx, charges)
	if err != nil {
		return nil, err
	}
	r.window.sawParked(loads)
	return r.releaseTx(ctx, tx, loads, ending)
}

// settleLast has the settlement leave with the commit: the accounts are locked no longer than
// that takes, and whatever turns out to be parked is for afterwards.
func (r *Runner) settleLast(ctx context.Context, tx *postgres.Tx, charges []billing.Charge) *successors {
	next := &successors{runner: r}
	tx.Last(func(tx pgx.Tx) error {
		loads, err := r.Ledger.SettleTx(ctx, tx, charges)
		next.later = r.window.sawParked(loads)
		return err
	})
	return next
}

// finished is an execution that has become final.
type finished struct {
	row      db.ExecutionGetRow // without its callback
	callback bool               // it has one
	run      *uuid.UUID         // that it is a stage of; nil: none
}

func (f finished) key() notify.Key { return notify.Key{WorkspaceID: f.row.WorkspaceID, ID: f.row.ID} }

// final is the row as it stands after the finish, without its callback, and with its output as
// it is stored.
func final(row db.ExecutionFinishManyRow, f finish) db.ExecutionGetRow {
	return db.ExecutionGetRow{
		WorkspaceID: row.WorkspaceID, ID: row.ID, Module: row.Module, Status: row.Status,
		Output: f.output, Error: f.err, Usage: row.Usage, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}
}
