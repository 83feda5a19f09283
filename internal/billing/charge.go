// Package billing owns every write to the record of what was used.
//
// It never begins a transaction: a charge rides in the one that makes an
// execution final. The one invariant: one posting for each execution, whatever
// dies when; a second one violates the key and takes its transaction with it.
package billing

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/credit"
)

// Charge is what one execution used.
type Charge struct {
	WorkspaceID uuid.UUID
	ExecutionID uuid.UUID
	Amount      credit.Amount
}

// ChargeManyTx posts the usage of executions that become final in tx. An amount
// of zero is posted too: every final execution has exactly one posting.
func ChargeManyTx(ctx context.Context, tx pgx.Tx, charges []Charge) error {
	var p db.PostingInsertExecutionsParams
	for _, c := range charges {
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("make posting id: %w", err)
		}
		p.Ids = append(p.Ids, id)
		p.WorkspaceIds = append(p.WorkspaceIds, c.WorkspaceID)
		p.ExecutionIds = append(p.ExecutionIds, c.ExecutionID)
		p.Amounts = append(p.Amounts, int64(c.Amount))
	}
	if err := db.New().PostingInsertExecutions(ctx, tx, p); err != nil {
		return fmt.Errorf("post usage: %w", err)
	}
	return nil
}
