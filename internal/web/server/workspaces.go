package server

import (
	"context"

	"github.com/weft-automation/weft/gen/api"
)

// ListWorkspaces is one page of the workspaces of whoever is signed in.
func (s *Server) ListWorkspaces(ctx context.Context, request api.ListWorkspacesRequestObject) (api.ListWorkspacesResponseObject, error) {
	page, err := s.workspaces.ListOf(ctx, callOf(ctx).member.ID, limit(request.Params.Limit), value(request.Params.Cursor))
	return api.ListWorkspaces200JSONResponse(page), err
}

// GetWorkspace is the workspace as the person sees it.
func (s *Server) GetWorkspace(ctx context.Context, _ api.GetWorkspaceRequestObject) (api.GetWorkspaceResponseObject, error) {
	member := callOf(ctx).member
	workspace, err := s.workspaces.Get(ctx, member.WorkspaceID, string(member.Role))
	return api.GetWorkspace200JSONResponse(workspace), err
}
