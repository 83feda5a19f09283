package server

import (
	"context"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/environment"
)

// setParams returns the parameters of Set for a request body.
func setParams(workspaceID uuid.UUID, name string, body *api.SetEnvironmentVariableRequest) environment.SetParams {
	return environment.SetParams{WorkspaceID: workspaceID, Name: name, Value: body.Value, Secret: body.Secret, Description: body.Description}
}

// ListEnvironmentVariables returns one page of the variables of the key's workspace.
func (s *Server) ListEnvironmentVariables(ctx context.Context, request api.ListEnvironmentVariablesRequestObject) (api.ListEnvironmentVariablesResponseObject, error) {
	page, err := s.Environment.List(ctx, callOf(ctx).principal.WorkspaceID, limit(request.Params.Limit), value(request.Params.Cursor))
	page.NextCursor = s.bind(ctx, page.NextCursor)
	return api.ListEnvironmentVariables200JSONResponse(page), err
}

// SetEnvironmentVariable sets a variable.
func (s *Server) SetEnvironmentVariable(ctx context.Context, request api.SetEnvironmentVariableRequestObject) (api.SetEnvironmentVariableResponseObject, error) {
	set, err := s.Environment.Set(ctx, setParams(callOf(ctx).principal.WorkspaceID, request.Name, request.Body))
	return api.SetEnvironmentVariable200JSONResponse(set), err
}

// DeleteEnvironmentVariable deletes a variable.
func (s *Server) DeleteEnvironmentVariable(ctx context.Context, request api.DeleteEnvironmentVariableRequestObject) (api.DeleteEnvironmentVariableResponseObject, error) {
	deleted, err := s.Environment.Delete(ctx, callOf(ctx).principal.WorkspaceID, request.Name)
	return api.DeleteEnvironmentVariable200JSONResponse(deleted), err
}

// ListWorkspaceEnvironmentVariables returns one page of the variables, to a member.
func (s *Server) ListWorkspaceEnvironmentVariables(ctx context.Context, request api.ListWorkspaceEnvironmentVariablesRequestObject) (api.ListWorkspaceEnvironmentVariablesResponseObject, error) {
	page, err := s.Environment.List(ctx, callOf(ctx).member.WorkspaceID, limit(request.Params.Limit), value(request.Params.Cursor))
	page.NextCursor = s.bind(ctx, page.NextCursor)
	return api.ListWorkspaceEnvironmentVariables200JSONResponse(page), err
}

// SetWorkspaceEnvironmentVariable sets a variable on behalf of a member.
func (s *Server) SetWorkspaceEnvironmentVariable(ctx context.Context, request api.SetWorkspaceEnvironmentVariableRequestObject) (api.SetWorkspaceEnvironmentVariableResponseObject, error) {
	set, err := s.Environment.Set(ctx, setParams(callOf(ctx).member.WorkspaceID, request.Name, request.Body))
	return api.SetWorkspaceEnvironmentVariable200JSONResponse(set), err
}

// DeleteWorkspaceEnvironmentVariable deletes a variable on behalf of a member.
func (s *Server) DeleteWorkspaceEnvironmentVariable(ctx context.Context, request api.DeleteWorkspaceEnvironmentVariableRequestObject) (api.DeleteWorkspaceEnvironmentVariableResponseObject, error) {
	deleted, err := s.Environment.Delete(ctx, callOf(ctx).member.WorkspaceID, request.Name)
	return api.DeleteWorkspaceEnvironmentVariable200JSONResponse(deleted), err
}
