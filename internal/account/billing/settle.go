package billing

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/storage"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Charge is the cost of one execution, and the amount that was reserved for it.
type Charge struct {
	WorkspaceID uuid.UUID
	ExecutionID uuid.UUID
	Amount      credit.Amount
	Reserved    credit.Amount
	Bytes       int64 // that stay stored
	Stage       bool  // charged when its run finishes; settling only lowers the live count
}

// PeriodOver means that nothing was settled or admitted, because the period of a workspace is over.
// Renew the workspaces in another transaction, then try again.
type PeriodOver struct{ Workspaces []uuid.UUID }

func (e *PeriodOver) Error() string {
	return fmt.Sprintf("at least one of %d accounts must be renewed first", len(e.Workspaces))
}

// PeriodError returns the error of a transaction that settles accounts of the workspaces: *PeriodOver
// if the period of one of them is over, and err otherwise.
func PeriodError(err error, workspaceIDs ...uuid.UUID) error {
	if postgres.Raised(err, "WF002") {
		return &PeriodOver{workspaceIDs}
	}
	return err
}

// QueueLockShared locks the accounts of a commit that several workspaces share, before the statement
// that changes them. If other transactions hold some of the accounts, the statement fails, and Held
// returns their workspaces.
func QueueLockShared(ctx context.Context, batch *postgres.Batch, workspaceIDs []uuid.UUID) {
	_ = db.New().AccountLockShared(ctx, batch, workspaceIDs)
}

// Held returns the workspaces whose accounts were held when QueueLockShared failed with err, or none
// if it failed for another reason.
func Held(err error) (workspaceIDs []uuid.UUID) {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || e.Code != "WF004" {
		return nil
	}
	for id := range strings.SplitSeq(e.Detail, ",") {
		if parsed, err := uuid.Parse(id); err == nil {
			workspaceIDs = append(workspaceIDs, parsed)
		}
	}
	return workspaceIDs
}

// The subjects of a settlement; the first two are also kinds of postings.
const (
	ofExecution = "EXECUTION"
	ofRun       = "RUN"
	ofStage     = "STAGE"
)

// QueueCharge charges executions that are stored in their final state in the same transaction, so
// that nothing was reserved for them. The statement fails with an error for which Uncovered reports
// true if the accounts may not cover all of the charges. Otherwise it is like QueueSettle.
func (b Books) QueueCharge(batch *postgres.Batch, charges []Charge) {
	p := db.AccountSettleManyParams{Unreserved: true}
	for _, c := range charges {
		c.Bytes += storage.ExecutionBytes
		appendCharge(&p, ofExecution, c, 0)
	}
	b.queueSettle(batch, p)
}

// QueueSettle charges executions that become final in the same transaction, posts the charges (zero
// amounts included), and releases the reservations. Every final execution that isn't a stage of a
// run has exactly one posting: a second one violates the key, and the transaction fails. It also
// fails if the period of a workspace is over: see PeriodError. The accounts stay locked until the
// transaction ends, so make this one of its last statements.
func (b Books) QueueSettle(batch *postgres.Batch, charges []Charge) {
	var p db.AccountSettleManyParams
	for _, c := range charges {
		kind := ofExecution
		if c.Stage {
			kind, c.Amount, c.Reserved = ofStage, 0, 0
		}
		c.Bytes += storage.ExecutionBytes
		appendCharge(&p, kind, c, 1)
	}
	b.queueSettle(batch, p)
}

// QueueSettleRun charges a run that becomes final for all of its stages, and releases its
// reservation. The charge's ExecutionID is the ID of the run. Errors are as in QueueSettle.
func (b Books) QueueSettleRun(batch *postgres.Batch, c Charge) {
	var p db.AccountSettleManyParams
	appendCharge(&p, ofRun, c, 0)
	b.queueSettle(batch, p)
}

// SaveTx counts the bytes that a request stores. It returns INSUFFICIENT_CREDITS if the
// workspace has used up its storage for the month. It locks the account.
func (b Books) SaveTx(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, bytes int64) error {
	rows, err := db.New().AccountAddStoredWithinLimit(ctx, tx, db.AccountAddStoredWithinLimitParams{WorkspaceID: workspaceID, Bytes: bytes})
	if err != nil {
		return fmt.Errorf("count stored bytes: %w", err)
	}
	if rows == 0 {
		return b.StorageExhausted(ctx, tx, workspaceID)
	}
	return nil
}

// QueueStore counts the bytes that a run stores before it finishes. The statement locks the account.
func QueueStore(ctx context.Context, batch *postgres.Batch, workspaceID uuid.UUID, bytes int64) {
	_ = db.New().AccountAddStored(ctx, batch, db.AccountAddStoredParams{WorkspaceID: workspaceID, Bytes: bytes})
}

// appendCharge adds a charge. live is 1 if the account counts its subject as live, and 0 otherwise.
func appendCharge(p *db.AccountSettleManyParams, kind string, c Charge, live int32) {
	p.Kinds = append(p.Kinds, kind)
	p.WorkspaceIds = append(p.WorkspaceIds, c.WorkspaceID)
	p.Abouts = append(p.Abouts, c.ExecutionID)
	p.Amounts = append(p.Amounts, int64(c.Amount))
	p.Reserved = append(p.Reserved, int64(c.Reserved))
	p.Bytes = append(p.Bytes, c.Bytes)
	p.Live = append(p.Live, live)
}

func (b Books) queueSettle(batch *postgres.Batch, p db.AccountSettleManyParams) {
	p.At = b.at()
	_ = db.New().AccountSettleMany(context.Background(), batch, p) // it is only queued
}
