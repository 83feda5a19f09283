package execution

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// refusedFor is how long Accepts reports a refused write. It is limited because after a refusal
// there may be no further submission that shows that the database works again.
const refusedFor = 5 * time.Second

// noteAcceptance records whether the database refused the last acceptance.
func (s *Service) noteAcceptance(err error) {
	switch {
	case postgres.Unavailable(err):
		s.refused.Store(time.Now().UnixNano())
	case err == nil:
		s.refused.Store(0)
	}
}

// Accepts returns an error if the database answers but recently refused to store an execution,
// for example because its disk is full.
func (s *Service) Accepts() error {
	if time.Since(time.Unix(0, s.refused.Load())) < refusedFor {
		return errors.New("the database refused the last execution")
	}
	return nil
}

// submission is an execution to be accepted.
type submission struct {
	SubmitParams
	id              uuid.UUID
	call            []byte
	repeat          component.Repeat
	callbackSealed  []byte
	callbackHeaders []string
	worker          int32 // worker that reserved a slot for it; 0: it goes through the queue
	price           credit.Amount

	// Only for a stage of a run, which has no callback and no API key.
	run       uuid.UUID
	effectKey uuid.UUID     // zero: use the execution's ID
	reserve   credit.Amount // credits that the run reserves in addition
	timeout   int32         // milliseconds; 0: use the module's timeout
	secrets   []string      // must not appear in errors
	secret    bool          // seal the output
	nested    bool          // its run has a parent run
	at        *time.Time    // Stage.At
}

// want returns the credits to reserve. The price of a stage is reserved by its run.
func (a submission) want() billing.Want {
	if a.run != uuid.Nil {
		return billing.Want{WorkspaceID: a.WorkspaceID, Amount: a.reserve}
	}
	return billing.Want{WorkspaceID: a.WorkspaceID, Amount: a.price}
}

func (a submission) owner() uuid.UUID { return a.WorkspaceID }

// weight returns the number of bytes that a submission adds to its batch.
func (a submission) weight() int { return len(a.call) + len(a.callbackSealed) }

// flushAccepts accepts submissions that share a commit. If shared is set, it fails with an error for
// billing.Held instead of waiting for an account.
func (s *Service) flushAccepts(ctx context.Context, items []submission, shared bool) ([]db.ExecutionAcceptManyRow, error) {
	ctx = postgres.Scope(ctx, ownersOf(items, submission.owner)...)
	var batch postgres.Batch
	if shared {
		billing.QueueLockShared(ctx, &batch, ownersOf(items, submission.owner))
	}
	rows := postgres.Returning[db.ExecutionAcceptManyRow](&batch, db.ExecutionAcceptMany, acceptParams(items, 0))
	err := postgres.Commit(ctx, s.db, &batch)
	s.noteAcceptance(err)
	if err != nil {
		return nil, fmt.Errorf("accept executions: %w", err)
	}
	for i, m := range rows.All() {
		if m.JobID != 0 && !m.Parked && items[i].worker == 0 {
			s.local.slots.running.Go(func() { s.local.wakeQueue(context.WithoutCancel(ctx)) }) // the answers must not wait for it
			break
		}
	}
	return rows.All(), nil
}

// acceptMany accepts submissions in tx. finishing is the number of executions that finish later in
// tx.
func (s *Service) acceptMany(ctx context.Context, tx pgx.Tx, items []submission, finishing int) ([]db.ExecutionAcceptManyRow, error) {
	rows, err := db.New().ExecutionAcceptMany(ctx, tx, acceptParams(items, finishing))
	if err != nil {
		return nil, fmt.Errorf("accept executions: %w", err)
	}
	return rows, nil
}

// acceptParams returns the parameters of the statement that accepts submissions. finishing is as in
// acceptMany.
func acceptParams(items []submission, finishing int) db.ExecutionAcceptManyParams {
	p := db.ExecutionAcceptManyParams{Finishing: int64(finishing), Queue: Queue, SafetyNet: safetyNet}
	for _, a := range items {
		appendAccept(&p, a)
	}
	return p
}

func appendAccept(p *db.ExecutionAcceptManyParams, a submission) {
	p.Ids, p.WorkspaceIds = append(p.Ids, a.id), append(p.WorkspaceIds, a.WorkspaceID)
	p.Amounts, p.WorkerIds = append(p.Amounts, int64(a.want().Amount)), append(p.WorkerIds, a.worker)
	p.Modules, p.Repeats = append(p.Modules, a.Module), append(p.Repeats, string(a.repeat))
	p.Calls, p.Prices = append(p.Calls, a.call), append(p.Prices, int64(a.price))
	p.Attempts, p.Timeouts = append(p.Attempts, int16(a.Attempts)), append(p.Timeouts, a.timeout)
	p.Traceparents = append(p.Traceparents, a.Traceparent)
	p.RunIds, p.KeyIds, p.KeyRootIds = append(p.RunIds, a.run), append(p.KeyIds, a.KeyID), append(p.KeyRootIds, a.KeyRootID)
	callback := CallbackParams{}
	if a.Callback != nil {
		callback = *a.Callback
	}
	p.CallbackUrls, p.CallbackSealed = append(p.CallbackUrls, callback.URL), append(p.CallbackSealed, a.callbackSealed)
	p.CallbackSigned = append(p.CallbackSigned, callback.Secret != nil)
	p.CallbackHeaders = append(p.CallbackHeaders, strings.Join(a.callbackHeaders, ","))
	if a.at != nil {
		p.At = a.at // the same for all stages of a batch
	}
}
