package server

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// setParams returns the parameters of Set for a request body. It returns INVALID_INPUT for fields that don't
// belong to the kind of the variable.
func setParams(workspaceID uuid.UUID, name string, body *api.SetEnvironmentVariableRequest) (environment.SetParams, error) {
	p := environment.SetParams{WorkspaceID: workspaceID, Name: name, Kind: value(body.Kind), Value: value(body.Value), Secret: body.Secret, Description: body.Description}
	of := map[string]*string{
		"/tokenUrl": body.TokenURL, "/clientId": body.ClientID, "/clientSecret": body.ClientSecret, "/scope": body.Scope, "/audience": body.Audience, "/clientAuth": body.ClientAuth,
	}
	if p.Kind == environment.KindToken {
		if body.Value != nil {
			return p, fault.InvalidAt("/value", "must be absent for the kind oauth2")
		}
		p.Client = &environment.Client{
			TokenURL: value(body.TokenURL), ID: value(body.ClientID), Secret: value(body.ClientSecret),
			Scope: value(body.Scope), Audience: value(body.Audience), Auth: value(body.ClientAuth),
		}
		return p, nil
	}
	for _, pointer := range slices.Sorted(maps.Keys(of)) {
		if of[pointer] != nil {
			return p, fault.InvalidAt(pointer, "needs \"kind\": \"oauth2\" next to it")
		}
	}
	if body.Value == nil {
		return p, fault.InvalidAt("/value", "is required, unless kind is oauth2")
	}
	return p, nil
}

// setVariable sets a variable.
func (s *Server) setVariable(ctx context.Context, workspaceID uuid.UUID, name string, body *api.SetEnvironmentVariableRequest) (api.EnvironmentVariable, error) {
	p, err := setParams(workspaceID, name, body)
	if err != nil {
		return api.EnvironmentVariable{}, err
	}
	return s.Environment.Set(ctx, p)
}

// ListEnvironmentVariables returns one page of the variables of the key's workspace.
func (s *Server) ListEnvironmentVariables(ctx context.Context, request api.ListEnvironmentVariablesRequestObject) (api.ListEnvironmentVariablesResponseObject, error) {
	page, err := s.Environment.List(ctx, callOf(ctx).principal.WorkspaceID, limit(request.Params.Limit), value(request.Params.Cursor))
	page.NextCursor = s.bind(ctx, page.NextCursor)
	return api.ListEnvironmentVariables200JSONResponse(page), err
}

// SetEnvironmentVariable sets a variable.
func (s *Server) SetEnvironmentVariable(ctx context.Context, request api.SetEnvironmentVariableRequestObject) (api.SetEnvironmentVariableResponseObject, error) {
	set, err := s.setVariable(ctx, callOf(ctx).principal.WorkspaceID, request.Name, request.Body)
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
	set, err := s.setVariable(ctx, callOf(ctx).member.WorkspaceID, request.Name, request.Body)
	return api.SetWorkspaceEnvironmentVariable200JSONResponse(set), err
}

// DeleteWorkspaceEnvironmentVariable deletes a variable on behalf of a member.
func (s *Server) DeleteWorkspaceEnvironmentVariable(ctx context.Context, request api.DeleteWorkspaceEnvironmentVariableRequestObject) (api.DeleteWorkspaceEnvironmentVariableResponseObject, error) {
	deleted, err := s.Environment.Delete(ctx, callOf(ctx).member.WorkspaceID, request.Name)
	return api.DeleteWorkspaceEnvironmentVariable200JSONResponse(deleted), err
}
