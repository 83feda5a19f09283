-- name: APIKeyInsert :one
INSERT INTO api_keys (workspace_id, id, label, key_hash, key_hint, public_key, allowed_workflow_ids, created_by, root_id)
VALUES (@workspace_id, @id, @label, @key_hash, @key_hint, @public_key, @allowed_workflow_ids, sqlc.narg('created_by'), sqlc.narg('root_id'))
RETURNING created_at;

-- name: APIKeyCount :one
-- The keys of a workspace that are accepted, and those of them that no rotation has replaced.
SELECT count(*) AS accepted, count(*) FILTER (WHERE replaced_by IS NULL) AS active FROM api_keys
WHERE workspace_id = @workspace_id AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now());

-- name: APIKeyGetByHash :one
-- Finds a key, and with it its workspace. This is the only lookup by key across workspaces.
-- predecessors are the keys that rotations replaced with this one, if it is restricted: an
-- unrestricted key sees every execution.
WITH RECURSIVE rotations AS (
    SELECT f.workspace_id, f.id FROM api_keys f WHERE f.key_hash = @key_hash AND cardinality(f.allowed_workflow_ids) > 0
    UNION
    SELECT p.workspace_id, p.id FROM rotations r JOIN api_keys p ON p.workspace_id = r.workspace_id AND p.replaced_by = r.id
)
SELECT k.workspace_id, k.id, COALESCE(k.root_id, k.id) AS root_id, k.public_key, k.allowed_workflow_ids,
       (k.revoked_at IS NOT NULL OR COALESCE(k.expires_at <= now(), false))::boolean AS over,
       ARRAY(SELECT r.id FROM rotations r WHERE r.id <> k.id)::uuid[] AS predecessors
FROM api_keys k WHERE k.key_hash = @key_hash;

-- name: APIKeyList :many
-- A page of the keys, newest first, optionally without revoked and expired keys.
SELECT id, label, key_hint, allowed_workflow_ids, created_at, revoked_at, expires_at, replaced_by FROM api_keys
WHERE workspace_id = @workspace_id AND id < @before
    AND (NOT @only_active::boolean OR (revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())))
ORDER BY id DESC LIMIT @max_rows;

-- name: APIKeyGetForUpdate :one
SELECT id, COALESCE(root_id, id) AS root_id, label, key_hint, allowed_workflow_ids, created_at, revoked_at, expires_at, replaced_by,
       (revoked_at IS NULL AND replaced_by IS NULL AND (expires_at IS NULL OR expires_at > now()))::boolean AS active
FROM api_keys WHERE workspace_id = @workspace_id AND id = @id FOR UPDATE;

-- name: APIKeyRevoke :one
-- Idempotent.
UPDATE api_keys SET revoked_at = COALESCE(revoked_at, now()) WHERE workspace_id = @workspace_id AND id = @id
RETURNING id, label, key_hint, allowed_workflow_ids, created_at, revoked_at, expires_at, replaced_by;

-- name: APIKeyReplace :one
-- Sets the successor of a key, and when the key expires. Until then both are valid.
UPDATE api_keys SET replaced_by = @replaced_by, expires_at = now() + @overlap::interval
WHERE workspace_id = @workspace_id AND id = @id
RETURNING expires_at;

-- name: APIKeyListInactive :many
-- Those of the keys that are revoked or expired. Two workspaces may have keys with the same id.
SELECT k.workspace_id, k.id FROM api_keys k
JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@ids::uuid[]) AS id) AS i
  ON k.workspace_id = i.workspace_id AND k.id = i.id
WHERE k.revoked_at IS NOT NULL OR k.expires_at <= now();

-- name: APIKeyMayUse :one
-- Whether a key may be used on a workflow (contract 5.1).
SELECT (cardinality(allowed_workflow_ids) = 0 OR @workflow_id::uuid = ANY (allowed_workflow_ids))::boolean AS may
FROM api_keys WHERE workspace_id = @workspace_id AND id = @id;
