// Package billing keeps the credits of workspaces: their accounts, the ledger, the reservations
// for unfinished executions, the releases of plan credits, and the audit of all of it (decisions
// 7).
//
// It knows no prices and decides nothing about executions: reservations and charges are part of
// the transactions that accept and finish them. The one invariant: in every committed state, an
// account is the sum of its postings.
package billing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Books is the way to the accounts. Its zero value goes by the database's clock.
type Books struct {
	Now func() time.Time // for tests: the clock of periods; nil: PostgreSQL's
}

func (b Books) at() *time.Time {
	if b.Now == nil {
		return nil
	}
	return new(b.Now())
}

// Load is what a workspace has under way: accepted and not final.
type Load struct {
	Live   int
	Parked int // of them, those that wait for another of the workspace's to end
	// Waiting are those that pause, as upkeep last counted them.
	Waiting int
}

// LoadOf is the load of an account's counts.
func LoadOf(live, parked, waiting int32) Load {
	return Load{Live: int(live), Parked: int(parked), Waiting: int(waiting)}
}

// Active is what executes or is ready to.
func (l Load) Active() int { return max(0, l.Live-l.Parked-l.Waiting) }

// kind is what a posting is about. The words are stored.
type kind string

const (
	kindGrant   kind = "GRANT"
	kindRelease kind = "RELEASE"
	kindExpiry  kind = "EXPIRY"
)

// posting is a line of the ledger that moves credits into or out of a pot; that of
// a charge is made in SQL.
type posting struct {
	kind      kind
	reference string
	repeats   bool          // the same may happen again: a number makes the reference its own
	plan      credit.Amount // change of the pot, and so on
	paid      credit.Amount
	note      string
}

// post writes a posting and says whether it is new: one of this kind and reference
// may be there already, and then nothing may change.
func post(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, p posting, at time.Time) (bool, error) {
	params := db.PostingInsertParams{
		WorkspaceID: workspaceID, Kind: string(p.kind), Reference: p.reference,
		Plan: p.plan, Paid: p.paid, Granted: -p.paid, CreatedAt: at,
	}
	switch p.kind {
	case kindRelease:
		params.Released = -p.plan
	case kindExpiry:
		params.Expired = -p.plan
	case kindGrant:
	}
	if p.note != "" {
		params.Note = &p.note
	}
	for n := 2; ; n++ {
		written, err := db.New().PostingInsert(ctx, tx, params)
		if err != nil {
			return false, fmt.Errorf("post %s %s: %w", p.kind, p.reference, err)
		}
		if written == 1 || !p.repeats {
			return written == 1, nil
		}
		params.Reference = fmt.Sprintf("%s (%d)", p.reference, n)
	}
}

// lock takes the accounts of the workspaces in the order of their ids and renews
// those whose period is over. An account that is not there is an error.
func (b Books) lock(ctx context.Context, tx pgx.Tx, workspaceIDs ...uuid.UUID) (map[uuid.UUID]*account, time.Time, error) {
	rows, err := db.New().AccountLockMany(ctx, tx, db.AccountLockManyParams{At: b.at(), WorkspaceIds: workspaceIDs})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("lock accounts: %w", err)
	}
	var at time.Time
	accounts := make(map[uuid.UUID]*account, len(rows))
	for _, row := range rows {
		at = row.At
		accounts[row.CreditAccount.WorkspaceID] = &account{row.CreditAccount}
	}
	for _, id := range workspaceIDs {
		if accounts[id] == nil {
			return nil, at, fmt.Errorf("workspace %s: %w", id, errNoAccount)
		}
	}
	return accounts, at, renew(ctx, tx, accounts, at)
}

var errNoAccount = errors.New("it has no account")

// Renew releases what is due to the workspaces.
func (b Books) Renew(ctx context.Context, conn postgres.DB, workspaceIDs ...uuid.UUID) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, _, err := b.lock(ctx, tx, workspaceIDs...)
		return err
	})
}

// InPeriod calls do, again where periods of credits had to be renewed first.
func (b Books) InPeriod(ctx context.Context, conn postgres.DB, do func() error) error {
	for tries := 1; ; tries++ {
		err := do()
		over, ok := errors.AsType[*PeriodOver](err)
		if !ok || tries == 3 {
			return err
		}
		if err := b.Renew(ctx, conn, over.Workspaces...); err != nil {
			return fmt.Errorf("begin a period: %w", err)
		}
	}
}

// renewBatch is how many accounts are renewed in one transaction.
const renewBatch = 100

// RenewDue releases what is due to workspaces that nobody uses, until none is left
// or ctx ends, and counts them.
func (b Books) RenewDue(ctx context.Context, conn postgres.DB) (done int, err error) {
	for {
		due, err := db.New().AccountListDue(ctx, conn, db.AccountListDueParams{At: b.at(), MaxRows: renewBatch})
		if err != nil {
			return done, fmt.Errorf("list accounts whose period is over: %w", err)
		}
		if len(due) == 0 {
			return done, nil
		}
		if err := b.Renew(ctx, conn, due...); err != nil {
			return done, err
		}
		done += len(due)
	}
}
