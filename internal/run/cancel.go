package run

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/engine"
	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/notify"
	"github.com/weft-automation/weft/internal/timestamp"
)

// Cancel asks for the end of a run: nothing new begins from now on, and it is CANCELED
// when its last stage has stopped. Again is the same. It returns the record as it then
// stands; one that is over stays as it is.
func (s *Service) Cancel(ctx context.Context, key notify.Key, who Access, mode string, reason *string) (api.WorkflowRun, error) {
	if _, err := s.allowed(ctx, key, who); err != nil {
		return api.WorkflowRun{}, err
	}
	if mode == "" {
		mode = engine.CancelGraceful
	}
	if _, err := db.New().RunCancel(ctx, s.API, db.RunCancelParams{WorkspaceID: key.WorkspaceID, ID: key.ID, Mode: mode, Reason: reason}); err != nil {
		return api.WorkflowRun{}, fmt.Errorf("cancel run: %w", err)
	}
	s.Engine.Wake(key)
	return s.Get(ctx, key, who)
}

// Signal gives a run a signal, the first of each name for good (decisions 8.13). CONFLICT
// when the run is over.
func (s *Service) Signal(ctx context.Context, key notify.Key, who Access, name string, payload json.RawMessage) (api.RunSignal, error) {
	if _, err := s.allowed(ctx, key, who); err != nil {
		return api.RunSignal{}, err
	}
	live, err := db.New().RunSignalInsert(ctx, s.API, db.RunSignalInsertParams{
		WorkspaceID: key.WorkspaceID, RunID: key.ID, Name: name, Payload: engine.Object(payload),
	})
	if err != nil {
		return api.RunSignal{}, fmt.Errorf("keep signal: %w", err)
	}
	if !live { // by now
		return api.RunSignal{}, errRunFinished
	}
	s.Engine.Wake(key)
	first, err := db.New().RunSignalGet(ctx, s.API, db.RunSignalGetParams{WorkspaceID: key.WorkspaceID, RunID: key.ID, Name: name})
	if err != nil {
		return api.RunSignal{}, fmt.Errorf("read signal: %w", err)
	}
	return api.RunSignal{RunID: key.ID, Signal: name, Payload: first.Payload, ReceivedAt: timestamp.Of(first.ReceivedAt)}, nil
}

var errRunFinished = &fault.Error{Code: fault.Conflict, Reason: "run_finished", Message: "This run is over, so it takes no signals."}
