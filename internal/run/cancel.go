package run

import (
	"context"
	"fmt"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/engine"
	"github.com/weft-automation/weft/internal/notify"
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
