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
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// maxAwaited limits the signal names that a response lists.
const maxAwaited = 20

// Signal sends a signal to a run and returns the stored signal. Only the first signal of each name
// counts (decisions 8.13). For later signals, it returns the first one. Signal returns CONFLICT if
// the run is finished and has no signal with the name. The payload is sealed if the run waits for
// a secret.
//
// Signal cannot reject a misspelled name, because a workflow may reach its WAIT_FOR_SIGNAL later.
// WaitingFor shows the sender that nothing waits for the name. It is read before the signal is
// stored, because from then on the signal's own stage may finish.
func (s *Service) Signal(ctx context.Context, key notify.Key, access Access, name string, payload json.RawMessage) (api.RunSignal, error) {
	row, err := s.getAllowed(ctx, key, access)
	if err != nil {
		return api.RunSignal{}, err
	}
	awaited, err := s.Awaited(ctx, key)
	if err != nil {
		return api.RunSignal{}, err
	}
	live := !row.Status.Terminal()
	if live {
		if live, err = s.storeSignal(ctx, key, row, name, payload); err != nil {
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
	if first.Payload, err = s.Vault.OpenJSON(ctx, signalPlace(key, name), first.Payload); err != nil {
		return api.RunSignal{}, err
	}
	return api.RunSignal{
		RunID: key.ID, Signal: name, Payload: first.Payload, ReceivedAt: timestamp.Of(first.ReceivedAt), WaitingFor: awaited,
	}, nil
}

// Awaited returns the names of the signals that a run waits for. The caller has checked the access.
func (s *Service) Awaited(ctx context.Context, key notify.Key) ([]string, error) {
	names, err := db.New().StageListAwaitedSignals(ctx, s.API, db.StageListAwaitedSignalsParams{WorkspaceID: key.WorkspaceID, RunID: key.ID, MaxRows: maxAwaited})
	if err != nil {
		return nil, fmt.Errorf("list the signals that a run waits for: %w", err)
	}
	return names, nil
}

// storeSignal stores a signal unless the run already has a signal with the name, and reports
// whether the run is unfinished. During a rollout, the run's version may have modules that this
// process lacks. In that case storeSignal cannot find out whether the signal is secret, so it
// seals the payload.
func (s *Service) storeSignal(ctx context.Context, key notify.Key, row db.RunGetRow, name string, payload json.RawMessage) (live bool, err error) {
	loaded, err := s.Workflows.LoadVersion(ctx, s.API, key.WorkspaceID, row.WorkflowID, row.WorkflowVersion)
	unknown := fault.CodeOf(err) == fault.InvalidInput
	if err != nil && !unknown {
		return false, err
	}
	payload = engine.Object(payload)
	if unknown || engine.SecretSignal(loaded.Plan, name) {
		if payload, err = s.Vault.SealJSON(ctx, signalPlace(key, name), payload); err != nil {
			return false, err
		}
	}
	var made db.RunSignalInsertRow
	err = s.Turns.Do(ctx, key.WorkspaceID, func() error {
		return postgres.Write(ctx, s.API, func(conn postgres.DB) (err error) {
			made, err = db.New().RunSignalInsert(ctx, conn, db.RunSignalInsertParams{
				WorkspaceID: key.WorkspaceID, RunID: key.ID, Name: name, Payload: payload, Bytes: storage.SignalBytes + int64(len(payload)),
			})
			return err
		})
	})
	if err = postgres.Resolve(ctx, s.API, err, func(ctx context.Context) error {
		made.Live = true // if there is a signal: the run was live when it received the signal
		return s.signalStored(ctx, key, name)
	}); err != nil {
		return false, postgres.OutcomeUnknown(fmt.Errorf("store signal: %w", err), "runId", key.ID)
	}
	if made.Live && made.Exhausted {
		return true, s.storageExhausted(ctx, key, name)
	}
	return made.Live, nil
}

// storageExhausted returns the error for a signal that was not stored because the workspace has
// reached its storage limit for the month. It returns nil if the signal was stored before.
func (s *Service) storageExhausted(ctx context.Context, key notify.Key, name string) error {
	if err := s.signalStored(ctx, key, name); !postgres.NotFound(err) {
		return err
	}
	return billing.Books{}.StorageExhausted(ctx, s.API, key.WorkspaceID)
}

// signalStored returns pgx.ErrNoRows if the run has no signal with the name.
func (s *Service) signalStored(ctx context.Context, key notify.Key, name string) error {
	_, err := db.New().RunSignalGet(ctx, s.API, db.RunSignalGetParams{WorkspaceID: key.WorkspaceID, RunID: key.ID, Name: name})
	return err
}

// signalPlace returns the place that the payload of a signal is bound to.
func signalPlace(key notify.Key, name string) vault.Place {
	return vault.Place{WorkspaceID: key.WorkspaceID, Row: key.ID, Field: vault.Signal(name)}
}

var errRunFinished = &fault.Error{Code: fault.Conflict, Reason: "run_finished", Message: "This run is finished, so it accepts no signals."}
