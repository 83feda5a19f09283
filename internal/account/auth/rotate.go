package auth

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// RotateParams says which key to rotate, and for how long it stays valid next to its
// successor.
type RotateParams struct {
	ID                 uuid.UUID // of the successor, to recognise a repeated request; zero generates one
	WorkspaceID, KeyID uuid.UUID
	Overlap            time.Duration
	By                 *uuid.UUID // the user; nil for the operator
	May                Permission
}

// Rotate creates a successor for a key, with the same label, workflows and root. The replaced
// key expires after the overlap. Rotate returns NOT_FOUND for an unknown key, CONFLICT for a key
// that is revoked, expired or already rotated (also by this same request), and the errors of
// p.May.
func (k *Keys) Rotate(ctx context.Context, p RotateParams) (made Created, err error) {
	err = postgres.BeginFunc(ctx, k.db, func(tx pgx.Tx) error {
		if err := p.May.check(ctx, tx); err != nil {
			return err
		}
		old, err := queries.APIKeyGetForUpdate(ctx, tx, db.APIKeyGetForUpdateParams{WorkspaceID: p.WorkspaceID, ID: p.KeyID})
		switch {
		case postgres.NotFound(err):
			return noKey()
		case err != nil:
			return fmt.Errorf("read API key: %w", err)
		case p.ID != uuid.Nil && old.ReplacedBy != nil && *old.ReplacedBy == p.ID:
			return alreadyCreated()
		case !old.Active:
			return &fault.Error{
				Code: fault.Conflict, Reason: "key_not_active",
				Message: "The key is revoked, has expired or was already rotated.",
			}
		}
		if p.Overlap > 0 { // otherwise the number of keys stays the same
			if err := checkCount(ctx, tx, p.WorkspaceID, true); err != nil {
				return err
			}
		}
		made, err = insert(ctx, tx, CreateParams{
			ID: p.ID, WorkspaceID: p.WorkspaceID, Label: old.Label, AllowedWorkflowIDs: old.AllowedWorkflowIds, CreatedBy: p.By, rootID: &old.RootID,
		})
		if err != nil {
			return err
		}
		ends, err := queries.APIKeyReplace(ctx, tx, db.APIKeyReplaceParams{
			WorkspaceID: p.WorkspaceID, ID: p.KeyID, ReplacedBy: &made.KeyID, Overlap: p.Overlap,
		})
		if err != nil {
			return fmt.Errorf("set the expiry of the replaced API key: %w", err)
		}
		if ends != nil {
			made.Replaces = &Replaced{Hint: old.KeyHint, EndsAt: *ends}
		}
		return recordTx(ctx, tx, p.WorkspaceID, p.KeyID, "rotated", map[string]any{
			"label": old.Label, "replacedBy": made.KeyID, "overlapSeconds": int64(p.Overlap / time.Second),
		})
	})
	return made, err
}

// maxActive limits the active keys of a workspace. As many more may be in the overlap of a rotation.
const maxActive = 100

// checkCount returns CONFLICT if a workspace has as many keys as it can have, also before a rotation.
func checkCount(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, rotates bool) error {
	if err := queries.LockName(ctx, tx, "API keys "+workspaceID.String()); err != nil {
		return fmt.Errorf("lock the number of API keys: %w", err)
	}
	count, err := queries.APIKeyCount(ctx, tx, workspaceID)
	switch {
	case err != nil:
		return fmt.Errorf("count API keys: %w", err)
	case rotates && count.Accepted >= 2*maxActive:
		return &fault.Error{Code: fault.Conflict, Reason: "too_many_keys", Message: fmt.Sprintf("A workspace can have at most %d keys that are accepted, those in the overlap of a rotation included. Revoke one first.", 2*maxActive)}
	case !rotates && count.Active >= maxActive:
		return &fault.Error{Code: fault.Conflict, Reason: "too_many_keys", Message: fmt.Sprintf("A workspace can have at most %d active API keys. Revoke one first.", maxActive)}
	}
	return nil
}
