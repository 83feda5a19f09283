package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/idempotency"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

const (
	maxHooks = 50 // of a workflow
	active   = string(api.TriggerStatusACTIVE)
)

// Draft is a hook as somebody saves it. What is empty has its default.
type Draft struct {
	Name, Status string
	Verification *api.NewVerification // nil: that of the workflow, or the present one
}

// CreateParams says what to create.
type CreateParams struct {
	WorkspaceID, WorkflowID uuid.UUID
	Draft                   Draft
	Idempotency             *idempotency.Key // nil: a repeat creates another
}

// Create stores a hook, or finds what the Idempotency-Key made. NOT_FOUND for an unknown
// workflow; CONFLICT for one that is archived, that begins with other triggers only, or that
// has as many as it can; INVALID_INPUT for a verification that is none.
func (s *Service) Create(ctx context.Context, p CreateParams) (made api.Hook, replayed bool, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return made, false, fmt.Errorf("make hook id: %w", err)
	}
	key := notify.Key{WorkspaceID: p.WorkspaceID}
	err = pgx.BeginFunc(ctx, s.API, func(tx pgx.Tx) (err error) {
		key.ID, replayed, err = p.Idempotency.OnceTx(ctx, tx, id, func() error { return s.createTx(ctx, tx, id, p) })
		if err != nil {
			return err
		}
		if made, err = s.shown(ctx, tx, key); err != nil || replayed {
			return err
		}
		return tell(ctx, tx, p.WorkspaceID, made, "created")
	})
	return made, replayed, err
}

func (s *Service) createTx(ctx context.Context, tx pgx.Tx, id uuid.UUID, p CreateParams) error {
	// One after the other for each workflow, so that the bound holds.
	_, err := db.New().WorkflowLock(ctx, tx, db.WorkflowLockParams{WorkspaceID: p.WorkspaceID, ID: p.WorkflowID})
	if err != nil && !postgres.NotFound(err) {
		return fmt.Errorf("lock workflow: %w", err)
	}
	entry, err := s.Runs.Entry(ctx, tx, p.WorkspaceID, p.WorkflowID, trigger)
	if err != nil {
		return err
	}
	given := p.Draft.Verification
	if given == nil {
		if given, err = verificationOf(entry.Config); err != nil {
			return err
		}
	}
	checked, secret, err := check(given, "")
	if err != nil {
		return err
	}
	count, err := db.New().HookCount(ctx, tx, db.HookCountParams{WorkspaceID: p.WorkspaceID, WorkflowID: p.WorkflowID})
	if err != nil {
		return fmt.Errorf("count hooks: %w", err)
	}
	if count >= maxHooks {
		return &fault.Error{Code: fault.Conflict, Reason: "too_many_hooks", Message: fmt.Sprintf("A workflow has at most %d hooks.", maxHooks)}
	}
	row := db.HookInsertParams{
		WorkspaceID: p.WorkspaceID, ID: id, WorkflowID: p.WorkflowID, Name: p.Draft.Name, Status: cmp.Or(p.Draft.Status, active),
	}
	if row.Verification, row.Sealed, err = s.stored(notify.Key{WorkspaceID: p.WorkspaceID, ID: id}, checked, secret); err != nil {
		return err
	}
	if err := db.New().HookInsert(ctx, tx, row); err != nil {
		return fmt.Errorf("insert hook: %w", err)
	}
	return nil
}

// stored is a verification as it is kept: with its secret apart, sealed.
func (s *Service) stored(key notify.Key, v api.Verification, secret string) (shown json.RawMessage, sealed []byte, err error) {
	if shown, err = json.Marshal(v); err != nil {
		return nil, nil, fmt.Errorf("write the verification of a hook: %w", err)
	}
	if sealed, err = s.Keyring.Seal([]byte(secret), SealedAt(key.WorkspaceID, key.ID)); err != nil {
		return nil, nil, fmt.Errorf("seal the secret of a hook: %w", err)
	}
	return shown, sealed, nil
}

// secret opens the secret of a hook.
func (s *Service) secret(key notify.Key, sealed []byte) (string, error) {
	plain, err := s.Keyring.Open(sealed, SealedAt(key.WorkspaceID, key.ID))
	if err != nil {
		return "", fmt.Errorf("open the secret of a hook: %w", err)
	}
	return string(plain), nil
}

// Replace gives a hook another name, status or verification. Without a verification the
// present one stays, and without a secret the present secret. NOT_FOUND; INVALID_INPUT for a
// verification that is none.
func (s *Service) Replace(ctx context.Context, key notify.Key, d Draft) (replaced api.Hook, err error) {
	err = pgx.BeginFunc(ctx, s.API, func(tx pgx.Tx) (err error) {
		if err := s.replaceTx(ctx, tx, key, d); err != nil {
			return err
		}
		if replaced, err = s.shown(ctx, tx, key); err != nil {
			return err
		}
		return tell(ctx, tx, key.WorkspaceID, replaced, "updated")
	})
	return replaced, err
}

func (s *Service) replaceTx(ctx context.Context, tx pgx.Tx, key notify.Key, d Draft) error {
	present, err := lockTx(ctx, tx, key)
	if err != nil {
		return err
	}
	row := db.HookUpdateParams{
		WorkspaceID: key.WorkspaceID, ID: key.ID, Name: d.Name, Status: cmp.Or(d.Status, present.Status),
		Verification: present.Verification, Sealed: present.Sealed,
	}
	if d.Verification != nil {
		kept, err := s.secret(key, present.Sealed)
		if err != nil && d.Verification.Secret == nil {
			return err
		}
		checked, secret, err := check(d.Verification, kept)
		if err != nil {
			return err
		}
		if row.Verification, row.Sealed, err = s.stored(key, checked, secret); err != nil {
			return err
		}
	}
	if err := db.New().HookUpdate(ctx, tx, row); err != nil {
		return fmt.Errorf("update hook: %w", err)
	}
	return nil
}

// Delete ends a hook, and shows it as it was. NOT_FOUND.
func (s *Service) Delete(ctx context.Context, key notify.Key) (gone api.Hook, err error) {
	err = pgx.BeginFunc(ctx, s.API, func(tx pgx.Tx) (err error) {
		if _, err := lockTx(ctx, tx, key); err != nil {
			return err
		}
		if gone, err = s.shown(ctx, tx, key); err != nil {
			return err
		}
		if err := db.New().HookDelete(ctx, tx, db.HookDeleteParams{WorkspaceID: key.WorkspaceID, ID: key.ID}); err != nil {
			return fmt.Errorf("delete hook: %w", err)
		}
		return tell(ctx, tx, key.WorkspaceID, gone, "deleted")
	})
	return gone, err
}

// lockTx is a hook that nobody else changes until the transaction ends. NOT_FOUND.
func lockTx(ctx context.Context, tx pgx.Tx, key notify.Key) (db.HookLockRow, error) {
	present, err := db.New().HookLock(ctx, tx, db.HookLockParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
	if postgres.NotFound(err) {
		return present, errNone
	}
	if err != nil {
		return present, fmt.Errorf("lock hook: %w", err)
	}
	return present, nil
}

// verificationOf is that of an ON_WEBHOOK.
func verificationOf(config json.RawMessage) (*api.NewVerification, error) {
	var c struct{ Verification *api.NewVerification }
	if len(config) > 0 && json.Unmarshal(config, &c) != nil {
		return nil, errors.New("read the config of an ON_WEBHOOK") // what is wrong may show some of it
	}
	if c.Verification == nil {
		return nil, fault.InvalidAt("/verification", "is required: the workflow has no ON_WEBHOOK with one")
	}
	return c.Verification, nil
}
