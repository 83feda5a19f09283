// Package billing keeps the credits of workspaces: the accounts, the ledger, the reservations
// for unfinished executions, the releases of plan credits, and audits of all of these (decisions
// 7).
//
// The package doesn't set prices or decide about executions. Reservations and charges are part
// of the transactions that accept and finish executions. In every committed state, the balance
// of an account is the sum of its postings.
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
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/permit"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Books reads and writes the accounts. The zero value uses the database's clock.
type Books struct {
	Now   func() time.Time // the clock for periods in tests; nil means PostgreSQL's clock
	Turns *permit.Turns    // for InPeriod, of its connection; nil: no limit, or the caller has a permit
}

func (b Books) at() *time.Time {
	if b.Now == nil {
		return nil
	}
	return new(b.Now())
}

// kind is the type of a posting. The values are stored.
type kind string

const (
	kindGrant   kind = "GRANT"
	kindRelease kind = "RELEASE"
	kindExpiry  kind = "EXPIRY"
)

// posting is a ledger entry that moves credits into or out of a pot. Charges are
// posted in SQL instead.
type posting struct {
	kind      kind
	reference string
	repeats   bool          // the reference may occur again: post appends a number to make it unique
	plan      credit.Amount // change of the pot of plan credits
	paid      credit.Amount
	note      string
}

// post writes a posting and reports whether it is new. If a posting of this kind and
// reference exists, post changes nothing, unless p.repeats is set.
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

// lock locks the accounts of the workspaces in the order of their IDs and renews
// those whose period is over. It returns errNoAccount if an account doesn't exist.
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

var errNoAccount = errors.New("the workspace has no account")

// Renew releases the plan credits that are due to the workspaces.
func (b Books) Renew(ctx context.Context, conn postgres.DB, workspaceIDs ...uuid.UUID) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, _, err := b.lock(ctx, tx, workspaceIDs...)
		return err
	})
}

// InPeriod calls fn. If fn returns *PeriodOver, InPeriod renews the accounts and calls fn again, at
// most three times in total. After that it returns UNAVAILABLE.
func (b Books) InPeriod(ctx context.Context, conn postgres.DB, fn func() error) error {
	for tries := 1; ; tries++ {
		err := fn()
		over, ok := errors.AsType[*PeriodOver](err)
		if !ok {
			return err
		}
		if tries == 3 {
			return &fault.Error{
				Code: fault.Unavailable, Message: "The credits of the workspace are being renewed. Try again in a second.", RetryAfter: time.Second, Err: err,
			}
		}
		for _, id := range over.Workspaces {
			if err := b.Turns.Do(ctx, id, func() error { return b.Renew(ctx, conn, id) }); err != nil {
				return fmt.Errorf("start a period: %w", err)
			}
		}
	}
}

// renewBatch is the number of accounts that are renewed in one transaction.
const renewBatch = 100

// RenewDue renews all accounts whose period is over, including those of idle
// workspaces. It stops when ctx is done, and returns the number of renewed accounts.
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
