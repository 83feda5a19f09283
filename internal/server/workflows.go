package server

import (
	"context"

	"github.com/weft-automation/weft/gen/api"
)

// CreateWorkflow is not built.
func (s *Server) CreateWorkflow(context.Context, api.CreateWorkflowRequestObject) (api.CreateWorkflowResponseObject, error) {
	return nil, notBuilt()
}

// ListWorkflows is not built.
func (s *Server) ListWorkflows(context.Context, api.ListWorkflowsRequestObject) (api.ListWorkflowsResponseObject, error) {
	return nil, notBuilt()
}

// GetWorkflow is not built.
func (s *Server) GetWorkflow(context.Context, api.GetWorkflowRequestObject) (api.GetWorkflowResponseObject, error) {
	return nil, notBuilt()
}

// ReplaceWorkflow is not built.
func (s *Server) ReplaceWorkflow(context.Context, api.ReplaceWorkflowRequestObject) (api.ReplaceWorkflowResponseObject, error) {
	return nil, notBuilt()
}

// ArchiveWorkflow is not built.
func (s *Server) ArchiveWorkflow(context.Context, api.ArchiveWorkflowRequestObject) (api.ArchiveWorkflowResponseObject, error) {
	return nil, notBuilt()
}

// UpdateWorkflowComponent is not built.
func (s *Server) UpdateWorkflowComponent(context.Context, api.UpdateWorkflowComponentRequestObject) (api.UpdateWorkflowComponentResponseObject, error) {
	return nil, notBuilt()
}
