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

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/postgres"
	"github.com/weft-automation/weft/internal/signature"
)

// keyPrefix begins every API key (contract 5.1).
const keyPrefix = "ws_"

const (
	maxLabel     = 200 // characters
	maxWorkflows = 1000
)

// Keys makes, lists and revokes the API keys of workspaces.
type Keys struct{ db postgres.DB }

// NewKeys makes a Keys over db.
func NewKeys(db postgres.DB) *Keys { return &Keys{db: db} }

// CreateParams says what key to make. No workflows means all of the workspace's.
type CreateParams struct {
	WorkspaceID        uuid.UUID
	Label              string
	AllowedWorkflowIDs []uuid.UUID
}

// Created is a new key. APIKey and APISecret exist here only: they are shown
// once and never stored.
type Created struct {
	KeyID     uuid.UUID
	APIKey    string
	APISecret string
}

// LogValue keeps the secrets out of logs.
func (c Created) LogValue() slog.Value { return slog.StringValue(c.KeyID.String()) }

// Format keeps them out of everything else that prints values.
func (c Created) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "API key %s", c.KeyID) }

// Key is what is known of a key afterwards. Hint is its first and last letters.
type Key struct {
	ID                 uuid.UUID
	Label, Hint        string
	AllowedWorkflowIDs []uuid.UUID
	CreatedAt          time.Time
	RevokedAt          *time.Time
}

// Create makes a key: its text and an Ed25519 pair, of which only the SHA-256
// and the public half are stored. A bad label or list is INVALID_INPUT.
func (k *Keys) Create(ctx context.Context, p CreateParams) (Created, error) {
	if err := p.check(); err != nil {
		return Created{}, err
	}
	keyID, err := uuid.NewV7()
	if err != nil {
		return Created{}, fmt.Errorf("make key id: %w", err)
	}
	public, pkcs8, err := signature.GenerateKey()
	if err != nil {
		return Created{}, err
	}
	text := newKeyText()
	hash := sha256.Sum256([]byte(text))
	err = queries.APIKeyInsert(ctx, k.db, db.APIKeyInsertParams{
		WorkspaceID:        p.WorkspaceID,
		ID:                 keyID,
		Label:              p.Label,
		KeyHash:            hash[:],
		KeyHint:            text[:len(keyPrefix)+2] + "..." + text[len(text)-4:],
		PublicKey:          public,
		AllowedWorkflowIds: append([]uuid.UUID{}, p.AllowedWorkflowIDs...), // never null
	})
	if err != nil {
		return Created{}, fmt.Errorf("insert API key: %w", err)
	}
	return Created{KeyID: keyID, APIKey: text, APISecret: signature.EncodeSecret(pkcs8)}, nil
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

// newKeyText is the prefix and 32 random bytes in base 62, always of one length.
func newKeyText() string {
	const width = 43 // digits of 2^256 in base 62
	var random [32]byte
	rand.Read(random[:]) //nolint:errcheck // crypto/rand ends the program rather than fail
	digits := new(big.Int).SetBytes(random[:]).Text(62)
	return keyPrefix + strings.Repeat("0", width-len(digits)) + digits
}

// List gives the keys of a workspace, newest first.
func (k *Keys) List(ctx context.Context, workspaceID uuid.UUID) ([]Key, error) {
	rows, err := queries.APIKeyList(ctx, k.db, workspaceID)
	if err != nil {
		return nil, fmt.Errorf("list API keys: %w", err)
	}
	keys := make([]Key, 0, len(rows))
	for _, row := range rows {
		keys = append(keys, Key{
			ID: row.ID, Label: row.Label, Hint: row.KeyHint, AllowedWorkflowIDs: row.AllowedWorkflowIds,
			CreatedAt: row.CreatedAt, RevokedAt: row.RevokedAt,
		})
	}
	return keys, nil
}

// Revoke ends a key for good; again is the same. It is refused everywhere within
// a second, and its streams end within five. An unknown key is NOT_FOUND.
func (k *Keys) Revoke(ctx context.Context, workspaceID, keyID uuid.UUID) error {
	rows, err := queries.APIKeyRevoke(ctx, k.db, db.APIKeyRevokeParams{WorkspaceID: workspaceID, ID: keyID})
	if err != nil {
		return fmt.Errorf("revoke API key: %w", err)
	}
	if rows == 0 {
		return fault.New(fault.NotFound, "there is no API key %s in this workspace", keyID)
	}
	return nil
}

// Usable says whether text is a key that exists and is not revoked. It proves
// nothing about who has it: a request needs a Verifier.
func Usable(ctx context.Context, db postgres.DB, text string) bool {
	hash := sha256.Sum256([]byte(text))
	row, err := queries.APIKeyGetByHash(ctx, db, hash[:])
	return err == nil && row.RevokedAt == nil
}
