package server

import (
	"context"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// ListAPIKeys returns one page of the workspace's keys.
func (s *Server) ListAPIKeys(ctx context.Context, request api.ListAPIKeysRequestObject) (api.ListAPIKeysResponseObject, error) {
	keys, err := s.Keys.Page(ctx, callOf(ctx).member.WorkspaceID, limit(request.Params.Limit), value(request.Params.Cursor))
	keys.NextCursor = s.bind(ctx, keys.NextCursor)
	return api.ListAPIKeys200JSONResponse(keys), err
}

// CreateAPIKey creates a key. Only this response contains its secret.
func (s *Server) CreateAPIKey(ctx context.Context, request api.CreateAPIKeyRequestObject) (api.CreateAPIKeyResponseObject, error) {
	member := callOf(ctx).member
	created, err := s.Keys.Create(ctx, auth.CreateParams{
		WorkspaceID: member.WorkspaceID, Label: request.Body.Label, AllowedWorkflowIDs: request.Body.AllowedWorkflowIds, CreatedBy: &member.ID, May: member.MayManage,
	})
	return api.CreateAPIKey200JSONResponse(createdKey(created)), err
}

// createdKey returns a new key with its secret, for the response.
func createdKey(created auth.Created) api.CreatedAPIKey {
	return api.CreatedAPIKey{
		ID: created.KeyID, Label: created.Label, APIKey: created.APIKey, APISecret: created.APISecret,
		AllowedWorkflowIds: created.AllowedWorkflowIDs, CreatedAt: timestamp.Of(created.CreatedAt),
	}
}

// RevokeAPIKey revokes a key permanently.
func (s *Server) RevokeAPIKey(ctx context.Context, request api.RevokeAPIKeyRequestObject) (api.RevokeAPIKeyResponseObject, error) {
	key, err := s.Keys.Revoke(ctx, callOf(ctx).member.WorkspaceID, request.KeyID)
	return api.RevokeAPIKey200JSONResponse(key), err
}

// RotateAPIKey creates the successor of a key. Only this response contains its secret. The old
// key expires after the overlap.
func (s *Server) RotateAPIKey(ctx context.Context, request api.RotateAPIKeyRequestObject) (api.RotateAPIKeyResponseObject, error) {
	member := callOf(ctx).member
	var overlap time.Duration
	if request.Body != nil {
		overlap = time.Duration(value(request.Body.OverlapSeconds)) * time.Second
	}
	created, err := s.Keys.Rotate(ctx, auth.RotateParams{
		WorkspaceID: member.WorkspaceID, KeyID: request.KeyID, Overlap: overlap, By: &member.ID, May: member.MayManage,
	})
	answer := createdKey(created)
	if old := created.Replaces; old != nil {
		answer.Replaces = &api.ReplacedAPIKey{ID: request.KeyID, ExpiresAt: timestamp.Of(old.EndsAt)}
	}
	return api.RotateAPIKey200JSONResponse(answer), err
}
