package server

import (
	"context"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// ListAPIKeys is one page of the keys.
func (s *Server) ListAPIKeys(ctx context.Context, request api.ListAPIKeysRequestObject) (api.ListAPIKeysResponseObject, error) {
	keys, err := s.keys.Page(ctx, callOf(ctx).member.WorkspaceID, limit(request.Params.Limit), value(request.Params.Cursor))
	return api.ListAPIKeys200JSONResponse(keys), err
}

// CreateAPIKey makes a key and shows it, this once.
func (s *Server) CreateAPIKey(ctx context.Context, request api.CreateAPIKeyRequestObject) (api.CreateAPIKeyResponseObject, error) {
	member := callOf(ctx).member
	made, err := s.keys.Create(ctx, auth.CreateParams{
		WorkspaceID: member.WorkspaceID, Label: request.Body.Label, AllowedWorkflowIDs: request.Body.AllowedWorkflowIds, CreatedBy: &member.ID, May: member.MayManage,
	})
	return api.CreateAPIKey200JSONResponse(shown(made)), err
}

// shown is a new key as the one answer that shows it.
func shown(made auth.Created) api.CreatedAPIKey {
	return api.CreatedAPIKey{
		ID: made.KeyID, Label: made.Label, APIKey: made.APIKey, APISecret: made.APISecret,
		AllowedWorkflowIds: made.AllowedWorkflowIDs, CreatedAt: timestamp.Of(made.CreatedAt),
	}
}

// RevokeAPIKey ends a key for good.
func (s *Server) RevokeAPIKey(ctx context.Context, request api.RevokeAPIKeyRequestObject) (api.RevokeAPIKeyResponseObject, error) {
	key, err := s.keys.Revoke(ctx, callOf(ctx).member.WorkspaceID, request.KeyID)
	return api.RevokeAPIKey200JSONResponse(key), err
}

// RotateAPIKey makes the successor of a key and shows it, this once.
func (s *Server) RotateAPIKey(ctx context.Context, request api.RotateAPIKeyRequestObject) (api.RotateAPIKeyResponseObject, error) {
	member := callOf(ctx).member
	var overlap time.Duration
	if request.Body != nil {
		overlap = time.Duration(value(request.Body.OverlapSeconds)) * time.Second
	}
	made, err := s.keys.Rotate(ctx, auth.RotateParams{
		WorkspaceID: member.WorkspaceID, KeyID: request.KeyID, Overlap: overlap, By: &member.ID, May: member.MayManage,
	})
	answer := shown(made)
	if old := made.Replaces; old != nil {
		answer.Replaces = &api.ReplacedAPIKey{ID: request.KeyID, ExpiresAt: timestamp.Of(old.EndsAt)}
	}
	return api.RotateAPIKey200JSONResponse(answer), err
}
