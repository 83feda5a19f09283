package billing

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/audit"
	"github.com/weft-automation/weft/internal/credit"
	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/plan"
	"github.com/weft-automation/weft/internal/postgres"
)

// Plan is what a workspace is put on. Nil is what the plan gives.
type Plan struct {
	WorkspaceID uuid.UUID
	Name        plan.Name
	RPS, RPH    *int32
	Credits     *credit.Amount // a month
	UsageLimit  *credit.Amount
}

// SetPlan changes the plan of a workspace and its account's terms with it. More
// plan credits are there at once, up to the present quarter; with fewer, what is
// above the new quarter expires. Setting the same again moves nothing. Error:
// INVALID_INPUT for an amount that is not possible.
func (b Books) SetPlan(ctx context.Context, conn postgres.DB, p Plan) error {
	for _, own := range []*credit.Amount{p.Credits, p.UsageLimit} {
		if own != nil && (*own < 0 || *own > largestAmount) {
			return fault.New(fault.InvalidInput, "Plan credits and a usage limit are at least 0, and at most 1,000,000,000 credits.")
		}
	}
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		accounts, at, err := b.lock(ctx, tx, p.WorkspaceID)
		if err != nil {
			return err
		}
		_, err = db.New().WorkspaceSetPlan(ctx, tx, db.WorkspaceSetPlanParams{
			ID: p.WorkspaceID, Plan: string(p.Name), CustomRps: p.RPS, CustomRph: p.RPH,
			CustomCredits: p.Credits, CustomUsageLimit: p.UsageLimit,
		})
		if err != nil {
			return err
		}
		a := accounts[p.WorkspaceID]
		moves := a.change(p.Name, termsOf(db.WorkspaceListTermsRow{
			Plan: string(p.Name), CustomCredits: p.Credits, CustomUsageLimit: p.UsageLimit,
		}))
		if err := a.write(ctx, tx, moves, at); err != nil {
			return err
		}
		return audit.RecordTx(ctx, tx, audit.Event{WorkspaceID: p.WorkspaceID, Action: "plan.changed", Details: p.details()})
	})
	if err != nil {
		return fmt.Errorf("set the plan of %s: %w", p.WorkspaceID, err)
	}
	return nil
}

// details are what the audit log says of the plan.
func (p Plan) details() map[string]any {
	all := map[string]any{"plan": p.Name}
	for name, own := range map[string]*int32{"requestsPerSecond": p.RPS, "requestsPerHour": p.RPH} {
		if own != nil {
			all[name] = *own
		}
	}
	for name, own := range map[string]*credit.Amount{"monthlyCredits": p.Credits, "usageLimit": p.UsageLimit} {
		if own != nil {
			all[name] = *own
		}
	}
	return all
}

// change sets other terms within a period. The reference of a release names period
// and terms, so that going to and fro gives once; what is above the new quarter is
// taken back every time.
func (a *account) change(name plan.Name, t terms) []posting {
	before := a.Monthly
	a.Monthly, a.UsageLimit = t.monthly, t.usageLimit
	reference := fmt.Sprintf("%s %s %s", a.period(), name, t.monthly)
	difference := a.quarter() - a.Plan
	switch {
	case t.monthly > before && difference > 0:
		a.Plan += difference
		return []posting{{kind: kindRelease, reference: reference, plan: difference}}
	case t.monthly < before && difference < 0:
		a.Plan += difference
		return []posting{{kind: kindExpiry, reference: reference, repeats: true, plan: difference}}
	}
	return nil
}
