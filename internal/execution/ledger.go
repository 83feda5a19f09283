package execution

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/billing"
	"github.com/weft-automation/weft/internal/postgres"
)

// Ledger is what executions are reserved and settled in, within the transaction
// that accepts or ends them. That of the service is billing.Books, whose methods
// say what is owed.
type Ledger interface {
	ReserveTx(ctx context.Context, tx pgx.Tx, wants []billing.Want) (map[uuid.UUID]billing.Load, error)
	DecideTx(ctx context.Context, tx pgx.Tx, wants []billing.Want) (refusals []error, loads map[uuid.UUID]billing.Load, err error)
	SettleTx(ctx context.Context, tx pgx.Tx, charges []billing.Charge) (map[uuid.UUID]billing.Load, error)
	Renew(ctx context.Context, conn postgres.DB, workspaceIDs ...uuid.UUID) error
	RenewDue(ctx context.Context, conn postgres.DB) (done int, err error)
}
