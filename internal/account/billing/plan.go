package billing

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Plan is a plan with the custom terms of a workspace. A nil field means the plan's value.
type Plan struct {
	WorkspaceID uuid.UUID
	Name        plan.Name
	RPS, RPH    *int32
	Waits       *int32         // concurrent inline waits
	Streams     *int32         // open streams
	Credits     *credit.Amount // a month
	UsageLimit  *credit.Amount
	Storage     *int64 // bytes that may be stored in a month
}

// SetPlan changes the plan of a workspace and the terms of its account. The plan
// credits become what they would be if the new plan had applied since the start of the
// period: the missing part of its quarter is released, or the excess expires. Used
// credits stay used, so switching back and forth moves nothing. It returns
// INVALID_INPUT for an invalid amount, rate or cap.
func (b Books) SetPlan(ctx context.Context, conn postgres.DB, p Plan) error {
	for _, own := range []*credit.Amount{p.Credits, p.UsageLimit} {
		if own != nil && (*own < 0 || *own > largestAmount) {
			return fault.New(fault.InvalidInput, "Plan credits and the usage limit must be between 0 and 1,000,000,000 credits.")
		}
	}
	// Executing a component counts as 2 requests. An hourly limit of 1 would admit none;
	// the limit per second always admits one (decisions 6).
	if p.RPS != nil && *p.RPS < 1 || p.RPH != nil && *p.RPH < 2 {
		return fault.New(fault.InvalidInput, "The rate limits must be at least 1 request per second and 2 requests per hour, because executing a component counts as 2.")
	}
	if p.Waits != nil && *p.Waits < 1 || p.Streams != nil && *p.Streams < 1 {
		return fault.New(fault.InvalidInput, "The limits for inline waits and for open streams must be at least 1.")
	}
	if p.Storage != nil && *p.Storage < 1 {
		return fault.New(fault.InvalidInput, "The storage limit must be at least 1 byte a month.")
	}
	err := postgres.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		accounts, at, err := b.lock(ctx, tx, p.WorkspaceID)
		if err != nil {
			return err
		}
		before, err := db.New().WorkspaceGet(ctx, tx, p.WorkspaceID)
		if err != nil {
			return err
		}
		_, err = db.New().WorkspaceSetPlan(ctx, tx, db.WorkspaceSetPlanParams{
			ID: p.WorkspaceID, Plan: string(p.Name), CustomRps: p.RPS, CustomRph: p.RPH,
			CustomWaits: p.Waits, CustomStreams: p.Streams, CustomCredits: p.Credits, CustomUsageLimit: p.UsageLimit, CustomStorage: p.Storage,
		})
		if err != nil {
			return err
		}
		a := accounts[p.WorkspaceID]
		if err := a.readUsed(ctx, tx); err != nil {
			return err
		}
		moves := a.change(p.Name, termsOf(db.WorkspaceListTermsRow{
			Plan: string(p.Name), CustomCredits: p.Credits, CustomUsageLimit: p.UsageLimit, CustomStorage: p.Storage,
		}))
		if err := a.write(ctx, tx, moves, at); err != nil {
			return err
		}
		details := p.details()
		details["before"] = Plan{
			Name: plan.Name(before.Plan), RPS: before.CustomRps, RPH: before.CustomRph,
			Waits: before.CustomWaits, Streams: before.CustomStreams, Credits: before.CustomCredits, UsageLimit: before.CustomUsageLimit, Storage: before.CustomStorage,
		}.details()
		return audit.RecordTx(ctx, tx, audit.Event{WorkspaceID: p.WorkspaceID, Action: "plan.changed", Details: details})
	})
	if err != nil {
		return fmt.Errorf("set the plan of %s: %w", p.WorkspaceID, err)
	}
	return nil
}

// details returns the plan for the audit log.
func (p Plan) details() map[string]any {
	all := map[string]any{"plan": p.Name}
	for name, own := range map[string]*int32{
		"requestsPerSecond": p.RPS, "requestsPerHour": p.RPH, "inlineWaits": p.Waits, "streams": p.Streams,
	} {
		if own != nil {
			all[name] = *own
		}
	}
	for name, own := range map[string]*credit.Amount{"monthlyCredits": p.Credits, "usageLimit": p.UsageLimit} {
		if own != nil {
			all[name] = *own
		}
	}
	if p.Storage != nil {
		all["storageBytes"] = *p.Storage
	}
	return all
}

// readUsed computes the usage before the current period from the postings, if the account
// doesn't store it.
func (a *account) readUsed(ctx context.Context, tx pgx.Tx) error {
	if a.Period.Equal(a.periodStart()) {
		return nil
	}
	used, err := db.New().PostingSumPlanUsed(ctx, tx, db.PostingSumPlanUsedParams{WorkspaceID: a.WorkspaceID, Since: a.periodStart()})
	if err != nil {
		return fmt.Errorf("sum the plan credits used since %s: %w", a.period(), err)
	}
	a.Period, a.PlanUsedBefore = a.periodStart(), max(0, a.PlanUsed-credit.Amount(used))
	return nil
}

// change applies other terms within a period and returns the postings.
func (a *account) change(name plan.Name, t terms) []posting {
	a.Monthly, a.UsageLimit, a.StorageLimit = t.monthly, t.usageLimit, t.storage
	whole, used := (a.Monthly+3)/4, a.PlanUsed-a.PlanUsedBefore
	pot := max(0, min(whole-used, a.Monthly-a.PlanUsed))
	move := posting{kind: kindRelease, reference: a.period() + " " + string(name), repeats: true, plan: pot - a.Plan}
	switch a.Plan = pot; {
	case move.plan == 0:
		return nil
	case move.plan < 0:
		move.kind = kindExpiry
	}
	return []posting{move}
}
