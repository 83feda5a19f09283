package billing

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// largestAmount is the most that is granted at once, or agreed for a month. It keeps
// sums of amounts far from the end of their range.
const largestAmount = 1_000_000_000 * credit.Scale

// Grant is an addition to the paid credits of a workspace. A negative amount takes
// back.
type Grant struct {
	WorkspaceID uuid.UUID
	Amount      credit.Amount
	Reference   string // once for each workspace; 1 to 200 characters
	Note        string // at most 500 characters; may be empty
}

// check refuses what no posting holds, and a reference that lines would not show as
// it is.
func (g Grant) check() error {
	switch {
	case g.Amount == 0 || g.Amount > largestAmount || g.Amount < -largestAmount:
		return fault.New(fault.InvalidInput, "An amount is not zero, and at most 1,000,000,000 credits.")
	case strings.TrimSpace(g.Reference) == "" || utf8.RuneCountInString(g.Reference) > 200 || utf8.RuneCountInString(g.Note) > 500:
		return fault.New(fault.InvalidInput, "A reference has 1 to 200 characters, a note at most 500.")
	case !utf8.ValidString(g.Reference) || !utf8.ValidString(g.Note) || strings.ContainsFunc(g.Reference, unicode.IsControl):
		return fault.New(fault.InvalidInput, "A reference is one line of text in UTF-8, and a note is text in UTF-8.")
	}
	return nil
}

// Grant gives paid credits and says whether they are new: the same reference gives
// once. Errors: CONFLICT when the reference gave another amount, INVALID_INPUT for
// an amount, a reference or a note that is not possible.
func (b Books) Grant(ctx context.Context, conn postgres.DB, g Grant) (granted bool, err error) {
	if err := g.check(); err != nil {
		return false, err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		accounts, at, err := b.lock(ctx, tx, g.WorkspaceID)
		if err != nil {
			return err
		}
		granted, err = post(ctx, tx, g.WorkspaceID, posting{kind: kindGrant, reference: g.Reference, paid: g.Amount, note: g.Note}, at)
		if err != nil {
			return err
		}
		if granted {
			if have := accounts[g.WorkspaceID].Paid; have+g.Amount < 0 {
				return fault.New(fault.InvalidInput, "The workspace has %s paid credits only.", have)
			}
			err := db.New().AccountGrant(ctx, tx, db.AccountGrantParams{WorkspaceID: g.WorkspaceID, Amount: g.Amount})
			if err != nil {
				return err
			}
			action := "credits.granted"
			if g.Amount < 0 {
				action = "credits.taken_back"
			}
			return audit.RecordTx(ctx, tx, audit.Event{
				WorkspaceID: g.WorkspaceID, Action: action, Details: map[string]any{"amount": g.Amount, "reference": g.Reference},
			})
		}
		before, err := db.New().PostingGetPaid(ctx, tx, db.PostingGetPaidParams{
			WorkspaceID: g.WorkspaceID, Kind: string(kindGrant), Reference: g.Reference,
		})
		if err == nil && before != g.Amount {
			err = fault.New(fault.Conflict, "The reference %q gave %s credits before.", g.Reference, before)
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("grant credits: %w", err)
	}
	return granted, nil
}
