package billing

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Want is a request to admit an execution at its price. For a stage, the amount is
// what the run has to reserve in addition to its present reservation.
type Want struct {
	WorkspaceID uuid.UUID
	Amount      credit.Amount
	Run         bool  // the reservation of a run, which doesn't count as an execution
	Bytes       int64 // stored with the acceptance
}

// count returns the number of executions that the want adds.
func (w Want) count() int32 {
	if w.Run {
		return 0
	}
	return 1
}

// QueueReserveForRun reserves the prices of stages of one run that are not executions, in addition
// to what the run has reserved. The statement fails with an error for which Uncovered reports true
// unless the account covers all of the stages.
func QueueReserveForRun(ctx context.Context, batch *postgres.Batch, workspaceID uuid.UUID, prices []credit.Amount) {
	var p db.AccountReserveForRunParams
	for _, price := range prices {
		p.Needed = int64(p.Amount)
		p.Amount += price
	}
	p.WorkspaceID = workspaceID
	_ = db.New().AccountReserveForRun(ctx, batch, p)
}

// Uncovered reports whether err means that the accounts may not cover a reservation for a run, or
// the charges of QueueCharge: a workspace's period is over, its credits or its storage are
// insufficient, or its billing is stopped.
func Uncovered(err error) bool { return postgres.Raised(err, "WF001") }

// ReasonExhausted is the reason of a 402 for insufficient credits.
const ReasonExhausted = "credits_exhausted"

// exhausted returns the error for an execution that the workspace can't pay.
func (a *account) exhausted(price credit.Amount) error {
	extra := map[string]any{"price": price, "availableCredits": max(0, a.Plan+a.Paid-a.Reserved), "reservedCredits": a.Reserved}
	if at := a.nextRelease(); !at.IsZero() {
		extra["nextReleaseAt"] = at
	}
	unit := "credits"
	if price == credit.Credits(1) {
		unit = "credit"
	}
	return &fault.Error{
		Code: fault.InsufficientCredits, Reason: ReasonExhausted, Extra: extra,
		Message: fmt.Sprintf("This costs %s %s, and the workspace has none left. Plan and paid credits are used up or reserved, and the plan allows no further usage this month.", price, unit),
	}
}

// ReasonStorage is the reason of a 402 for a workspace that has used up its storage for the month.
const ReasonStorage = "storage_exhausted"

// StorageExhausted returns the error for a workspace that has used up its storage for the month.
func (b Books) StorageExhausted(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID) error {
	row, err := db.New().AccountGet(ctx, conn, db.AccountGetParams{WorkspaceID: workspaceID, At: b.at()})
	if err != nil {
		return fmt.Errorf("read account: %w", err)
	}
	return storageExhausted(row.CreditAccount.StorageLimit, row.CreditAccount.Month.AddDate(0, 1, 0))
}

func storageExhausted(limit int64, resetAt time.Time) error {
	return &fault.Error{
		Code: fault.InsufficientCredits, Reason: ReasonStorage, Extra: map[string]any{"storageLimit": limit, "nextResetAt": timestamp.Of(resetAt)},
		Message: fmt.Sprintf("The workspace has stored the %d bytes that its plan allows in a month. Wait for the next month, or change the plan.", limit),
	}
}

// ReasonMaxCredits is the reason of a 402 for a price above the caller's maxCredits.
const ReasonMaxCredits = "max_credits"

// Within returns INSUFFICIENT_CREDITS if the price exceeds the caller's maximum. A nil maximum
// allows any price. subject starts the message: "HASH costs".
func Within(subject string, price credit.Amount, most *credit.Amount) error {
	if most == nil || price <= *most {
		return nil
	}
	return &fault.Error{
		Code: fault.InsufficientCredits, Reason: ReasonMaxCredits,
		Message: fmt.Sprintf("%s %s credits, and maxCredits allows %s.", subject, price, *most),
	}
}

// refusal returns why the account does not admit a want, or nil.
func (a *account) refusal(w Want) error {
	switch {
	case w.Amount > 0 && a.Stopped:
		return stopped()
	case w.Amount > 0 && a.left() <= 0:
		return a.exhausted(w.Amount)
	case a.full():
		return storageExhausted(a.StorageLimit, a.Month.AddDate(0, 1, 0))
	}
	return nil
}

// Refusals returns why wants were not admitted: for each an error for the caller, or *PeriodOver if
// the period of its account is over or the account has changed and would admit the want.
func Refusals(ctx context.Context, conn postgres.DB, wants []Want) ([]error, error) {
	refusals := make([]error, len(wants))
	accounts := map[uuid.UUID]db.AccountGetRow{}
	for i, w := range wants {
		row, known := accounts[w.WorkspaceID]
		if !known {
			var err error
			if row, err = db.New().AccountGet(ctx, conn, db.AccountGetParams{WorkspaceID: w.WorkspaceID}); err != nil {
				return nil, fmt.Errorf("read account: %w", err)
			}
			accounts[w.WorkspaceID] = row
		}
		if row.CreditAccount.ValidUntil.After(row.At) {
			refusals[i] = (&account{row.CreditAccount}).refusal(w)
		}
		if refusals[i] == nil {
			refusals[i] = &PeriodOver{[]uuid.UUID{w.WorkspaceID}}
		}
	}
	return refusals, nil
}

// DecideTx locks the accounts, releases what is due, and admits the wants in order.
// refusals holds an error for each refused want, and nil for each admitted one. A
// want that costs nothing is refused only if the workspace has used up its storage.
func (b Books) DecideTx(ctx context.Context, tx pgx.Tx, wants []Want) (refusals []error, err error) {
	asked := make(map[uuid.UUID]*db.AccountReserveParams)
	for _, w := range wants {
		asked[w.WorkspaceID] = &db.AccountReserveParams{WorkspaceID: w.WorkspaceID}
	}
	accounts, _, err := b.lock(ctx, tx, slices.Collect(maps.Keys(asked))...)
	if err != nil {
		return nil, err
	}
	refusals = make([]error, len(wants))
	for i, w := range wants {
		a := accounts[w.WorkspaceID]
		if refusals[i] = a.refusal(w); refusals[i] != nil {
			continue
		}
		a.Reserved += w.Amount
		a.Live += w.count()
		a.Stored += w.Bytes
		asked[w.WorkspaceID].Amount += w.Amount
		asked[w.WorkspaceID].Count += w.count()
		asked[w.WorkspaceID].Bytes += w.Bytes
	}
	for _, p := range asked {
		if p.Count == 0 && p.Amount == 0 && p.Bytes == 0 {
			continue
		}
		if err := db.New().AccountReserve(ctx, tx, *p); err != nil {
			return nil, fmt.Errorf("reserve credits: %w", err)
		}
	}
	return refusals, nil
}
