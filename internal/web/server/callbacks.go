package server

import (
	"context"

	"github.com/weft-automation/weft/gen/api"
)

// ReplayComponentCallback enqueues an additional delivery of a callback and returns the record of
// the execution. It returns NO_CALLBACK or EXECUTION_NOT_FINISHED if the execution has no callback
// or isn't final.
func (s *Server) ReplayComponentCallback(ctx context.Context, request api.ReplayComponentCallbackRequestObject) (api.ReplayComponentCallbackResponseObject, error) {
	if err := s.checkSees(ctx, request.ExecutionID); err != nil {
		return nil, err
	}
	workspaceID := callOf(ctx).principal.WorkspaceID
	if err := s.Callbacks.Replay(ctx, workspaceID, request.ExecutionID, value(request.Params.Force)); err != nil {
		return nil, err
	}
	record, err := s.Executions.Get(ctx, workspaceID, request.ExecutionID)
	return jsonResponse(record), err
}

// ListCallbackAttempts returns one page of a callback's delivery attempts.
func (s *Server) ListCallbackAttempts(ctx context.Context, request api.ListCallbackAttemptsRequestObject) (api.ListCallbackAttemptsResponseObject, error) {
	if err := s.checkSees(ctx, request.ExecutionID); err != nil {
		return nil, err
	}
	page, err := s.Callbacks.Attempts(ctx, callOf(ctx).principal.WorkspaceID, request.ExecutionID,
		limit(request.Params.Limit), value(request.Params.Cursor))
	page.NextCursor = s.bind(ctx, page.NextCursor)
	return api.ListCallbackAttempts200JSONResponse(page), err
}
