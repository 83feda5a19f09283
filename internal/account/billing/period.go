package billing

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/failpoint"
)

// account is the row of an account, with its rules.
type account struct{ db.CreditAccount }

// terms are the credits and the storage of a workspace: the terms of its plan, or custom terms.
type terms struct {
	monthly, usageLimit credit.Amount
	storage             int64 // bytes a month
}

func termsOf(row db.WorkspaceListTermsRow) terms {
	of := plan.Name(row.Plan).Terms()
	t := terms{of.Monthly, of.UsageLimit, of.Storage}
	if row.CustomCredits != nil {
		t.monthly = *row.CustomCredits
	}
	if row.CustomUsageLimit != nil {
		t.usageLimit = *row.CustomUsageLimit
	}
	if row.CustomStorage != nil {
		t.storage = *row.CustomStorage
	}
	return t
}

// month returns the start of the month of t, in UTC.
func month(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// week returns the start of the week of t, a Monday, in UTC.
func week(t time.Time) time.Time {
	t = t.UTC()
	since := (int(t.Weekday()) + 6) % 7
	return time.Date(t.Year(), t.Month(), t.Day()-since, 0, 0, 0, 0, time.UTC)
}

// quarter returns the target of a release: a quarter of the month's plan credits.
func (a *account) quarter() credit.Amount {
	whole := (a.Monthly + 3) / 4
	return min(whole, max(0, a.Monthly-a.PlanUsed))
}

// periodStart returns the day on which the account's current period started.
func (a *account) periodStart() time.Time {
	if a.Week.After(a.Month) {
		return a.Week
	}
	return a.Month
}

// period returns the name of the current period: the day on which it started.
func (a *account) period() string { return a.periodStart().Format(time.DateOnly) }

// nextRelease returns when the plan next releases credits: at the end of the period, or
// in the next month if this month's credits are used up. It is zero if the plan has none.
func (a *account) nextRelease() time.Time {
	switch {
	case a.Monthly == 0:
		return time.Time{}
	case a.PlanUsed < a.Monthly:
		return a.ValidUntil
	}
	return a.Month.AddDate(0, 1, 0)
}

// startPeriod moves the account into the period that contains day, under the current terms. In a
// new month, unspent plan credits expire and the counters are reset. In every period the pot is
// filled up to a quarter, but never beyond the rest of the month's credits.
func (a *account) startPeriod(day time.Time, t terms) (moves []posting) {
	if month(day).After(a.Month) {
		if a.Plan > 0 {
			moves = append(moves, posting{kind: kindExpiry, reference: a.Month.Format("2006-01"), plan: -a.Plan})
		}
		a.Plan, a.PlanUsed, a.AllowanceUsed, a.Stored = 0, 0, 0, 0
	}
	a.Month, a.Week = month(day), week(day)
	a.ValidUntil = a.Week.AddDate(0, 0, 7)
	if next := a.Month.AddDate(0, 1, 0); next.Before(a.ValidUntil) {
		a.ValidUntil = next
	}
	a.Monthly, a.UsageLimit, a.StorageLimit = t.monthly, t.usageLimit, t.storage
	a.Period, a.PlanUsedBefore = a.periodStart(), a.PlanUsed
	if missing := a.quarter() - a.Plan; missing > 0 {
		moves = append(moves, posting{kind: kindRelease, reference: a.period(), plan: missing})
		a.Plan += missing
	}
	return moves
}

// write posts the moves of an account and stores the account. If a move's reference is already
// posted, an earlier call made the move, so write undoes its effect on the pot.
func (a *account) write(ctx context.Context, tx pgx.Tx, moves []posting, at time.Time) error {
	for _, move := range moves {
		fresh, err := post(ctx, tx, a.WorkspaceID, move, at)
		if err != nil {
			return err
		}
		if !fresh {
			a.Plan = max(0, a.Plan-move.plan)
		}
	}
	failpoint.Reached(failpoint.InRelease)
	err := db.New().AccountRenew(ctx, tx, db.AccountRenewParams{
		WorkspaceID: a.WorkspaceID, Monthly: a.Monthly, UsageLimit: a.UsageLimit, Plan: a.Plan,
		PlanUsed: a.PlanUsed, AllowanceUsed: a.AllowanceUsed, Month: a.Month, Week: a.Week, ValidUntil: a.ValidUntil,
		Period: a.Period, PlanUsedBefore: a.PlanUsedBefore, Stored: a.Stored, StorageLimit: a.StorageLimit,
	})
	if err != nil {
		return fmt.Errorf("store account of %s: %w", a.WorkspaceID, err)
	}
	return nil
}

// renew starts the current period of each locked account whose last period is over.
func renew(ctx context.Context, tx pgx.Tx, accounts map[uuid.UUID]*account, at time.Time) error {
	var due []uuid.UUID
	for id, a := range accounts {
		if !a.ValidUntil.After(at) {
			due = append(due, id)
		}
	}
	if len(due) == 0 {
		return nil
	}
	slices.SortFunc(due, func(x, y uuid.UUID) int { return slices.Compare(x[:], y[:]) })
	// A separate statement sees rows that were committed while this transaction waited for the
	// lock.
	rows, err := db.New().WorkspaceListTerms(ctx, tx, due)
	if err != nil {
		return fmt.Errorf("read terms: %w", err)
	}
	of := make(map[uuid.UUID]terms, len(rows))
	for _, row := range rows {
		of[row.ID] = termsOf(row)
	}
	for _, id := range due {
		moves := accounts[id].startPeriod(at, of[id])
		if err := accounts[id].write(ctx, tx, moves, at); err != nil {
			return err
		}
	}
	return nil
}
