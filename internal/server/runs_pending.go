package server

import (
	"context"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/contract"
	"github.com/weft-automation/weft/internal/fault"
)

// The operations of runs, until there are runs. No run exists, so whatever names one
// is NOT_FOUND.

func notBuilt() error { return fault.New(fault.Internal, "not built") }

// TriggerWorkflow is not built.
func (s *Server) TriggerWorkflow(ctx context.Context, request api.TriggerWorkflowRequestObject) (api.TriggerWorkflowResponseObject, error) {
	if _, err := s.workflows.Get(ctx, callOf(ctx).principal.WorkspaceID, request.WorkflowID, nil); err != nil {
		return nil, err
	}
	return nil, notBuilt()
}

// QuoteWorkflow is not built.
func (s *Server) QuoteWorkflow(ctx context.Context, request api.QuoteWorkflowRequestObject) (api.QuoteWorkflowResponseObject, error) {
	if _, err := s.workflows.Get(ctx, callOf(ctx).principal.WorkspaceID, request.WorkflowID, nil); err != nil {
		return nil, err
	}
	return nil, notBuilt()
}

// ListWorkflowRuns is not built.
func (s *Server) ListWorkflowRuns(context.Context, api.ListWorkflowRunsRequestObject) (api.ListWorkflowRunsResponseObject, error) {
	return api.ListWorkflowRuns200JSONResponse{Data: []api.WorkflowRun{}}, nil
}

// GetWorkflowRun is not built.
func (s *Server) GetWorkflowRun(context.Context, api.GetWorkflowRunRequestObject) (api.GetWorkflowRunResponseObject, error) {
	return nil, contract.Missing("runId")
}

// StreamWorkflowRun is not built.
func (s *Server) StreamWorkflowRun(context.Context, api.StreamWorkflowRunRequestObject) (api.StreamWorkflowRunResponseObject, error) {
	return nil, contract.Missing("runId")
}

// ListRunStages is not built.
func (s *Server) ListRunStages(context.Context, api.ListRunStagesRequestObject) (api.ListRunStagesResponseObject, error) {
	return nil, contract.Missing("runId")
}

// ListRunEvents is not built.
func (s *Server) ListRunEvents(context.Context, api.ListRunEventsRequestObject) (api.ListRunEventsResponseObject, error) {
	return nil, contract.Missing("runId")
}

// CancelWorkflowRun is not built.
func (s *Server) CancelWorkflowRun(context.Context, api.CancelWorkflowRunRequestObject) (api.CancelWorkflowRunResponseObject, error) {
	return nil, contract.Missing("runId")
}

// SendRunSignal is not built.
func (s *Server) SendRunSignal(context.Context, api.SendRunSignalRequestObject) (api.SendRunSignalResponseObject, error) {
	return nil, contract.Missing("runId")
}
