package server

import (
	"context"

	"github.com/weft-automation/weft/gen/api"
)

// ListWorkspaces returns one page of the signed-in person's workspaces.
func (s *Server) ListWorkspaces(ctx context.Context, request api.ListWorkspacesRequestObject) (api.ListWorkspacesResponseObject, error) {
	page, err := s.Workspaces.ListOf(ctx, callOf(ctx).member.ID, limit(request.Params.Limit), value(request.Params.Cursor))
	page.NextCursor = s.bind(ctx, page.NextCursor)
	return api.ListWorkspaces200JSONResponse(page), err
}

// GetWorkspace returns the workspace, with the role of the signed-in person.
func (s *Server) GetWorkspace(ctx context.Context, _ api.GetWorkspaceRequestObject) (api.GetWorkspaceResponseObject, error) {
	member := callOf(ctx).member
	workspace, err := s.Workspaces.Get(ctx, member.WorkspaceID, string(member.Role))
	return api.GetWorkspace200JSONResponse(workspace), err
}
