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
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/platform/idempotency"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow/run"
)

const (
	maxHooks            = 50 // per workflow
	maxHooksOfWorkspace = 1_000
	active              = string(api.TriggerStatusACTIVE)
)

// Draft is the content of a save. Empty fields get their defaults.
type Draft struct {
	Name, Status string
	Verification *api.NewVerification // nil: the workflow's verification for a new hook, no change for an existing hook
	Headers      *[]string            // nil: none for a new hook, no change for an existing hook
	Respond      *bool                // nil: false for a new hook, no change for an existing hook
	DeadlineMs   json.RawMessage      // of the runs; null: that of the workflow; empty: that of the replaced hook
	Callback     run.CallbackChange
}

// CreateParams are the parameters of Create.
type CreateParams struct {
	WorkspaceID, WorkflowID uuid.UUID
	Draft                   Draft
	Idempotency             *idempotency.Key // nil: each request creates a hook
}

// Create stores a hook, or returns the hook that an earlier request with the same Idempotency-Key
// created. It returns NOT_FOUND for an unknown workflow, INVALID_INPUT for an invalid
// verification, and CONFLICT for a workflow that is archived, has triggers, but no ON_WEBHOOK, or
// has too many hooks.
func (s *Service) Create(ctx context.Context, p CreateParams) (made api.Hook, replayed bool, err error) {
	id, err := uuid7.New()
	if err != nil {
		return made, false, fmt.Errorf("make hook id: %w", err)
	}
	key := notify.Key{WorkspaceID: p.WorkspaceID}
	err = s.Turns.Begin(ctx, key.WorkspaceID, s.API, func(tx pgx.Tx) (err error) {
		var warnings []api.HookWarning
		key.ID, replayed, err = p.Idempotency.OnceTx(ctx, tx, id, func() (err error) {
			warnings, err = s.createTx(ctx, tx, id, p)
			return err
		})
		if err != nil {
			return err
		}
		if replayed {
			warnings, err = s.presentWarnings(ctx, tx, key)
		}
		if err != nil {
			return err
		}
		made, err = s.read(ctx, tx, key)
		made.Warnings = &warnings
		if err != nil || replayed {
			return err
		}
		return recordAudit(ctx, tx, p.WorkspaceID, made, "created")
	})
	err = postgres.Resolve(ctx, s.API, err, func(ctx context.Context) error {
		_, err := s.read(ctx, s.API, key)
		return err
	})
	return made, replayed, err
}

func (s *Service) createTx(ctx context.Context, tx pgx.Tx, id uuid.UUID, p CreateParams) ([]api.HookWarning, error) {
	// The lock serializes creations in a workflow, so that the limit holds.
	_, err := db.New().WorkflowLock(ctx, tx, db.WorkflowLockParams{WorkspaceID: p.WorkspaceID, ID: p.WorkflowID})
	if err != nil && !postgres.NotFound(err) {
		return nil, fmt.Errorf("lock workflow: %w", err)
	}
	entry, err := s.Runs.Entry(ctx, tx, p.WorkspaceID, p.WorkflowID, trigger)
	if err != nil {
		return nil, err
	}
	requested := p.Draft.Verification
	if requested == nil {
		if requested, err = configVerification(entry.Config); err != nil {
			return nil, err
		}
	}
	checked, kept, err := check(requested, secrets{}, "")
	if err != nil {
		return nil, err
	}
	if err := checkCount(ctx, tx, p); err != nil {
		return nil, err
	}
	row := db.HookInsertParams{
		WorkspaceID: p.WorkspaceID, ID: id, WorkflowID: p.WorkflowID, Name: p.Draft.Name, Status: cmp.Or(p.Draft.Status, active), Headers: []string{}, Respond: value(p.Draft.Respond, false),
		DeadlineMs: run.DeadlineMs(p.Draft.DeadlineMs, nil),
	}
	if p.Draft.Headers != nil {
		row.Headers = *p.Draft.Headers
	}
	if err := checkHeaders(row.Headers, checked); err != nil {
		return nil, err
	}
	key := notify.Key{WorkspaceID: p.WorkspaceID, ID: id}
	if row.Verification, row.Sealed, row.SealedPrevious, err = s.encode(key, checked, kept); err != nil {
		return nil, err
	}
	if row.SealedToken, err = s.sealToken(key, requested.VerifyToken, nil); err != nil {
		return nil, err
	}
	callback, err := s.Runs.ChangeCallback(ctx, callbackPlace(key), p.Draft.Callback, run.StoredCallback{})
	if err != nil {
		return nil, err
	}
	row.Callback, row.SealedCallback = callback.Shown, callback.Sealed
	if err := db.New().HookInsert(ctx, tx, row); err != nil {
		return nil, fmt.Errorf("insert hook: %w", err)
	}
	return s.warnings(ctx, tx, key, p.WorkflowID, row.Respond, warningsOf(checked, kept.current))
}

// goodSecret is the length in bytes from which the key of an HMAC is not reported as short: the output of
// SHA-256, as RFC 2104 recommends for keys of an HMAC. Shorter secrets are accepted, because
// existing clients send them (decisions 9.6).
const goodSecret = 32

// warningsOf returns the warnings about the secret of a verification.
func warningsOf(v api.Verification, secret string) []api.HookWarning {
	if key, _ := keyOf(v, secret); len(key) >= goodSecret {
		return []api.HookWarning{} // an empty list in JSON
	}
	return []api.HookWarning{{
		Code: "SHORT_SECRET", Pointer: "/verification/secret",
		Message: fmt.Sprintf("The key of the signature has fewer than %d bytes. Anyone who guesses it can forge deliveries. Use at least %[1]d random bytes.", goodSecret),
	}}
}

// warnings returns the warnings about the secret of a hook, and one if a hook that responds has a
// workflow without a RESPOND.
func (s *Service) warnings(ctx context.Context, tx pgx.Tx, key notify.Key, workflowID uuid.UUID, responds bool, ofSecret []api.HookWarning) ([]api.HookWarning, error) {
	if !responds {
		return ofSecret, nil
	}
	has, err := s.Runs.Responds(ctx, tx, key.WorkspaceID, workflowID)
	if err != nil || has {
		return ofSecret, err
	}
	return append(ofSecret, api.HookWarning{
		Code: "NO_RESPOND", Pointer: "/respond", Message: "The workflow has no RESPOND, so the sender only learns when the run has finished. Add a RESPOND.",
	}), nil
}

// presentWarnings returns the warnings about a stored hook.
func (s *Service) presentWarnings(ctx context.Context, tx pgx.Tx, key notify.Key) ([]api.HookWarning, error) {
	row, err := lockTx(ctx, tx, key)
	if err != nil {
		return nil, err
	}
	var v api.Verification
	if err := json.Unmarshal(row.Verification, &v); err != nil {
		return nil, fmt.Errorf("decode the hook's verification settings: %w", err)
	}
	kept, err := s.secrets(key, row.Sealed, nil)
	if err != nil {
		return nil, err
	}
	return s.warnings(ctx, tx, key, row.WorkflowID, row.Respond, warningsOf(v, kept.current))
}

// encode returns the stored form of a verification: its JSON without the secrets, and the sealed
// secrets.
func (s *Service) encode(key notify.Key, v api.Verification, kept secrets) (shown json.RawMessage, sealed, previous []byte, err error) {
	if shown, err = json.Marshal(v); err != nil {
		return nil, nil, nil, fmt.Errorf("encode the verification of a hook: %w", err)
	}
	if sealed, err = s.Keyring.Seal([]byte(kept.current), SealedAt(key.WorkspaceID, key.ID)); err != nil {
		return nil, nil, nil, fmt.Errorf("seal the secret of a hook: %w", err)
	}
	if kept.previous == "" {
		return shown, sealed, nil, nil
	}
	if previous, err = s.Keyring.Seal([]byte(kept.previous), PreviousAt(key.WorkspaceID, key.ID)); err != nil {
		return nil, nil, nil, fmt.Errorf("seal the previous secret of a hook: %w", err)
	}
	return shown, sealed, previous, nil
}

// secrets decrypts the secrets of a hook. previous may be nil.
func (s *Service) secrets(key notify.Key, sealed, previous []byte) (secrets, error) {
	current, err := s.Keyring.Open(sealed, SealedAt(key.WorkspaceID, key.ID))
	if err != nil {
		return secrets{}, fmt.Errorf("decrypt the secret of a hook: %w", err)
	}
	if previous == nil {
		return secrets{current: string(current)}, nil
	}
	earlier, err := s.Keyring.Open(previous, PreviousAt(key.WorkspaceID, key.ID))
	if err != nil {
		return secrets{}, fmt.Errorf("decrypt the previous secret of a hook: %w", err)
	}
	return secrets{current: string(current), previous: string(earlier)}, nil
}

// Replace replaces the content of a hook. A draft without a verification, secret or verify token
// keeps the current one. It returns NOT_FOUND, and INVALID_INPUT for an invalid verification.
func (s *Service) Replace(ctx context.Context, key notify.Key, d Draft) (replaced api.Hook, err error) {
	err = s.Turns.Begin(ctx, key.WorkspaceID, s.API, func(tx pgx.Tx) (err error) {
		warnings, err := s.replaceTx(ctx, tx, key, d)
		if err != nil {
			return err
		}
		if replaced, err = s.read(ctx, tx, key); err != nil {
			return err
		}
		replaced.Warnings = &warnings
		return recordAudit(ctx, tx, key.WorkspaceID, replaced, "updated")
	})
	return replaced, err
}

func (s *Service) replaceTx(ctx context.Context, tx pgx.Tx, key notify.Key, d Draft) (warnings []api.HookWarning, err error) {
	present, err := lockTx(ctx, tx, key)
	if err != nil {
		return nil, err
	}
	warnings = []api.HookWarning{}
	row := db.HookUpdateParams{
		WorkspaceID: key.WorkspaceID, ID: key.ID, Name: d.Name, Status: cmp.Or(d.Status, present.Status),
		Verification: present.Verification, Headers: present.Headers, Respond: value(d.Respond, present.Respond), DeadlineMs: run.DeadlineMs(d.DeadlineMs, present.DeadlineMs), Sealed: present.Sealed, SealedPrevious: present.SealedPrevious, SealedToken: present.SealedToken,
	}
	if d.Headers != nil {
		row.Headers = *d.Headers
	}
	var current api.Verification
	if err := json.Unmarshal(present.Verification, &current); err != nil {
		return nil, fmt.Errorf("decode the hook's verification settings: %w", err)
	}
	if d.Verification != nil {
		stored, err := s.secrets(key, present.Sealed, present.SealedPrevious)
		if err != nil && (d.Verification.Secret == nil || present.SealedPrevious != nil && d.Verification.PreviousSecret == nil) {
			return nil, err
		}
		checked, kept, err := check(d.Verification, stored, current.Scheme)
		if err != nil {
			return nil, err
		}
		if row.Verification, row.Sealed, row.SealedPrevious, err = s.encode(key, checked, kept); err != nil {
			return nil, err
		}
		if row.SealedToken, err = s.sealToken(key, d.Verification.VerifyToken, present.SealedToken); err != nil {
			return nil, err
		}
		warnings, current = warningsOf(checked, kept.current), checked
	}
	if err := checkHeaders(row.Headers, current); err != nil {
		return nil, err
	}
	callback, err := s.Runs.ChangeCallback(ctx, callbackPlace(key), d.Callback, run.StoredCallback{Shown: present.Callback, Sealed: present.SealedCallback})
	if err != nil {
		return nil, err
	}
	row.Callback, row.SealedCallback = callback.Shown, callback.Sealed
	if err := db.New().HookUpdate(ctx, tx, row); err != nil {
		return nil, fmt.Errorf("update hook: %w", err)
	}
	return s.warnings(ctx, tx, key, present.WorkflowID, row.Respond, warnings)
}

// Delete deletes a hook and returns its last state. It returns NOT_FOUND if the hook does not
// exist.
func (s *Service) Delete(ctx context.Context, key notify.Key) (deleted api.Hook, err error) {
	err = s.Turns.Begin(ctx, key.WorkspaceID, s.API, func(tx pgx.Tx) (err error) {
		if _, err := lockTx(ctx, tx, key); err != nil {
			return err
		}
		if deleted, err = s.read(ctx, tx, key); err != nil {
			return err
		}
		if err := db.New().HookDelete(ctx, tx, db.HookDeleteParams{WorkspaceID: key.WorkspaceID, ID: key.ID}); err != nil {
			return fmt.Errorf("delete hook: %w", err)
		}
		return recordAudit(ctx, tx, key.WorkspaceID, deleted, "deleted")
	})
	return deleted, err
}

// lockTx locks a hook until tx ends. It returns NOT_FOUND if the hook does not exist.
func lockTx(ctx context.Context, tx pgx.Tx, key notify.Key) (db.HookLockRow, error) {
	present, err := db.New().HookLock(ctx, tx, db.HookLockParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
	if postgres.NotFound(err) {
		return present, errNotFound
	}
	if err != nil {
		return present, fmt.Errorf("lock hook: %w", err)
	}
	return present, nil
}

// configVerification returns the verification in the config of an ON_WEBHOOK.
func configVerification(config json.RawMessage) (*api.NewVerification, error) {
	var c struct{ Verification *api.NewVerification }
	if len(config) > 0 && json.Unmarshal(config, &c) != nil {
		return nil, errors.New("decode the config of an ON_WEBHOOK") // the decoder's error may contain the secret
	}
	if c.Verification == nil {
		return nil, fault.InvalidAt("/verification", "is required, because the workflow has no ON_WEBHOOK with a default")
	}
	return c.Verification, nil
}

// checkCount returns CONFLICT if the workflow or the workspace has as many hooks as it can have.
func checkCount(ctx context.Context, tx pgx.Tx, p CreateParams) error {
	if err := db.New().LockName(ctx, tx, "hooks "+p.WorkspaceID.String()); err != nil {
		return fmt.Errorf("lock the number of hooks: %w", err)
	}
	count, err := db.New().HookCount(ctx, tx, db.HookCountParams{WorkspaceID: p.WorkspaceID, WorkflowID: p.WorkflowID})
	switch {
	case err != nil:
		return fmt.Errorf("count hooks: %w", err)
	case count.OfWorkflow >= maxHooks:
		return &fault.Error{Code: fault.Conflict, Reason: "too_many_hooks", Message: fmt.Sprintf("A workflow can have at most %d hooks. Delete one first.", maxHooks)}
	case count.AllHooks >= maxHooksOfWorkspace:
		return &fault.Error{Code: fault.Conflict, Reason: "too_many_hooks", Message: "A workspace can have at most 1,000 hooks. Delete one first."}
	}
	return nil
}
