package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/storage"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// Signal gives a run a signal, the first of each name for good (decisions 8.13), however often
// and however late it is given again. CONFLICT when the run is over and has none of the name.
// What it brings is sealed where the run waits for a secret.
func (s *Service) Signal(ctx context.Context, key notify.Key, who Access, name string, payload json.RawMessage) (api.RunSignal, error) {
	row, err := s.allowed(ctx, key, who)
	if err != nil {
		return api.RunSignal{}, err
	}
	live := !row.Status.Terminal()
	if live {
		if live, err = s.keepSignal(ctx, key, row, name, payload); err != nil {
			return api.RunSignal{}, err
		}
	}
	if live {
		s.Engine.Wake(key)
	}
	first, err := db.New().RunSignalGet(ctx, s.API, db.RunSignalGetParams{WorkspaceID: key.WorkspaceID, RunID: key.ID, Name: name})
	switch {
	case errors.Is(err, pgx.ErrNoRows) && !live:
		return api.RunSignal{}, errRunFinished
	case err != nil:
		return api.RunSignal{}, fmt.Errorf("read signal: %w", err)
	}
	if first.Payload, err = s.Vault.OpenJSON(ctx, signalAt(key, name), first.Payload); err != nil {
		return api.RunSignal{}, err
	}
	return api.RunSignal{RunID: key.ID, Signal: name, Payload: first.Payload, ReceivedAt: timestamp.Of(first.ReceivedAt)}, nil
}

// keepSignal stores a signal, if there is none of the name and the run lives, which it tells.
// It is sealed, too, where the run's version has components that only other processes know,
// during a roll-out: it cannot be told then what they say of it.
func (s *Service) keepSignal(ctx context.Context, key notify.Key, row db.RunGetRow, name string, payload json.RawMessage) (live bool, err error) {
	loaded, err := s.Workflows.LoadVersion(ctx, s.API, key.WorkspaceID, row.WorkflowID, row.WorkflowVersion)
	unfit := fault.CodeOf(err) == fault.InvalidInput
	if err != nil && !unfit {
		return false, err
	}
	payload = engine.Object(payload)
	if unfit || engine.SecretSignal(loaded.Plan, name) {
		if payload, err = s.Vault.SealJSON(ctx, signalAt(key, name), payload); err != nil {
			return false, err
		}
	}
	made, err := db.New().RunSignalInsert(ctx, s.API, db.RunSignalInsertParams{
		WorkspaceID: key.WorkspaceID, RunID: key.ID, Name: name, Payload: payload, Bytes: storage.SignalBytes + int64(len(payload)),
	})
	if err != nil {
		return false, fmt.Errorf("keep signal: %w", err)
	}
	if made.Live && made.Exhausted {
		return true, s.storageExhausted(ctx, key, name)
	}
	return made.Live, nil
}

// storageExhausted refuses a signal that was not kept because the workspace may store no more in
// this month. Nil: it was kept before.
func (s *Service) storageExhausted(ctx context.Context, key notify.Key, name string) error {
	_, err := db.New().RunSignalGet(ctx, s.API, db.RunSignalGetParams{WorkspaceID: key.WorkspaceID, RunID: key.ID, Name: name})
	if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	return billing.Books{}.StorageExhausted(ctx, s.API, key.WorkspaceID)
}

// signalAt is where a signal of a run is sealed for.
func signalAt(key notify.Key, name string) vault.Place {
	return vault.Place{WorkspaceID: key.WorkspaceID, Row: key.ID, Field: vault.Signal(name)}
}

var errRunFinished = &fault.Error{Code: fault.Conflict, Reason: "run_finished", Message: "This run is over, so it takes no signals."}
