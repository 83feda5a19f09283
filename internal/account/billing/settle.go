package billing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

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

// PeriodOver means that nothing was settled, because the period of a workspace is
// over. Renew the workspaces in another transaction, then settle again.
type PeriodOver struct{ Workspaces []uuid.UUID }

func (e *PeriodOver) Error() string {
	return fmt.Sprintf("at least one of %d accounts must be renewed first", len(e.Workspaces))
}

// The subjects of a settlement; the first two are also kinds of postings.
const (
	ofExecution = "EXECUTION"
	ofRun       = "RUN"
	ofStage     = "STAGE"
)

// ChargeTx charges executions that are stored in their final state in tx, so that nothing was
// reserved for them. It returns ErrUncovered if a workspace's period is over, its billing is
// stopped, or its credits or its storage are insufficient for all of its charges. Otherwise it is
// like SettleTx.
func (b Books) ChargeTx(ctx context.Context, tx pgx.Tx, charges []Charge) error {
	p := db.AccountSettleManyParams{Unreserved: true}
	for _, c := range charges {
		c.Bytes += storage.ExecutionBytes
		appendCharge(&p, ofExecution, c, 0)
	}
	_, err := b.settle(ctx, tx, p)
	if _, over := errors.AsType[*PeriodOver](err); over {
		return ErrUncovered
	}
	return err
}

// SettleTx charges executions that become final in tx, posts the charges (zero
// amounts included), and releases the reservations. It returns the load of each
// workspace, or *PeriodOver. Every final execution that isn't a stage of a run has
// exactly one posting: a second one violates the key, and tx fails. The accounts stay
// locked until tx ends, so make this the last statement of tx.
func (b Books) SettleTx(ctx context.Context, tx pgx.Tx, charges []Charge) (map[uuid.UUID]Load, error) {
	var p db.AccountSettleManyParams
	for _, c := range charges {
		kind := ofExecution
		if c.Stage {
			kind, c.Amount, c.Reserved = ofStage, 0, 0
		}
		c.Bytes += storage.ExecutionBytes
		appendCharge(&p, kind, c, 1)
	}
	return b.settle(ctx, tx, p)
}

// SettleRunTx charges a run that becomes final in tx for all of its stages, and releases
// its reservation. The charge's ExecutionID is the ID of the run. Errors are as in SettleTx.
func (b Books) SettleRunTx(ctx context.Context, tx pgx.Tx, c Charge) error {
	var p db.AccountSettleManyParams
	appendCharge(&p, ofRun, c, 0)
	_, err := b.settle(ctx, tx, p)
	return err
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

// StoreTx counts the bytes that a run stores before it finishes. It locks the account.
func (b Books) StoreTx(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, bytes int64) error {
	return db.New().AccountAddStored(ctx, tx, db.AccountAddStoredParams{WorkspaceID: workspaceID, Bytes: bytes})
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

func (b Books) settle(ctx context.Context, tx pgx.Tx, p db.AccountSettleManyParams) (map[uuid.UUID]Load, error) {
	workspaces := slices.Clone(p.WorkspaceIds)
	slices.SortFunc(workspaces, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	workspaces = slices.Compact(workspaces)
	p.At, p.Workspaces = b.at(), int64(len(workspaces))
	rows, err := db.New().AccountSettleMany(ctx, tx, p)
	if postgres.Raised(err, "WF002") {
		return nil, &PeriodOver{workspaces}
	}
	if err != nil {
		return nil, fmt.Errorf("settle accounts: %w", err)
	}
	loads := make(map[uuid.UUID]Load, len(rows))
	for _, row := range rows {
		loads[row.WorkspaceID] = LoadOf(row.Live, row.Parked, row.Waiting)
	}
	return loads, nil
}
