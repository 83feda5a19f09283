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

// Plan is what a workspace is put on. Nil is what the plan gives.
type Plan struct {
	WorkspaceID uuid.UUID
	Name        plan.Name
	RPS, RPH    *int32
	Waits       *int32         // calls that wait inline at once
	Streams     *int32         // open at once
	Credits     *credit.Amount // a month
	UsageLimit  *credit.Amount
	Storage     *int64 // bytes that may be stored in a month
}

// SetPlan changes the plan of a workspace and its account's terms with it. From
// then on there is at once what there would be if the plan had held since the period
// began: the rest of its quarter is released, or what is above it expires. What was
// used stays used, so going to and fro moves nothing. Error: INVALID_INPUT for an
// amount, a rate or a cap that is not possible.
func (b Books) SetPlan(ctx context.Context, conn postgres.DB, p Plan) error {
	for _, own := range []*credit.Amount{p.Credits, p.UsageLimit} {
		if own != nil && (*own < 0 || *own > largestAmount) {
			return fault.New(fault.InvalidInput, "Plan credits and a usage limit are at least 0, and at most 1,000,000,000 credits.")
		}
	}
	// An hour that does not hold the 2 of a submit would let none in; a second always
	// holds them (decisions 6).
	if p.RPS != nil && *p.RPS < 1 || p.RPH != nil && *p.RPH < 2 {
		return fault.New(fault.InvalidInput, "A limit is at least 1 request a second, and 2 an hour: executing a component counts as 2.")
	}
	if p.Waits != nil && *p.Waits < 1 || p.Streams != nil && *p.Streams < 1 {
		return fault.New(fault.InvalidInput, "At least 1 call that waits inline and 1 stream may be open at a time.")
	}
	if p.Storage != nil && *p.Storage < 1 {
		return fault.New(fault.InvalidInput, "A storage limit is at least 1 byte a month.")
	}
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
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

// details are what the audit log says of the plan.
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

// readUsed asks the postings what was used before the present period, where the
// account does not say.
func (a *account) readUsed(ctx context.Context, tx pgx.Tx) error {
	if a.Period.Equal(a.began()) {
		return nil
	}
	used, err := db.New().PostingSumPlanUsed(ctx, tx, db.PostingSumPlanUsedParams{WorkspaceID: a.WorkspaceID, Since: a.began()})
	if err != nil {
		return fmt.Errorf("sum what was used since %s: %w", a.period(), err)
	}
	a.Period, a.PlanUsedBefore = a.began(), max(0, a.PlanUsed-credit.Amount(used))
	return nil
}

// change sets other terms within a period.
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
