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

// RotateParams says which key to rotate, how long it goes on beside its successor,
// and who does it.
type RotateParams struct {
	ID                 uuid.UUID // of the successor, so that a repeat is known as one; zero makes it
	WorkspaceID, KeyID uuid.UUID
	Overlap            time.Duration
	By                 *uuid.UUID
	May                Judge
}

// Rotate makes a key with the label, the workflows and the root of another, which ends
// after the overlap. NOT_FOUND for an unknown key, CONFLICT for one that has ended or
// was rotated before, this same rotation among them; other refusals are those of p.May.
func (k *Keys) Rotate(ctx context.Context, p RotateParams) (made Created, err error) {
	err = pgx.BeginFunc(ctx, k.db, func(tx pgx.Tx) error {
		if err := p.May.judge(ctx, tx); err != nil {
			return err
		}
		old, err := queries.APIKeyGetForUpdate(ctx, tx, db.APIKeyGetForUpdateParams{WorkspaceID: p.WorkspaceID, ID: p.KeyID})
		switch {
		case postgres.NotFound(err):
			return noKey()
		case err != nil:
			return fmt.Errorf("read API key: %w", err)
		case p.ID != uuid.Nil && old.ReplacedBy != nil && *old.ReplacedBy == p.ID:
			return alreadyMade()
		case !old.Active:
			return &fault.Error{
				Code: fault.Conflict, Reason: "key_not_active",
				Message: "The key is revoked, has expired or was rotated before.",
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
			return fmt.Errorf("end API key: %w", err)
		}
		if ends != nil {
			made.Replaces = &Replaced{Hint: old.KeyHint, EndsAt: *ends}
		}
		return tell(ctx, tx, p.WorkspaceID, p.KeyID, "rotated", map[string]any{
			"label": old.Label, "replacedBy": made.KeyID, "overlapSeconds": int64(p.Overlap / time.Second),
		})
	})
	return made, err
}
