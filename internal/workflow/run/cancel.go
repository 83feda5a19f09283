package run

import (
	"context"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// Cancel requests the cancellation of a run and of all its descendants. They start nothing new,
// and each run becomes CANCELED when its last stage has stopped. A repeated cancel changes
// nothing, and a finished run stays unchanged. Cancel returns the record of the run, and the
// errors of Get.
func (s *Service) Cancel(ctx context.Context, key notify.Key, access Access, mode string, reason *string) (api.WorkflowRun, error) {
	if _, err := s.getAllowed(ctx, key, access); err != nil {
		return api.WorkflowRun{}, err
	}
	if mode == "" {
		mode = engine.CancelGraceful
	}
	if err := s.Engine.CancelTree(ctx, s.API, key.WorkspaceID, []uuid.UUID{key.ID}, mode, reason); err != nil {
		return api.WorkflowRun{}, err
	}
	s.Engine.Wake(key) // even if the run was canceled before
	return s.Get(ctx, key, access)
}
