package billing

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/credit"
	"github.com/weft-automation/weft/internal/postgres"
)

// Charge is what one execution cost, and what was reserved for it.
type Charge struct {
	WorkspaceID uuid.UUID
	ExecutionID uuid.UUID
	Amount      credit.Amount
	Reserved    credit.Amount
}

// PeriodOver is why nothing was settled: the next release of one of the workspaces
// is due first. Renew them, in another transaction.
type PeriodOver struct{ Workspaces []uuid.UUID }

func (e *PeriodOver) Error() string {
	return fmt.Sprintf("the period of one of %d accounts is over", len(e.Workspaces))
}

// SettleTx charges executions that become final in tx, posts the charges, those of
// nothing too, and gives back what was reserved. Every final execution has exactly
// one posting; a second one violates the key and takes tx with it. The accounts
// stay locked until tx ends: make it the last that tx does. It returns what each
// workspace then has under way.
func (b Books) SettleTx(ctx context.Context, tx pgx.Tx, charges []Charge) (map[uuid.UUID]Load, error) {
	p := db.AccountSettleManyParams{At: b.at()}
	for _, c := range charges {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("make posting id: %w", err)
		}
		p.Ids = append(p.Ids, id)
		p.WorkspaceIds = append(p.WorkspaceIds, c.WorkspaceID)
		p.ExecutionIds = append(p.ExecutionIds, c.ExecutionID)
		p.Amounts = append(p.Amounts, int64(c.Amount))
		p.Reserved = append(p.Reserved, int64(c.Reserved))
	}
	workspaces := slices.Clone(p.WorkspaceIds)
	slices.SortFunc(workspaces, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	workspaces = slices.Compact(workspaces)
	p.Workspaces = int64(len(workspaces))
	rows, err := db.New().AccountSettleMany(ctx, tx, p)
	if postgres.Raised(err, "WF002") {
		return nil, &PeriodOver{workspaces}
	}
	if err != nil {
		return nil, fmt.Errorf("settle executions: %w", err)
	}
	loads := make(map[uuid.UUID]Load, len(rows))
	for _, row := range rows {
		loads[row.WorkspaceID] = LoadOf(row.Live, row.Parked, row.Waiting)
	}
	return loads, nil
}
