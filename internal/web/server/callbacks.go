package server

import (
	"context"

	"github.com/weft-automation/weft/gen/api"
)

// ReplayComponentCallback queues another delivery where one is due, and answers
// with the record.
func (s *Server) ReplayComponentCallback(ctx context.Context, request api.ReplayComponentCallbackRequestObject) (api.ReplayComponentCallbackResponseObject, error) {
	if err := s.checkSees(ctx, request.ExecutionID); err != nil {
		return nil, err
	}
	workspaceID := callOf(ctx).principal.WorkspaceID
	if err := s.callbacks.Replay(ctx, workspaceID, request.ExecutionID, value(request.Params.Force)); err != nil {
		return nil, err
	}
	record, err := s.executions.Get(ctx, workspaceID, request.ExecutionID)
	return jsonResponse(record), err
}

// ListCallbackAttempts is one page of the attempts to deliver a callback.
func (s *Server) ListCallbackAttempts(ctx context.Context, request api.ListCallbackAttemptsRequestObject) (api.ListCallbackAttemptsResponseObject, error) {
	if err := s.checkSees(ctx, request.ExecutionID); err != nil {
		return nil, err
	}
	page, err := s.callbacks.Attempts(ctx, callOf(ctx).principal.WorkspaceID, request.ExecutionID,
		limit(request.Params.Limit), value(request.Params.Cursor))
	return api.ListCallbackAttempts200JSONResponse(page), err
}
