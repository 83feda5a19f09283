package execution

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/failpoint"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
)

// directTime limits a direct call. A component that needs longer is accepted first.
const directTime = 25 * time.Millisecond

// direct is an execution that finished before it was stored.
type direct struct {
	submission
	status  status.Execution
	output  json.RawMessage // in stored form: sealed if secret
	err     json.RawMessage
	elapsed time.Duration
}

func (d direct) owner() uuid.UUID { return d.WorkspaceID }

func (d direct) weight() int { return len(d.output) + len(d.err) + len(d.callbackSealed) }

// usage returns what the execution costs.
func (d direct) usage() credit.Amount {
	if d.status == status.ExecutionCompleted {
		return d.price
	}
	return 0
}

// charge returns what the account is charged. The body of a callback contains a copy of the output.
func (d direct) charge() billing.Charge {
	c := billing.Charge{WorkspaceID: d.WorkspaceID, ExecutionID: d.id, Amount: d.usage(), Bytes: int64(len(d.output) + len(d.err))}
	if d.Callback != nil {
		c.Bytes *= 2
	}
	return c
}

// runDirectly runs a component that has no effect before anything is written, and then stores the
// execution in its final state with one commit. It is used if the caller waits for the result.
// Nothing was acknowledged before the commit, so a crash loses nothing, and the execution is either
// missing or final. If an earlier request used the Idempotency-Key, runDirectly returns the
// execution of that request instead.
//
// runDirectly returns no row, and has written nothing, if the execution must be accepted first:
// the workspace gets no slot of this process, the credits don't cover the execution, or the
// component takes longer than directTime, waits, or fails in a way that is worth another attempt.
func (s *Service) runDirectly(ctx context.Context, a submission, entry *component.Entry) (row *db.ExecutionGetRow, earlier uuid.UUID, err error) {
	if entry.Effect != component.EffectNone || a.WaitFor == 0 {
		return nil, uuid.Nil, nil
	}
	slots := s.local.slots
	if s.local.ctx.Err() != nil || !slots.acquireDirect(a.WorkspaceID) {
		return nil, uuid.Nil, nil
	}
	defer slots.release(a.WorkspaceID)
	d := direct{submission: a}
	if done, err := s.local.compute(ctx, &d, entry); err != nil || !done {
		return nil, uuid.Nil, err
	}
	failpoint.Reached(failpoint.AfterEffect)
	if a.Idempotency == nil {
		row, err = s.local.directs.Do(ctx, d)
	} else {
		row, earlier, err = s.local.storeOnce(ctx, d)
	}
	s.noteAcceptance(err)
	if billing.Uncovered(err) {
		return nil, uuid.Nil, nil // accepting the execution renews the period, or refuses it with the reason
	}
	return row, earlier, err
}

// directRecord returns the record of a stored direct execution.
func (s *Service) directRecord(ctx context.Context, a submission, row db.ExecutionGetRow) (Submitted, error) {
	a.showCallback(&row)
	row, err := s.openOutput(ctx, row)
	if err != nil {
		return Submitted{}, err
	}
	return Submitted{Record: present.Execution(row)}, nil
}

// compute runs the component of a direct execution, and reports whether the result is final.
func (r *Runner) compute(ctx context.Context, d *direct, entry *component.Entry) (done bool, err error) {
	ctx = telemetry.WithExecution(ctx, d.WorkspaceID, d.id, d.Module, 1)
	ctx, span := telemetry.StartSpan(ctx, "execute "+d.Module)
	outcome := ""
	defer func() { telemetry.EndSpan(span, outcome) }()
	start := time.Now()
	call := component.Call{ExecutionID: d.id, EffectKey: d.id, Attempt: 1, Input: d.Input, Config: d.Config}
	result, inTime, err := r.Modules.Try(ctx, d.WorkspaceID, d.Module, call, directTime)
	d.elapsed = time.Since(start)
	switch failure := asError(err); {
	case ctx.Err() != nil: // the caller has disconnected
		return false, ctx.Err()
	case !inTime || result.Wait != nil || err != nil && failure.Retryable && d.Attempts > 1:
		return false, nil
	case err != nil:
		outcome = outcomeFailed
		if failure.Err != nil {
			r.log.WarnContext(ctx, "execution failed", "code", failure.Code, "error", failure.Err)
		}
		d.status = status.ExecutionFailed
		d.err, err = errorOf(failure, 1)
	default:
		d.status = status.ExecutionCompleted
		d.output, err = r.sealResult(ctx, outputAt(d.WorkspaceID, d.id), result.Output, entry.SecretResult(call, result.Output))
	}
	return err == nil, err
}

// flushDirects stores direct executions that share a commit. billing.Uncovered reports true for its
// error if the credits don't cover all of them. If shared is set, it fails with an error for
// billing.Held instead of waiting for an account.
func (r *Runner) flushDirects(ctx context.Context, items []direct, shared bool) (rows []*db.ExecutionGetRow, err error) {
	made := &followUp{}
	var first postgres.Batch
	at := queueDirects(&first, items)
	err = postgres.InTx(ctx, r.DB, &first, func(tx *postgres.Tx) (err error) {
		rows, err = r.storeDirectsTx(ctx, tx, items, at.All(), shared, made)
		return err
	})
	// The items share the commit, so one of them shows its outcome. While the database can't be reached,
	// other direct executions wait for the lookup. They couldn't be stored either.
	if err = resolve(ctx, r.DB, err, items[0].submission, uuid.Nil); err != nil {
		made.deliveries.Drop()
		return nil, err
	}
	r.directsStored(ctx, items, made)
	return rows, nil
}

// storeOnce stores a direct execution together with its Idempotency-Key. If an earlier request used
// the key, storeOnce returns the execution of that request. Canceling ctx does not interrupt the
// commit.
func (r *Runner) storeOnce(ctx context.Context, d direct) (row *db.ExecutionGetRow, earlier uuid.UUID, err error) {
	made := &followUp{}
	err = withTimeout(context.WithoutCancel(ctx), writeTimeout, func(ctx context.Context) error {
		err := postgres.InTx(ctx, r.DB, nil, func(tx *postgres.Tx) error {
			id, replayed, err := d.Idempotency.OnceTx(ctx, tx, d.id, func() error {
				var batch postgres.Batch
				at := queueDirects(&batch, []direct{d})
				if err := tx.Send(ctx, &batch); err != nil {
					return err
				}
				rows, err := r.storeDirectsTx(ctx, tx, []direct{d}, at.All(), false, made)
				if err == nil {
					row = rows[0]
				}
				return err
			})
			if replayed {
				earlier = id
			}
			return err
		})
		return resolve(ctx, r.DB, err, d.submission, earlier)
	})
	switch {
	case err != nil:
		made.deliveries.Drop()
		return nil, uuid.Nil, err
	case earlier == uuid.Nil:
		r.directsStored(ctx, []direct{d}, made)
	}
	return row, earlier, nil
}

// storeDirectsTx writes what follows the rows that were inserted at the specified times: their
// callbacks with frozen bodies and delivery jobs, and the postings that charge the accounts. It returns
// the rows. shared is as in flushDirects.
func (r *Runner) storeDirectsTx(ctx context.Context, tx *postgres.Tx, items []direct, at []time.Time, shared bool, made *followUp) (rows []*db.ExecutionGetRow, err error) {
	for i, d := range items {
		rows = append(rows, &db.ExecutionGetRow{
			WorkspaceID: d.WorkspaceID, ID: d.id, Module: d.Module, Status: d.status, Output: d.output, Error: d.err, Usage: d.usage(),
			CreatedAt: at[i], UpdatedAt: at[i],
		})
	}
	if made.deliveries, err = r.freezeDirects(ctx, tx, items, rows); err != nil {
		return nil, err
	}
	failpoint.Reached(failpoint.InFinish)
	charges := make([]billing.Charge, len(items))
	for i, d := range items {
		charges[i] = d.charge()
		made.done = append(made.done, finished{row: *rows[i], callback: d.Callback != nil})
	}
	if shared {
		billing.QueueLockShared(ctx, tx.AtCommit(), ownersOf(items, direct.owner))
	}
	billing.Books{}.QueueCharge(tx.AtCommit(), charges)
	return rows, nil
}

// queueDirects inserts the rows of direct executions, and returns their times.
func queueDirects(batch *postgres.Batch, items []direct) *postgres.Rows[time.Time] {
	var p db.ExecutionInsertFinalManyParams
	for _, d := range items {
		p.WorkspaceIds, p.Ids = append(p.WorkspaceIds, d.WorkspaceID), append(p.Ids, d.id)
		p.Modules, p.Repeats = append(p.Modules, d.Module), append(p.Repeats, string(d.repeat))
		p.Statuses, p.Attempts = append(p.Statuses, string(d.status)), append(p.Attempts, int16(d.Attempts))
		p.HasCallbacks, p.Traceparents = append(p.HasCallbacks, d.Callback != nil), append(p.Traceparents, d.Traceparent)
		p.Outputs, p.Errors = append(p.Outputs, string(d.output)), append(p.Errors, string(d.err))
		p.Usages = append(p.Usages, int64(d.usage()))
		p.KeyIds, p.KeyRootIds = append(p.KeyIds, d.KeyID), append(p.KeyRootIds, d.KeyRootID)
	}
	return postgres.Returning[time.Time](batch, db.ExecutionInsertFinalMany, p)
}

// freezeDirects inserts the callbacks of direct executions, freezes their bodies and enqueues their
// deliveries.
func (r *Runner) freezeDirects(ctx context.Context, tx pgx.Tx, items []direct, rows []*db.ExecutionGetRow) (*callback.Ready, error) {
	var p db.CallbackInsertManyParams
	var finals []callback.Final
	for i, d := range items {
		if d.Callback == nil {
			continue
		}
		p.WorkspaceIds, p.ExecutionIds = append(p.WorkspaceIds, d.WorkspaceID), append(p.ExecutionIds, d.id)
		p.Urls, p.Sealed = append(p.Urls, d.Callback.URL), append(p.Sealed, d.callbackSealed)
		p.Signed = append(p.Signed, d.Callback.Secret != nil)
		p.HeaderNames = append(p.HeaderNames, strings.Join(d.callbackHeaders, ","))
		finals = append(finals, callback.Final(*rows[i]))
	}
	if len(finals) == 0 {
		return nil, nil
	}
	if err := db.New().CallbackInsertMany(ctx, tx, p); err != nil {
		return nil, fmt.Errorf("insert callbacks: %w", err)
	}
	return r.Deliverer.FreezeManyTx(ctx, tx, r.Jobs, r.Vault, finals)
}

// directsStored does the work that follows the commit of direct executions. It wakes nobody: their IDs
// were not returned yet, so nobody can wait for them.
func (r *Runner) directsStored(ctx context.Context, items []direct, made *followUp) {
	for _, d := range items {
		r.Metrics.Submitted(d.Module)
		r.Metrics.Started(d.Module, 0)
		outcome := outcomeCompleted
		if d.status == status.ExecutionFailed {
			outcome = outcomeFailed
		}
		r.Metrics.Attempted(d.Module, outcome, d.elapsed)
	}
	r.lastProgress.Store(time.Now().UnixNano())
	failpoint.Reached(failpoint.AfterFinish)
	r.afterCommit(ctx, nil, made)
}
