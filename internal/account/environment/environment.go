// Package environment stores the environment variables of a workspace, which its workflows refer
// to by name.
//
// The syntax of references belongs to internal/kit/envref. A run copies the variables that it
// refers to, sealed, when it starts. The one invariant: a value leaves the database sealed only,
// and a secret value is never shown.
package environment

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
)

const (
	maxVariables = 200     // of a workspace
	maxValue     = 8 << 10 // bytes
)

// Service keeps variables.
type Service struct {
	db      postgres.DB
	keyring *seal.Keyring
}

// NewService makes a Service over db, which sees the workspace that asks.
func NewService(db postgres.DB, keyring *seal.Keyring) *Service {
	return &Service{db: db, keyring: keyring}
}

// SealedAt names where the sealed value of a variable belongs.
func SealedAt(workspaceID, id uuid.UUID) seal.AAD {
	return seal.AAD{WorkspaceID: workspaceID, Table: "environment_variables", Row: id.String(), Field: "sealed"}
}

// List is one page of the variables, newest first. INVALID_INPUT for a cursor that no
// page gave out.
func (s *Service) List(ctx context.Context, workspaceID uuid.UUID, limit int, after string) (api.EnvironmentVariablePage, error) {
	page := api.EnvironmentVariablePage{Data: []api.EnvironmentVariable{}}
	before, err := cursor.Before(after)
	if err != nil {
		return page, err
	}
	rows, err := db.New().VariableList(ctx, s.db, db.VariableListParams{WorkspaceID: workspaceID, Before: before, MaxRows: int32(limit) + 1})
	if err != nil {
		return page, fmt.Errorf("list environment variables: %w", err)
	}
	if len(rows) > limit {
		rows = rows[:limit]
		page.HasMore, page.NextCursor = true, cursor.Encode(rows[limit-1].ID[:])
	}
	for _, row := range rows {
		shown, err := s.record(workspaceID, db.VariableGetRow(row))
		if err != nil {
			return page, err
		}
		page.Data = append(page.Data, shown)
	}
	return page, nil
}

// SetParams says what a variable is to be. nil leaves it as it is: a new one is not
// secret, and has no description.
type SetParams struct {
	WorkspaceID uuid.UUID
	Name        string // as the contract has it
	Value       string
	Secret      *bool
	Description *string
}

// Set gives a variable its value, and makes it if there is none. INVALID_INPUT for a value
// that is too long, CONFLICT for more variables than a workspace has.
func (s *Service) Set(ctx context.Context, p SetParams) (set api.EnvironmentVariable, err error) {
	if len(p.Value) > maxValue {
		return set, fault.InvalidAt("/value", "must have at most 8 KiB, got %d bytes", len(p.Value))
	}
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		row, what, err := s.setTx(ctx, tx, p)
		if err != nil {
			return err
		}
		if set, err = s.record(p.WorkspaceID, row); err != nil {
			return err
		}
		return tell(ctx, tx, p.WorkspaceID, row, what)
	})
	return set, err
}

func (s *Service) setTx(ctx context.Context, tx pgx.Tx, p SetParams) (row db.VariableGetRow, what string, err error) {
	q := db.New()
	if err := lockTx(ctx, tx, p.WorkspaceID); err != nil {
		return row, "", err
	}
	row, err = q.VariableGet(ctx, tx, db.VariableGetParams{WorkspaceID: p.WorkspaceID, Name: p.Name})
	isNew := postgres.NotFound(err)
	if err != nil && !isNew {
		return row, "", fmt.Errorf("read environment variable: %w", err)
	}
	if isNew {
		if row, err = s.newTx(ctx, tx, p); err != nil {
			return row, "", err
		}
	}
	if !isNew {
		// A value that cannot be read counts as another one.
		if value, err := s.open(p.WorkspaceID, row.ID, row.Sealed); err != nil || value != p.Value {
			if err := recordTx(ctx, tx, p.WorkspaceID, p.Name); err != nil {
				return row, "", err
			}
		}
	}
	if p.Secret != nil {
		row.Secret = *p.Secret
	}
	if p.Description != nil {
		row.Description = *p.Description
	}
	if row.Sealed, err = s.keyring.Seal([]byte(p.Value), SealedAt(p.WorkspaceID, row.ID)); err != nil {
		return row, "", fmt.Errorf("seal environment variable: %w", err)
	}
	if isNew {
		made, err := q.VariableInsert(ctx, tx, db.VariableInsertParams{
			WorkspaceID: p.WorkspaceID, ID: row.ID, Name: row.Name, Description: row.Description, Secret: row.Secret, Sealed: row.Sealed,
		})
		if err != nil {
			return row, "", fmt.Errorf("insert environment variable: %w", err)
		}
		row.CreatedAt, row.UpdatedAt = made.CreatedAt, made.UpdatedAt
		return row, "created", nil
	}
	kept, err := q.VariableUpdate(ctx, tx, db.VariableUpdateParams{
		WorkspaceID: p.WorkspaceID, ID: row.ID, Description: row.Description, Secret: row.Secret, Sealed: row.Sealed,
	})
	if err != nil {
		return row, "", fmt.Errorf("update environment variable: %w", err)
	}
	row.UpdatedAt = kept.UpdatedAt
	return row, "updated", nil
}

// newTx is a variable that is to be made, if there is room for it.
func (s *Service) newTx(ctx context.Context, tx pgx.Tx, p SetParams) (row db.VariableGetRow, err error) {
	count, err := db.New().VariableCount(ctx, tx, p.WorkspaceID)
	if err != nil {
		return row, fmt.Errorf("count environment variables: %w", err)
	}
	if count >= maxVariables {
		return row, &fault.Error{
			Code: fault.Conflict, Reason: "too_many_variables",
			Message: fmt.Sprintf("A workspace has at most %d environment variables.", maxVariables),
		}
	}
	row.Name = p.Name
	if row.ID, err = uuid.NewV7(); err != nil {
		return row, fmt.Errorf("make the id of an environment variable: %w", err)
	}
	return row, nil
}

// Delete removes a variable, and shows it as it was. NOT_FOUND.
func (s *Service) Delete(ctx context.Context, workspaceID uuid.UUID, name string) (gone api.EnvironmentVariable, err error) {
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		q := db.New()
		if err := lockTx(ctx, tx, workspaceID); err != nil {
			return err
		}
		row, err := q.VariableGet(ctx, tx, db.VariableGetParams{WorkspaceID: workspaceID, Name: name})
		if postgres.NotFound(err) {
			return fault.New(fault.NotFound, "There is no environment variable with this name.")
		}
		if err != nil {
			return fmt.Errorf("read environment variable: %w", err)
		}
		if gone, err = s.record(workspaceID, row); err != nil {
			return err
		}
		if err := q.VariableDelete(ctx, tx, db.VariableDeleteParams{WorkspaceID: workspaceID, ID: row.ID}); err != nil {
			return fmt.Errorf("delete environment variable: %w", err)
		}
		if err := recordTx(ctx, tx, workspaceID, name); err != nil {
			return err
		}
		return tell(ctx, tx, workspaceID, row, "deleted")
	})
	return gone, err
}

// tell writes into the audit log what became of a variable, with the deed.
func tell(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, row db.VariableGetRow, what string) error {
	return audit.RecordTx(ctx, tx, audit.Event{
		WorkspaceID: workspaceID, Action: "environment_variable." + what, SubjectKind: "environment_variable", SubjectID: row.ID.String(),
		Details: map[string]any{"name": row.Name, "secret": row.Secret},
	})
}

// record is a variable as it is shown.
func (s *Service) record(workspaceID uuid.UUID, row db.VariableGetRow) (api.EnvironmentVariable, error) {
	shown := api.EnvironmentVariable{
		Name: row.Name, Secret: row.Secret, Description: row.Description,
		CreatedAt: timestamp.Of(row.CreatedAt), UpdatedAt: timestamp.Of(row.UpdatedAt),
	}
	if row.Secret {
		return shown, nil
	}
	value, err := s.open(workspaceID, row.ID, row.Sealed)
	if err == nil {
		shown.Value = &value
	}
	return shown, err
}

func (s *Service) open(workspaceID, id uuid.UUID, sealed []byte) (string, error) {
	plain, err := s.keyring.Open(sealed, SealedAt(workspaceID, id))
	if err != nil {
		return "", fmt.Errorf("open environment variable: %w", err)
	}
	return string(plain), nil
}
