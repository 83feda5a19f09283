-- name: APIKeyInsert :exec
INSERT INTO api_keys (workspace_id, id, label, key_hash, key_hint, public_key, allowed_workflow_ids)
VALUES (@workspace_id, @id, @label, @key_hash, @key_hint, @public_key, @allowed_workflow_ids);

-- name: APIKeyGetByHash :one
-- The one look-up that spans workspaces: it finds the workspace.
SELECT workspace_id, id, public_key, allowed_workflow_ids, revoked_at FROM api_keys WHERE key_hash = @key_hash;

-- name: APIKeyList :many
SELECT workspace_id, id, label, key_hint, allowed_workflow_ids, created_at, revoked_at FROM api_keys
WHERE workspace_id = @workspace_id ORDER BY id DESC;

-- name: APIKeyRevoke :execrows
UPDATE api_keys SET revoked_at = COALESCE(revoked_at, now()) WHERE workspace_id = @workspace_id AND id = @id;

-- name: APIKeyListRevoked :many
-- Of the given keys those that are revoked.
SELECT id FROM api_keys WHERE id = ANY(@ids::uuid[]) AND revoked_at IS NOT NULL;
