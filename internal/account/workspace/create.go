// Package workspace creates workspaces and stores their terms.
//
// Membership belongs to package person, and credits to package billing. A workspace is created
// together with its account.
package workspace

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
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// CreateParams describes a new workspace. Paid are its initial paid credits.
type CreateParams struct {
	ID   uuid.UUID // zero generates one
	Name string    // unique in the deployment
	Plan plan.Name
	Paid credit.Amount
}

// check returns INVALID_INPUT for an empty or long name, and for one with control characters.
func (p CreateParams) check() error {
	if strings.TrimSpace(p.Name) == "" || utf8.RuneCountInString(p.Name) > 200 || !utf8.ValidString(p.Name) || strings.ContainsFunc(p.Name, unicode.IsControl) {
		return fault.New(fault.InvalidInput, "The name of a workspace must be one line of 1 to 200 characters in UTF-8.")
	}
	return nil
}

// Create creates a workspace with its account and returns its ID. It returns INVALID_INPUT for an
// invalid name, and the database's error if the name is taken.
func Create(ctx context.Context, conn postgres.DB, p CreateParams) (uuid.UUID, error) {
	if err := p.check(); err != nil {
		return uuid.Nil, err
	}
	if p.ID == uuid.Nil {
		id, err := uuid7.New()
		if err != nil {
			return uuid.Nil, fmt.Errorf("generate workspace ID: %w", err)
		}
		p.ID = id
	}
	terms := p.Plan.Terms()
	err := postgres.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		err := db.New().WorkspaceInsert(ctx, tx, db.WorkspaceInsertParams{
			ID: p.ID, Name: p.Name, Plan: string(p.Plan),
			Monthly: terms.Monthly, UsageLimit: terms.UsageLimit, Paid: p.Paid,
		})
		if err != nil || p.Paid == 0 {
			return err
		}
		return audit.RecordTx(ctx, tx, audit.Event{
			WorkspaceID: p.ID, Action: "credits.granted", Details: map[string]any{"amount": p.Paid, "reference": "opening"},
		})
	})
	if err != nil {
		return uuid.Nil, fmt.Errorf("insert workspace: %w", err)
	}
	return p.ID, nil
}
