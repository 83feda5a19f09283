// Package environment stores the environment variables of a workspace, which its workflows refer
// to by name.
//
// The syntax of references is defined in internal/kit/envref. When a run starts, it stores a
// sealed copy of the variables that its workflow refers to. Values are only stored sealed, and
// secret values are never shown.
package environment

import (
	"cmp"
	"context"
	"fmt"
	"net/url"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/platform/permit"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
)

const (
	maxVariables = 200     // per workspace
	maxValue     = 8 << 10 // bytes
)

// Service stores variables.
type Service struct {
	// CheckTarget returns an error if the address of a token must not be called. Nil: it is checked only
	// when it is called.
	CheckTarget func(*url.URL) error

	Turns *permit.Turns // of the database; nil: no limit

	db      postgres.DB
	keyring *seal.Keyring
}

// NewService returns a Service that uses db, which sees the workspace of the request.
func NewService(db postgres.DB, keyring *seal.Keyring) *Service {
	return &Service{db: db, keyring: keyring}
}

// SealedAt returns the AAD of the sealed value of a variable.
func SealedAt(workspaceID, id uuid.UUID) seal.AAD {
	return seal.AAD{WorkspaceID: workspaceID, Table: "environment_variables", Row: id.String(), Field: "sealed"}
}

// List returns one page of the variables, newest first. It returns INVALID_INPUT for an invalid
// cursor.
func (s *Service) List(ctx context.Context, workspaceID uuid.UUID, limit int, after string) (page api.EnvironmentVariablePage, err error) {
	page.Data, page.HasMore, page.NextCursor, err = cursor.Page("environment variables", limit, after, func(before uuid.UUID, maxRows int32) ([]db.VariableListRow, error) {
		return db.New().VariableList(ctx, s.db, db.VariableListParams{WorkspaceID: workspaceID, Before: before, MaxRows: maxRows})
	}, func(row db.VariableListRow) (uuid.UUID, api.EnvironmentVariable, error) {
		shown, err := s.record(workspaceID, db.VariableGetRow(row))
		return row.ID, shown, err
	})
	return page, err
}

// SetParams describes a variable. If Secret or Description is nil, Set keeps it. A new variable is not
// secret and has no description by default.
type SetParams struct {
	WorkspaceID uuid.UUID
	Name        string // in the form that the contract requires
	Kind        string // KindValue or KindToken; empty: KindValue, and no token becomes one
	Value       string
	Client      *Client // what a token is fetched with; without a secret, Set keeps the stored one
	Secret      *bool
	Description *string
}

// Set creates a variable or changes its value. It returns INVALID_INPUT for a value that is too
// long or a client that is invalid, and CONFLICT if the workspace has too many variables or a token would
// become a value.
func (s *Service) Set(ctx context.Context, p SetParams) (set api.EnvironmentVariable, err error) {
	if len(p.Value) > maxValue {
		return set, fault.InvalidAt("/value", "must have at most 8 KiB, got %d bytes", len(p.Value))
	}
	if p.Kind == KindToken {
		if err := s.checkClient(p); err != nil {
			return set, err
		}
	}
	err = s.Turns.Begin(ctx, p.WorkspaceID, s.db, func(tx pgx.Tx) error {
		row, what, err := s.setTx(ctx, tx, p)
		if err != nil {
			return err
		}
		if set, err = s.record(p.WorkspaceID, row); err != nil {
			return err
		}
		return auditTx(ctx, tx, p.WorkspaceID, row, what)
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
	content, kept, err := s.content(row, p)
	if err != nil {
		return row, "", err
	}
	if !isNew && !kept {
		if err := recordTx(ctx, tx, p.WorkspaceID, p.Name); err != nil {
			return row, "", err
		}
	}
	row.Kind = cmp.Or(p.Kind, KindValue)
	if p.Secret != nil {
		row.Secret = *p.Secret
	}
	row.Secret = row.Secret || row.Kind == KindToken
	if p.Description != nil {
		row.Description = *p.Description
	}
	if row.Sealed, err = s.keyring.Seal([]byte(content), SealedAt(p.WorkspaceID, row.ID)); err != nil {
		return row, "", fmt.Errorf("seal environment variable: %w", err)
	}
	if isNew {
		made, err := q.VariableInsert(ctx, tx, db.VariableInsertParams{
			WorkspaceID: p.WorkspaceID, ID: row.ID, Name: row.Name, Description: row.Description, Secret: row.Secret, Kind: row.Kind, Sealed: row.Sealed,
		})
		if err != nil {
			return row, "", fmt.Errorf("insert environment variable: %w", err)
		}
		row.CreatedAt, row.UpdatedAt = made.CreatedAt, made.UpdatedAt
		return row, "created", nil
	}
	updated, err := q.VariableUpdate(ctx, tx, db.VariableUpdateParams{
		WorkspaceID: p.WorkspaceID, ID: row.ID, Description: row.Description, Secret: row.Secret, Kind: row.Kind, Sealed: row.Sealed, KeepsToken: kept,
	})
	if err != nil {
		return row, "", fmt.Errorf("update environment variable: %w", err)
	}
	row.UpdatedAt = updated.UpdatedAt
	return row, "updated", nil
}

// content returns what is sealed for a variable that is set, and whether it is what the stored row has.
// Content that can't be opened counts as changed.
func (s *Service) content(row db.VariableGetRow, p SetParams) (content string, kept bool, err error) {
	before, unreadable := "", error(nil)
	if row.Sealed != nil {
		before, unreadable = s.open(p.WorkspaceID, row.ID, row.Sealed)
	}
	if p.Kind == KindToken {
		content, err = p.Client.sealedAfter(row.Kind, before, unreadable)
	} else if content = p.Value; p.Kind == "" && row.Kind == KindToken {
		err = &fault.Error{
			Code: fault.Conflict, Reason: "variable_is_token",
			Message: fmt.Sprintf("The variable %s is an access token (oauth2). To replace it by a value, send \"kind\": \"value\" with it.", p.Name),
		}
	}
	return content, row.Sealed != nil && unreadable == nil && content == before && row.Kind == cmp.Or(p.Kind, KindValue), err
}

// newTx returns a new variable, which the caller inserts. It returns CONFLICT if the workspace has
// too many.
func (s *Service) newTx(ctx context.Context, tx pgx.Tx, p SetParams) (row db.VariableGetRow, err error) {
	count, err := db.New().VariableCount(ctx, tx, p.WorkspaceID)
	if err != nil {
		return row, fmt.Errorf("count environment variables: %w", err)
	}
	if count >= maxVariables {
		return row, &fault.Error{
			Code: fault.Conflict, Reason: "too_many_variables",
			Message: fmt.Sprintf("A workspace can have at most %d environment variables. Delete one first.", maxVariables),
		}
	}
	row.Name = p.Name
	if row.ID, err = uuid7.New(); err != nil {
		return row, fmt.Errorf("generate the ID of an environment variable: %w", err)
	}
	return row, nil
}

// Delete deletes a variable and returns it. It returns NOT_FOUND for an unknown variable.
func (s *Service) Delete(ctx context.Context, workspaceID uuid.UUID, name string) (gone api.EnvironmentVariable, err error) {
	err = s.Turns.Begin(ctx, workspaceID, s.db, func(tx pgx.Tx) error {
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
		return auditTx(ctx, tx, workspaceID, row, "deleted")
	})
	return gone, err
}

// auditTx records a change of a variable in the audit log, in the same transaction.
func auditTx(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, row db.VariableGetRow, what string) error {
	return audit.RecordTx(ctx, tx, audit.Event{
		WorkspaceID: workspaceID, Action: "environment_variable." + what, SubjectKind: "environment_variable", SubjectID: row.ID.String(),
		Details: map[string]any{"name": row.Name, "secret": row.Secret, "kind": row.Kind},
	})
}

// record converts a variable to its API representation.
func (s *Service) record(workspaceID uuid.UUID, row db.VariableGetRow) (api.EnvironmentVariable, error) {
	shown := api.EnvironmentVariable{
		Name: row.Name, Kind: api.EnvironmentVariableKind(row.Kind), Secret: row.Secret, Description: row.Description,
		CreatedAt: timestamp.Of(row.CreatedAt), UpdatedAt: timestamp.Of(row.UpdatedAt),
	}
	if row.Kind == KindToken {
		return shown, s.showClient(&shown, workspaceID, row)
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
