package billing

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/storage"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Charge is what one execution cost, and what was reserved for it.
type Charge struct {
	WorkspaceID uuid.UUID
	ExecutionID uuid.UUID
	Amount      credit.Amount
	Reserved    credit.Amount
	Bytes       int64 // that it leaves stored
	Stage       bool  // its run pays, when that ends: it is counted out, and no more
}

// PeriodOver is why nothing was settled: the next release of one of the workspaces
// is due first. Renew them, in another transaction.
type PeriodOver struct{ Workspaces []uuid.UUID }

func (e *PeriodOver) Error() string {
	return fmt.Sprintf("the period of one of %d accounts is over", len(e.Workspaces))
}

// What a settlement is about; the first two are kinds of postings.
const (
	ofExecution = "EXECUTION"
	ofRun       = "RUN"
	ofStage     = "STAGE"
)

// SettleTx charges executions that become final in tx, posts the charges, those of
// nothing too, and gives back what was reserved. Every final execution that is no
// stage of a run has exactly one posting; a second one violates the key and takes tx
// with it. The accounts stay locked until tx ends: make it the last that tx does. It
// returns what each workspace then has under way.
func (b Books) SettleTx(ctx context.Context, tx pgx.Tx, charges []Charge) (map[uuid.UUID]Load, error) {
	var p db.AccountSettleManyParams
	for _, c := range charges {
		kind := ofExecution
		if c.Stage {
			kind, c.Amount, c.Reserved = ofStage, 0, 0
		}
		c.Bytes += storage.ExecutionBytes
		appendCharge(&p, kind, c)
	}
	return b.settle(ctx, tx, p)
}

// SettleRunTx charges a run that becomes final in tx for all of its stages, and gives
// back what it had reserved; ExecutionID of the charge is the run's. Otherwise it is as SettleTx.
func (b Books) SettleRunTx(ctx context.Context, tx pgx.Tx, c Charge) error {
	var p db.AccountSettleManyParams
	appendCharge(&p, ofRun, c)
	_, err := b.settle(ctx, tx, p)
	return err
}

// SaveTx counts bytes that a request stores. It returns INSUFFICIENT_CREDITS if the workspace
// may store no more in this month. It locks the account.
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

// StoreTx counts bytes that a run has stored before it ends. It locks the account.
func (b Books) StoreTx(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, bytes int64) error {
	return db.New().AccountAddStored(ctx, tx, db.AccountAddStoredParams{WorkspaceID: workspaceID, Bytes: bytes})
}

func appendCharge(p *db.AccountSettleManyParams, kind string, c Charge) {
	p.Kinds = append(p.Kinds, kind)
	p.WorkspaceIds = append(p.WorkspaceIds, c.WorkspaceID)
	p.Abouts = append(p.Abouts, c.ExecutionID)
	p.Amounts = append(p.Amounts, int64(c.Amount))
	p.Reserved = append(p.Reserved, int64(c.Reserved))
	p.Bytes = append(p.Bytes, c.Bytes)
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
