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

// largestAmount is the largest amount of a grant, and of a month's credits. The limit keeps sums
// of amounts far from the maximum of their type.
const largestAmount = 1_000_000_000 * credit.Scale

// Grant is an addition to the paid credits of a workspace. A negative amount is a
// deduction.
type Grant struct {
	WorkspaceID uuid.UUID
	Amount      credit.Amount
	Reference   string // unique in the workspace; 1 to 200 characters
	Note        string // at most 500 characters; may be empty
}

// check returns INVALID_INPUT for values that can't be posted, and for a reference with
// control characters, which would garble the output of the CLI.
func (g Grant) check() error {
	switch {
	case g.Amount == 0 || g.Amount > largestAmount || g.Amount < -largestAmount:
		return fault.New(fault.InvalidInput, "The amount must not be zero, and must be at most 1,000,000,000 credits.")
	case strings.TrimSpace(g.Reference) == "" || utf8.RuneCountInString(g.Reference) > 200 || utf8.RuneCountInString(g.Note) > 500:
		return fault.New(fault.InvalidInput, "The reference must have 1 to 200 characters, and the note at most 500.")
	case !utf8.ValidString(g.Reference) || !utf8.ValidString(g.Note) || strings.ContainsFunc(g.Reference, unicode.IsControl):
		return fault.New(fault.InvalidInput, "The reference must be one line of UTF-8 text, and the note must be UTF-8 text.")
	}
	return nil
}

// Grant adds paid credits and reports whether they are new: a repeated reference adds
// nothing. It returns CONFLICT if the reference was used with another amount, and
// INVALID_INPUT for an invalid amount, reference or note.
func (b Books) Grant(ctx context.Context, conn postgres.DB, g Grant) (granted bool, err error) {
	if err := g.check(); err != nil {
		return false, err
	}
	err = postgres.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
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
				return fault.New(fault.InvalidInput, "The workspace has only %s paid credits.", have)
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
			err = fault.New(fault.Conflict, "The reference %q was already used for a grant of %s credits.", g.Reference, before)
		}
		return err
	})
	err = postgres.Resolve(ctx, conn, err, func(ctx context.Context) error {
		_, err := db.New().PostingGetPaid(ctx, conn, db.PostingGetPaidParams{
			WorkspaceID: g.WorkspaceID, Kind: string(kindGrant), Reference: g.Reference,
		})
		return err
	})
	if err != nil {
		return false, fmt.Errorf("grant credits: %w", err)
	}
	return granted, nil
}
