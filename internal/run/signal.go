package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/engine"
	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/notify"
	"github.com/weft-automation/weft/internal/timestamp"
	"github.com/weft-automation/weft/internal/vault"
)

// Signal gives a run a signal, the first of each name for good (decisions 8.13), however often
// and however late it is given again. CONFLICT when the run is over and has none of the name. What it brings is sealed where the run waits for a secret.
func (s *Service) Signal(ctx context.Context, key notify.Key, who Access, name string, payload json.RawMessage) (api.RunSignal, error) {
	row, err := s.allowed(ctx, key, who)
	if err != nil {
		return api.RunSignal{}, err
	}
	loaded, err := s.Workflows.LoadVersion(ctx, s.API, key.WorkspaceID, row.WorkflowID, row.WorkflowVersion)
	if err != nil {
		return api.RunSignal{}, err
	}
	at := vault.Place{WorkspaceID: key.WorkspaceID, Row: key.ID, Field: vault.Signal(name)}
	payload = engine.Object(payload)
	if engine.SecretSignal(loaded.Plan, name) {
		if payload, err = s.Vault.SealJSON(ctx, at, payload); err != nil {
			return api.RunSignal{}, err
		}
	}
	live, err := db.New().RunSignalInsert(ctx, s.API, db.RunSignalInsertParams{
		WorkspaceID: key.WorkspaceID, RunID: key.ID, Name: name, Payload: payload,
	})
	if err != nil {
		return api.RunSignal{}, fmt.Errorf("keep signal: %w", err)
	}
	if live {
		s.Engine.Wake(key)
	}
	first, err := db.New().RunSignalGet(ctx, s.API, db.RunSignalGetParams{WorkspaceID: key.WorkspaceID, RunID: key.ID, Name: name})
	switch {
	case errors.Is(err, pgx.ErrNoRows) && !live: // by now
		return api.RunSignal{}, errRunFinished
	case err != nil:
		return api.RunSignal{}, fmt.Errorf("read signal: %w", err)
	}
	if first.Payload, err = s.Vault.OpenJSON(ctx, at, first.Payload); err != nil {
		return api.RunSignal{}, err
	}
	return api.RunSignal{RunID: key.ID, Signal: name, Payload: first.Payload, ReceivedAt: timestamp.Of(first.ReceivedAt)}, nil
}

var errRunFinished = &fault.Error{Code: fault.Conflict, Reason: "run_finished", Message: "This run is over, so it takes no signals."}
