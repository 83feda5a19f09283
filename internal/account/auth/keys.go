package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/signature"
)

// keyPrefix is the prefix of every API key (contract 5.1).
const keyPrefix = "ws_"

const (
	maxLabel     = 200 // characters
	maxWorkflows = 1000
)

// Keys creates, lists, rotates and revokes the API keys of workspaces.
type Keys struct{ db postgres.DB }

// NewKeys returns a Keys that uses db.
func NewKeys(db postgres.DB) *Keys { return &Keys{db: db} }

// CreateParams describes a new key. An empty list of workflows means all workflows.
type CreateParams struct {
	ID                 uuid.UUID // of the key, to recognise a repeated request; zero generates one
	WorkspaceID        uuid.UUID
	Label              string
	AllowedWorkflowIDs []uuid.UUID
	CreatedBy          *uuid.UUID // the user; nil for the operator
	May                Permission

	rootID *uuid.UUID // the first key of the rotations; nil for a key that isn't a successor
}

// Permission checks, in the transaction that creates a key, that the caller may still
// create it. A nil Permission allows everything.
type Permission func(context.Context, pgx.Tx) error

func (j Permission) check(ctx context.Context, tx pgx.Tx) error {
	if j == nil {
		return nil
	}
	return j(ctx, tx)
}

// Created is a new key. APIKey and APISecret are shown once and never stored.
type Created struct {
	KeyID     uuid.UUID
	APIKey    string
	APISecret string

	Label              string
	AllowedWorkflowIDs []uuid.UUID
	CreatedAt          time.Time
	Replaces           *Replaced // nil for a key that isn't a successor
}

// Replaced is a key that stays valid next to its successor until EndsAt.
type Replaced struct {
	Hint   string
	EndsAt time.Time
}

// LogValue keeps the secrets out of logs.
func (c Created) LogValue() slog.Value { return slog.StringValue(c.KeyID.String()) }

// Format keeps the secrets out of everything else that prints values.
func (c Created) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "API key %s", c.KeyID) }

// Create creates a key and its Ed25519 key pair. Only the SHA-256 of the key and the
// public half of the pair are stored. It returns INVALID_INPUT for an invalid label or
// list, or an unknown workflow; CONFLICT if a key with the ID exists; and the errors of
// p.May.
func (k *Keys) Create(ctx context.Context, p CreateParams) (Created, error) {
	if err := p.check(); err != nil {
		return Created{}, err
	}
	var made Created
	err := postgres.BeginFunc(ctx, k.db, func(tx pgx.Tx) (err error) {
		if err = p.May.check(ctx, tx); err != nil {
			return err
		}
		if err = p.checkWorkflows(ctx, tx); err != nil {
			return err
		}
		if err = checkCount(ctx, tx, p.WorkspaceID, false); err != nil {
			return err
		}
		if made, err = insert(ctx, tx, p); err != nil {
			return err
		}
		return recordTx(ctx, tx, p.WorkspaceID, made.KeyID, "created", map[string]any{"label": made.Label, "allowedWorkflowIds": made.AllowedWorkflowIDs})
	})
	return made, err
}

// recordTx writes a change of a key to the audit log, in the same transaction.
func recordTx(ctx context.Context, tx pgx.Tx, workspaceID, keyID uuid.UUID, what string, details map[string]any) error {
	return audit.RecordTx(ctx, tx, audit.Event{
		WorkspaceID: workspaceID, Action: "api_key." + what, SubjectKind: "api_key", SubjectID: keyID.String(), Details: details,
	})
}

func insert(ctx context.Context, conn postgres.DB, p CreateParams) (Created, error) {
	keyID, err := p.ID, error(nil)
	if keyID == uuid.Nil {
		if keyID, err = uuid7.New(); err != nil {
			return Created{}, fmt.Errorf("generate key ID: %w", err)
		}
	}
	public, pkcs8, err := signature.GenerateKey()
	if err != nil {
		return Created{}, err
	}
	text := newKeyText()
	hash := sha256.Sum256([]byte(text))
	workflows := append([]uuid.UUID{}, p.AllowedWorkflowIDs...) // never null
	createdAt, err := queries.APIKeyInsert(ctx, conn, db.APIKeyInsertParams{
		WorkspaceID:        p.WorkspaceID,
		ID:                 keyID,
		Label:              p.Label,
		KeyHash:            hash[:],
		KeyHint:            text[:len(keyPrefix)+2] + "..." + text[len(text)-4:],
		PublicKey:          public,
		AllowedWorkflowIds: workflows,
		CreatedBy:          p.CreatedBy,
		RootID:             p.rootID,
	})
	switch {
	case postgres.Taken(err):
		return Created{}, alreadyCreated()
	case err != nil:
		return Created{}, fmt.Errorf("insert API key: %w", err)
	}
	return Created{
		KeyID: keyID, APIKey: text, APISecret: signature.EncodeSecret(pkcs8),
		Label: p.Label, AllowedWorkflowIDs: workflows, CreatedAt: createdAt,
	}, nil
}

func (p CreateParams) check() error {
	length := utf8.RuneCountInString(p.Label)
	switch {
	case strings.TrimSpace(p.Label) == "" || length > maxLabel:
		return fault.Invalid("/label", "the label must have 1 to %d characters", maxLabel)
	case !utf8.ValidString(p.Label) || strings.ContainsFunc(p.Label, unicode.IsControl):
		return fault.Invalid("/label", "the label must not have control characters")
	case len(p.AllowedWorkflowIDs) > maxWorkflows:
		return fault.Invalid("/allowedWorkflowIds", "at most %d workflows can be listed", maxWorkflows)
	}
	return nil
}

// checkWorkflows returns INVALID_INPUT if a workflow of the list doesn't exist in the workspace.
func (p CreateParams) checkWorkflows(ctx context.Context, conn postgres.DB) error {
	if len(p.AllowedWorkflowIDs) == 0 {
		return nil
	}
	absent, err := queries.WorkflowListMissing(ctx, conn, db.WorkflowListMissingParams{WorkspaceID: p.WorkspaceID, Ids: p.AllowedWorkflowIDs})
	if err != nil {
		return fmt.Errorf("find workflows: %w", err)
	}
	var details []fault.Detail
	for _, at := range absent {
		missing := "the workspace has no workflow with this key"
		if id := p.AllowedWorkflowIDs[at]; id != uuid.Nil { // what a key without a workflow is resolved to
			missing = fmt.Sprintf("the workspace has no workflow %s", id)
		}
		details = append(details, fault.Detail{
			Code: string(fault.InvalidInput), Pointer: fmt.Sprintf("/allowedWorkflowIds/%d", at),
			Message: missing,
		})
	}
	if refused := fault.Malformed(details); refused != nil {
		return refused
	}
	return nil
}

// newKeyText returns a new API key: the prefix and 32 random bytes in base 62, of constant length.
func newKeyText() string {
	const width = 43 // digits of 2^256 in base 62
	var random [32]byte
	rand.Read(random[:]) //nolint:errcheck // crypto/rand aborts the program instead of failing
	digits := new(big.Int).SetBytes(random[:]).Text(62)
	return keyPrefix + strings.Repeat("0", width-len(digits)) + digits
}

// List returns all keys of a workspace, newest first.
func (k *Keys) List(ctx context.Context, workspaceID uuid.UUID) (keys []api.APIKey, err error) {
	page := api.APIKeyPage{HasMore: true, NextCursor: new("")}
	for page.HasMore {
		if page, err = k.Page(ctx, workspaceID, 100, *page.NextCursor); err != nil {
			return nil, err
		}
		keys = append(keys, page.Data...)
	}
	return keys, nil
}

// Page returns one page of the keys of a workspace, newest first. It returns
// INVALID_INPUT for an invalid cursor.
func (k *Keys) Page(ctx context.Context, workspaceID uuid.UUID, limit int, after string) (api.APIKeyPage, error) {
	return k.page(ctx, workspaceID, limit, after, false)
}

// ActivePage is like Page, but returns only keys that are neither revoked nor expired.
func (k *Keys) ActivePage(ctx context.Context, workspaceID uuid.UUID, limit int, after string) (api.APIKeyPage, error) {
	return k.page(ctx, workspaceID, limit, after, true)
}

func (k *Keys) page(ctx context.Context, workspaceID uuid.UUID, limit int, after string, active bool) (page api.APIKeyPage, err error) {
	page.Data, page.HasMore, page.NextCursor, err = cursor.Page("API keys", limit, after, func(before uuid.UUID, maxRows int32) ([]db.APIKeyListRow, error) {
		return queries.APIKeyList(ctx, k.db, db.APIKeyListParams{WorkspaceID: workspaceID, Before: before, OnlyActive: active, MaxRows: maxRows})
	}, func(row db.APIKeyListRow) (uuid.UUID, api.APIKey, error) {
		return row.ID, record(db.APIKeyRevokeRow(row)), nil
	})
	return page, err
}

// record converts a key to its API representation, without secrets.
func record(row db.APIKeyRevokeRow) api.APIKey {
	return api.APIKey{
		ID: row.ID, Label: row.Label, Hint: row.KeyHint, AllowedWorkflowIds: row.AllowedWorkflowIds, CreatedAt: timestamp.Of(row.CreatedAt),
		ExpiresAt: timestamp.OfPointer(row.ExpiresAt), RevokedAt: timestamp.OfPointer(row.RevokedAt), ReplacedBy: row.ReplacedBy,
	}
}

func noKey() error { return fault.New(fault.NotFound, "There is no API key with this ID.") }

// alreadyCreated returns the error for a repeated request to create a key.
func alreadyCreated() error {
	return &fault.Error{
		Code: fault.Conflict, Reason: "already_made",
		Message: "This key was already created, and its secret was shown once. If you didn't save it, revoke the key and create another one.",
	}
}

// Revoke revokes a key; revoking it again changes nothing. The key is rejected everywhere
// within a second, and its streams are closed within five. It returns NOT_FOUND for an
// unknown key.
func (k *Keys) Revoke(ctx context.Context, workspaceID, keyID uuid.UUID) (api.APIKey, error) {
	var row db.APIKeyRevokeRow
	err := postgres.BeginFunc(ctx, k.db, func(tx pgx.Tx) error {
		before, err := queries.APIKeyGetForUpdate(ctx, tx, db.APIKeyGetForUpdateParams{WorkspaceID: workspaceID, ID: keyID})
		switch {
		case postgres.NotFound(err):
			return noKey()
		case err != nil:
			return fmt.Errorf("read API key: %w", err)
		}
		if row, err = queries.APIKeyRevoke(ctx, tx, db.APIKeyRevokeParams{WorkspaceID: workspaceID, ID: keyID}); err != nil {
			return fmt.Errorf("revoke API key: %w", err)
		}
		if before.RevokedAt != nil {
			return nil
		}
		return recordTx(ctx, tx, workspaceID, keyID, "revoked", map[string]any{"label": row.Label})
	})
	if err != nil {
		return api.APIKey{}, err
	}
	return record(row), nil
}

// Usable reports whether text is a key that is neither revoked nor expired. It doesn't
// authenticate anyone: requests need a Verifier.
func Usable(ctx context.Context, db postgres.DB, text string) bool {
	hash := sha256.Sum256([]byte(text))
	row, err := queries.APIKeyGetByHash(ctx, db, hash[:])
	return err == nil && !row.Over
}
