package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
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
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
)

// directTime limits a direct call. A component that needs longer is accepted first.
const directTime = 25 * time.Millisecond

// direct is an execution that finished before it was stored.
type direct struct {
	accept
	status status.Execution
	output json.RawMessage // in stored form: sealed if secret
	err    json.RawMessage
}

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
// missing or final.
//
// runDirectly returns no row, and has written nothing, if the execution must be accepted first:
// the workspace or this process has no room, the credits don't cover the execution, or the
// component takes longer than directTime, waits, or fails in a way that is worth another attempt.
func (s *Service) runDirectly(ctx context.Context, a accept, entry *component.Entry) (row *db.ExecutionGetRow, earlier uuid.UUID, err error) {
	if entry.Effect != component.EffectNone || a.WaitFor == 0 || s.local == nil {
		return nil, uuid.Nil, nil
	}
	free, err := s.reserveDirect(ctx, a.WorkspaceID)
	if err != nil || free == nil {
		return nil, uuid.Nil, err
	}
	defer free()
	d := direct{accept: a}
	if done, err := s.local.compute(ctx, &d, entry); err != nil || !done {
		return nil, uuid.Nil, err
	}
	failpoint.Reached(failpoint.AfterEffect)
	stored, earlier, err := s.storeDirect(ctx, d)
	s.noteAcceptance(err)
	if errors.Is(err, billing.ErrUndecided) {
		s.rooms.forget(a.WorkspaceID)
		return nil, uuid.Nil, nil // accepting the execution renews the period, or refuses it with the reason
	}
	return stored, earlier, err
}

// storeDirect commits a direct execution. Executions without an Idempotency-Key share commits. If
// an earlier request used the key, storeDirect returns the execution of that request instead.
func (s *Service) storeDirect(ctx context.Context, d direct) (row *db.ExecutionGetRow, earlier uuid.UUID, err error) {
	r := s.local
	if d.Idempotency == nil {
		row, err = r.directs.Do(ctx, d)
		return row, uuid.Nil, err
	}
	err = withTimeout(context.WithoutCancel(ctx), writeTimeout, func(ctx context.Context) error {
		rows, err := r.commitDirects(ctx, []direct{d}, func(tx pgx.Tx) (found bool, err error) {
			if earlier, found, err = d.Idempotency.ClaimTx(ctx, tx); err != nil || found {
				return found, err
			}
			return false, d.Idempotency.KeepTx(ctx, tx, d.id)
		})
		if len(rows) > 0 {
			row = rows[0]
		}
		return err
	})
	return row, earlier, err
}

// compute runs the component of a direct execution, and reports whether the result is final.
func (r *Runner) compute(ctx context.Context, d *direct, entry *component.Entry) (done bool, err error) {
	ctx = telemetry.WithExecution(ctx, d.WorkspaceID, d.id, d.Module, 1)
	ctx, span := telemetry.StartSpan(ctx, "execute "+d.Module)
	start := time.Now()
	call := component.Call{ExecutionID: d.id, EffectKey: d.id, Attempt: 1, Input: d.Input, Config: d.Config}
	result, inTime, err := r.Modules.Try(ctx, d.Module, call, directTime)
	outcome := outcomeCompleted
	switch failure := asError(err); {
	case ctx.Err() != nil: // the caller has disconnected
		telemetry.EndSpan(span, "")
		return false, ctx.Err()
	case !inTime || result.Wait != nil || err != nil && failure.Retryable && d.Attempts > 1:
		telemetry.EndSpan(span, "")
		return false, nil
	case err != nil:
		outcome = outcomeFailed
		if failure.Err != nil {
			r.log.WarnContext(ctx, "execution failed", "code", failure.Code, "error", failure.Err)
		}
		d.status = status.ExecutionFailed
		d.err, err = errorOf(failure, 1)
		telemetry.EndSpan(span, outcomeFailed)
	default:
		d.status = status.ExecutionCompleted
		d.output, err = r.sealResult(ctx, outputAt(d.WorkspaceID, d.id), result.Output, secretResult(entry, call, result.Output))
		telemetry.EndSpan(span, "")
	}
	r.Metrics.Started(d.Module, 0)
	r.Metrics.Attempted(d.Module, outcome, time.Since(start))
	return err == nil, err
}

// flushDirects stores direct executions in one transaction.
func (r *Runner) flushDirects(ctx context.Context, items []direct) ([]*db.ExecutionGetRow, error) {
	return r.commitDirects(ctx, items, nil)
}

// commitDirects stores direct executions in one transaction, and returns their rows. If claim is
// not nil, it runs first, and nothing is stored if it returns true. commitDirects returns
// billing.ErrUndecided if the credits don't cover all of the executions.
func (r *Runner) commitDirects(ctx context.Context, items []direct, claim func(tx pgx.Tx) (claimed bool, err error)) (rows []*db.ExecutionGetRow, err error) {
	var made followUp
	err = postgres.InTx(ctx, r.DB, func(tx *postgres.Tx) (err error) {
		if claim != nil {
			if claimed, err := claim(tx); err != nil || claimed {
				return err
			}
		}
		rows, made, err = r.storeDirectsTx(ctx, tx, items)
		return err
	})
	if err != nil {
		made.deliveries.Drop()
		return nil, err
	}
	if len(rows) == 0 {
		return nil, nil
	}
	keys := make([]notify.Key, len(rows))
	for i, row := range rows {
		keys[i] = notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}
		r.Metrics.Submitted(row.Module)
	}
	r.lastProgress.Store(time.Now().UnixNano())
	failpoint.Reached(failpoint.AfterFinish)
	r.afterCommit(ctx, keys, made)
	return rows, nil
}

// storeDirectsTx writes, in this order, the rows, their callbacks with frozen bodies and delivery
// jobs, and the postings that charge the accounts.
func (r *Runner) storeDirectsTx(ctx context.Context, tx *postgres.Tx, items []direct) (rows []*db.ExecutionGetRow, made followUp, err error) {
	var p db.ExecutionInsertFinalManyParams
	var callbacks db.CallbackInsertManyParams
	charges := make([]billing.Charge, len(items))
	rows = make([]*db.ExecutionGetRow, len(items))
	made = followUp{done: make([]finished, len(items)), next: &successors{}}
	for i, d := range items {
		appendDirect(&p, d)
		if d.Callback != nil {
			appendCallback(&callbacks, d.accept)
		}
		charges[i] = billing.Charge{WorkspaceID: d.WorkspaceID, ExecutionID: d.id, Amount: d.usage(), Bytes: int64(len(d.output) + len(d.err))}
		rows[i] = &db.ExecutionGetRow{WorkspaceID: d.WorkspaceID, ID: d.id, Module: d.Module, Status: d.status, Output: d.output, Error: d.err, Usage: d.usage()}
	}
	insert := func(tx pgx.Tx) error {
		at, err := db.New().ExecutionInsertFinalMany(ctx, tx, p)
		if err != nil {
			return fmt.Errorf("store executions: %w", err)
		}
		for i, row := range rows {
			row.CreatedAt, row.UpdatedAt = at[i], at[i]
			made.done[i] = finished{row: *row, callback: items[i].Callback != nil}
		}
		return nil
	}
	failpoint.Reached(failpoint.InFinish)
	charge := func(tx pgx.Tx) error {
		_, err := billing.Books{}.ChargeTx(ctx, tx, charges)
		return err
	}
	if len(callbacks.ExecutionIds) == 0 {
		tx.Last(insert)
		tx.Last(charge)
		return rows, made, nil
	}
	if err := insert(tx); err != nil {
		return nil, made, err
	}
	if err := db.New().CallbackInsertMany(ctx, tx, callbacks); err != nil {
		return nil, made, fmt.Errorf("insert callbacks: %w", err)
	}
	var finals []callback.Final
	for i, d := range items {
		if d.Callback != nil {
			finals = append(finals, callback.Final(*rows[i]))
			charges[i].Bytes *= 2 // the callback's body contains a copy
		}
	}
	if made.deliveries, err = r.Deliverer.FreezeManyTx(ctx, tx, r.Jobs, r.Vault, finals); err != nil {
		return nil, made, err
	}
	tx.Last(charge)
	return rows, made, nil
}

func appendDirect(p *db.ExecutionInsertFinalManyParams, d direct) {
	p.WorkspaceIds, p.Ids = append(p.WorkspaceIds, d.WorkspaceID), append(p.Ids, d.id)
	p.Modules, p.Repeats = append(p.Modules, d.Module), append(p.Repeats, string(d.repeat))
	p.Statuses, p.Attempts = append(p.Statuses, string(d.status)), append(p.Attempts, int16(d.Attempts))
	p.HasCallbacks, p.Traceparents = append(p.HasCallbacks, d.Callback != nil), append(p.Traceparents, d.Traceparent)
	p.Outputs, p.Errors = append(p.Outputs, string(d.output)), append(p.Errors, string(d.err))
	p.Usages = append(p.Usages, int64(d.usage()))
	p.KeyIds, p.KeyRootIds = append(p.KeyIds, d.KeyID), append(p.KeyRootIds, d.KeyRootID)
}

func appendCallback(p *db.CallbackInsertManyParams, a accept) {
	p.WorkspaceIds = append(p.WorkspaceIds, a.WorkspaceID)
	p.ExecutionIds = append(p.ExecutionIds, a.id)
	p.Urls = append(p.Urls, a.Callback.URL)
	p.Sealed = append(p.Sealed, a.callbackSealed)
	p.Signed = append(p.Signed, a.Callback.Secret != nil)
	p.HeaderNames = append(p.HeaderNames, strings.Join(a.callbackHeaders, ","))
}

// rooms caches how many more executions each workspace may run directly in this process.
type rooms struct {
	mu     sync.Mutex
	byID   map[uuid.UUID]room
	direct map[uuid.UUID]int // direct executions in flight
}

// room is what was last read of a workspace's account.
type room struct {
	solvent bool // has credits and storage left
	left    int  // executions until the fair share is used up
	at      time.Time
}

// maxRooms limits the cache. If it is full, it is cleared first.
const maxRooms = 10_000

// reserveDirect reserves a slot for a direct execution if the workspace has credits and its fair
// share is not used up. It relies on what this process read of the account within knownFor; the
// commit checks the credits exactly. reserveDirect returns the function that releases the slot, or
// nil if no slot was reserved.
func (s *Service) reserveDirect(ctx context.Context, workspaceID uuid.UUID) (release func(), err error) {
	s.rooms.mu.Lock()
	known := s.rooms.byID[workspaceID]
	s.rooms.mu.Unlock()
	if time.Since(known.at) > knownFor {
		if known, err = s.readRoom(ctx, workspaceID); err != nil {
			return nil, err
		}
	}
	s.rooms.mu.Lock()
	defer s.rooms.mu.Unlock()
	if !known.solvent || s.rooms.direct[workspaceID] >= known.left || !s.local.reserveSlot(0) {
		return nil, nil
	}
	s.rooms.direct[workspaceID]++
	return func() {
		s.local.releaseSlot()
		s.rooms.mu.Lock()
		defer s.rooms.mu.Unlock()
		if s.rooms.direct[workspaceID]--; s.rooms.direct[workspaceID] == 0 {
			delete(s.rooms.direct, workspaceID)
		}
	}, nil
}

// forget makes the next direct execution of a workspace read its account again.
func (r *rooms) forget(workspaceID uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, workspaceID)
}

// readRoom reads a workspace's account.
func (s *Service) readRoom(ctx context.Context, workspaceID uuid.UUID) (room, error) {
	row, err := db.New().AccountGetRoom(ctx, s.db, workspaceID)
	if err != nil {
		return room{}, fmt.Errorf("read account: %w", err)
	}
	slots := int(row.Slots)
	if slots == 0 {
		slots = presumedSlots
	}
	read := room{solvent: row.Solvent, left: shareOf(slots) - billing.LoadOf(row.Live, row.Parked, row.Waiting).Active(), at: time.Now()}
	s.rooms.mu.Lock()
	defer s.rooms.mu.Unlock()
	if len(s.rooms.byID) >= maxRooms {
		clear(s.rooms.byID)
	}
	s.rooms.byID[workspaceID] = read
	return read, nil
}

// directRecord returns the record of a stored direct execution.
func (s *Service) directRecord(ctx context.Context, a accept, row db.ExecutionGetRow) (Submitted, error) {
	a.showCallback(&row)
	row, err := s.openOutput(ctx, row)
	if err != nil {
		return Submitted{}, err
	}
	return Submitted{Record: present.Execution(row)}, nil
}
