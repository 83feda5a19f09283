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
	var p db.UsagePostManyParams
	for _, c := range charges {
		p.WorkspaceIds = append(p.WorkspaceIds, c.WorkspaceID)
		p.ReferenceIds = append(p.ReferenceIds, c.ExecutionID)
		p.Amounts = append(p.Amounts, int64(c.Amount))
	}
	if err := db.New().UsagePostMany(ctx, tx, p); err != nil {
		return fmt.Errorf("post usage: %w", err)
	}
	return nil
}
