package billing

import (
	"context"
	"fmt"
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
	New         bool  // for new work, which a suspended workspace is refused
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
// insufficient, its billing is stopped, or, for QueueCharge, it is suspended.
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

// The reasons with which the statements that accept work refuse a want.
const (
	refusedPeriod    = "period"
	refusedStopped   = "stopped"
	refusedSuspended = "suspended"
	refusedStorage   = "storage"
)

// Refusal returns the error for the reason with which the database refused a want: *PeriodOver if the
// period of the account is over, and otherwise an error for the caller.
func Refusal(ctx context.Context, conn postgres.DB, w Want, reason string) error {
	switch reason {
	case refusedPeriod:
		return &PeriodOver{[]uuid.UUID{w.WorkspaceID}}
	case refusedStopped:
		return stopped()
	case refusedSuspended:
		return errSuspended
	}
	row, err := db.New().AccountGet(ctx, conn, db.AccountGetParams{WorkspaceID: w.WorkspaceID})
	if err != nil {
		return fmt.Errorf("read account: %w", err)
	}
	a := account{row.CreditAccount}
	if reason == refusedStorage {
		return storageExhausted(a.StorageLimit, a.Month.AddDate(0, 1, 0))
	}
	return a.exhausted(w.Amount)
}

// ReserveTx admits a want: it reserves the credits, and counts the execution and the bytes. It returns
// INSUFFICIENT_CREDITS, UNAVAILABLE if the workspace's billing is stopped, FORBIDDEN for new work of a
// suspended workspace, or *PeriodOver. A want that costs nothing is refused only if the workspace is
// suspended or has used up its storage. The account stays locked until tx ends.
func (b Books) ReserveTx(ctx context.Context, tx pgx.Tx, w Want) error {
	reason, err := db.New().AccountReserve(ctx, tx, db.AccountReserveParams{
		At: b.at(), WorkspaceID: w.WorkspaceID, IsNew: w.New, Amount: int64(w.Amount), Count: w.count(), Bytes: w.Bytes,
	})
	if err != nil {
		return fmt.Errorf("reserve credits: %w", err)
	}
	if reason == "" {
		return nil
	}
	return Refusal(ctx, tx, w, reason)
}

// Budget is what an account covers for stages of a run.
type Budget struct {
	Available   credit.Amount // the last stage may exceed it
	StorageFull bool
	reason      string // why the account admits no stage that costs something; empty: it does
}

// LockBudget locks the account until tx ends, and returns what it covers. It returns *PeriodOver if the
// account's period is over.
func LockBudget(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID) (Budget, error) {
	row, err := db.New().AccountLockBudget(ctx, tx, workspaceID)
	if err != nil {
		return Budget{}, fmt.Errorf("lock the account: %w", err)
	}
	if row.Reason == refusedPeriod {
		return Budget{}, &PeriodOver{[]uuid.UUID{workspaceID}}
	}
	b := Budget{Available: credit.Amount(row.Available), StorageFull: row.StorageFull, reason: row.Reason}
	if b.reason != "" {
		b.Available = 0
	}
	return b, nil
}

// Refusal returns the error for a stage that the account does not cover.
func (b Budget) Refusal(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, amount credit.Amount) error {
	return Refusal(ctx, tx, Want{WorkspaceID: workspaceID, Amount: amount}, b.reason)
}
