package execution

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/failpoint"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/idempotency"
	"github.com/weft-automation/weft/internal/platform/notify"
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

// runDirectly runs a component that has no effect before anything is written, and then stores the
// execution in its final state with one commit. It is used if the caller waits for the result.
// Nothing was acknowledged before the commit, so a crash loses nothing, and the execution is either
// missing or final. If an earlier request used the Idempotency-Key, runDirectly returns *idempotency.Used.
//
// runDirectly returns no row, and has written nothing, if the execution must be accepted first:
// the workspace gets no slot of this process, the credits don't cover the execution, or the
// component takes longer than directTime, waits, or fails in a way that is worth another attempt. So must an
// execution with a deadline.
func (s *Service) runDirectly(ctx context.Context, a submission, entry *component.Entry) (row *db.ExecutionGetRow, err error) {
	if entry.Effect != component.EffectNone || a.WaitFor == 0 || a.Deadline > 0 {
		return nil, nil
	}
	slots := s.local.slots
	if s.local.ctx.Err() != nil || !slots.acquireDirect(a.WorkspaceID) {
		return nil, nil
	}
	defer slots.release(a.WorkspaceID)
	d := direct{submission: a}
	if done, err := s.local.compute(ctx, &d, entry); err != nil || !done {
		return nil, err
	}
	failpoint.Reached(failpoint.AfterEffect)
	if a.Idempotency == nil {
		row, err = s.local.directs.Do(ctx, d)
	} else {
		err = s.local.alone(ctx, a, func(ctx context.Context) (err error) {
			var rows []*db.ExecutionGetRow
			if rows, err = s.local.storeDirects(ctx, []direct{d}, false); err == nil {
				row = rows[0]
			}
			return err
		})
	}
	s.noteAcceptance(err)
	if billing.Uncovered(err) {
		return nil, nil // accepting the execution renews the period, or refuses it with the reason
	}
	return row, err
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

// storeDirects stores direct executions in one commit, and returns their rows. billing.Uncovered reports
// true for its error if the credits don't cover all of them. If shared is set, it fails with an error for
// billing.Held instead of waiting for an account.
//
// An execution with an Idempotency-Key is stored alone, together with the key, unless storeDirects returns
// *idempotency.Used.
func (r *Runner) storeDirects(ctx context.Context, items []direct, shared bool) (rows []*db.ExecutionGetRow, err error) {
	var first postgres.Batch
	a := items[0].submission
	claim := a.Idempotency.QueueClaim(ctx, &first)
	f := r.queueDirects(ctx, &first, items)
	f.shared = shared
	err = postgres.InTx(ctx, r.DB, &first, func(tx *postgres.Tx) error {
		if err := claim.Keep(ctx, tx.AtCommit(), a.id); err != nil {
			return err
		}
		return f.Close(ctx, tx)
	})
	// The items share the commit, so one of them shows its outcome. While the database can't be reached,
	// other direct executions wait for the lookup. They couldn't be stored either. If the response to the
	// commit is lost, the IDs of the delivery jobs are unknown, so the queue makes the deliveries.
	if err = resolve(ctx, r.DB, f.Failed(err), a); err != nil {
		return nil, idempotency.InFlight(err)
	}
	stored := make(map[uuid.UUID]db.ExecutionFinishManyRow, len(items))
	for _, row := range f.rows.All() {
		stored[row.ID] = row
	}
	for _, d := range items {
		row := stored[d.id]
		rows = append(rows, new(f.record(row)))
		r.Metrics.Submitted(row.Module)
		r.Metrics.Started(row.Module, 0)
		outcome := outcomeCompleted
		if row.Status == status.ExecutionFailed {
			outcome = outcomeFailed
		}
		r.Metrics.Attempted(row.Module, outcome, d.elapsed)
	}
	f.Done(ctx)
	return rows, nil
}

// queueDirects is queueFinish for direct executions: it inserts their rows and their callbacks. It
// publishes nothing: the IDs were not returned yet, so nobody can wait for them.
func (r *Runner) queueDirects(ctx context.Context, batch *postgres.Batch, items []direct) *Finishing {
	f := &Finishing{runner: r, direct: true, items: make(map[attemptKey]finish, len(items))}
	var p db.ExecutionInsertFinalManyParams
	var c db.CallbackInsertManyParams
	for _, d := range items {
		key := notify.Key{WorkspaceID: d.WorkspaceID, ID: d.id}
		f.items[attemptKey{key, 1}] = finish{key: key, output: d.output, err: d.err}
		p.WorkspaceIds, p.Ids = append(p.WorkspaceIds, d.WorkspaceID), append(p.Ids, d.id)
		p.Modules, p.Repeats = append(p.Modules, d.Module), append(p.Repeats, string(d.repeat))
		p.Statuses, p.Attempts = append(p.Statuses, string(d.status)), append(p.Attempts, int16(d.Attempts))
		p.HasCallbacks, p.Traceparents = append(p.HasCallbacks, d.Callback != nil), append(p.Traceparents, d.Traceparent)
		p.Outputs, p.Errors = append(p.Outputs, string(d.output)), append(p.Errors, string(d.err))
		p.Usages = append(p.Usages, int64(d.usage()))
		p.KeyIds, p.KeyRootIds = append(p.KeyIds, d.KeyID), append(p.KeyRootIds, d.KeyRootID)
		if d.Callback != nil {
			c.WorkspaceIds, c.ExecutionIds = append(c.WorkspaceIds, d.WorkspaceID), append(c.ExecutionIds, d.id)
			c.Urls, c.Sealed = append(c.Urls, d.Callback.URL), append(c.Sealed, d.callbackSealed)
			c.Signed, c.HeaderNames = append(c.Signed, d.Callback.Secret != nil), append(c.HeaderNames, strings.Join(d.callbackHeaders, ","))
		}
	}
	f.rows = postgres.Returning[db.ExecutionFinishManyRow](batch, db.ExecutionInsertFinalMany, p)
	if len(c.Urls) > 0 {
		_ = db.New().CallbackInsertMany(ctx, batch, c)
	}
	return f
}
