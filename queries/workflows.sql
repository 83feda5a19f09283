-- name: WorkflowInsert :execrows
-- Inserts a workflow, unless its key is taken. The caller also inserts its first version.
INSERT INTO workflows (workspace_id, id, key, name, description, status) VALUES (@workspace_id, @id, @key, @name, @description, @status)
ON CONFLICT (workspace_id, key) WHERE status <> 'ARCHIVED' DO NOTHING;

-- name: WorkflowListTakenKeys :many
-- Those of the keys that workflows have.
SELECT key FROM workflows WHERE workspace_id = @workspace_id AND key = ANY (@keys::text[]) AND status <> 'ARCHIVED';

-- name: WorkflowFind :one
-- The workflow that has a key.
SELECT id FROM workflows WHERE workspace_id = @workspace_id AND key = @key AND status <> 'ARCHIVED';

-- name: WorkflowListKeys :many
-- Those of the keys and IDs that name workflows. An archived workflow has only its ID.
SELECT id, key, status <> 'ARCHIVED' AS keyed FROM workflows
WHERE workspace_id = @workspace_id AND (id = ANY (@ids::uuid[]) OR key = ANY (@keys::text[]) AND status <> 'ARCHIVED');

-- name: WorkflowGet :one
-- A workflow with one of its versions, by default the latest. Name and description are those of
-- the version.
SELECT w.id, w.key, v.name, v.description, w.status, w.version AS latest, v.version, v.definition, w.created_at, w.updated_at,
       v.created_at AS saved_at
FROM workflows w
JOIN workflow_versions v ON v.workspace_id = w.workspace_id AND v.workflow_id = w.id
  AND v.version = COALESCE(sqlc.narg('version')::integer, w.version)
WHERE w.workspace_id = @workspace_id AND w.id = @id;

-- name: WorkflowLock :one
-- Locks a workflow until the transaction ends. Read it after that: a statement that waits for a
-- row lock sees the other rows as they were when it started.
SELECT version FROM workflows WHERE workspace_id = @workspace_id AND id = @id FOR NO KEY UPDATE;

-- name: WorkflowList :many
-- Newest first, after the cursor, without the definitions. Without a status, it leaves out
-- archived workflows.
SELECT id, key, name, description, status, version, created_at, updated_at FROM workflows
WHERE workspace_id = @workspace_id AND id < @before
  AND CASE WHEN sqlc.narg('status')::text IS NULL THEN status <> 'ARCHIVED' ELSE status = sqlc.narg('status')::text END
ORDER BY id DESC
LIMIT @max_rows;

-- name: WorkflowUpdate :one
-- Starts the next version of a workflow that the caller has locked. The caller inserts the
-- version.
UPDATE workflows SET key = @key, name = @name, description = @description, status = @status, version = version + 1,
    updated_at = GREATEST(updated_at, now())
WHERE workspace_id = @workspace_id AND id = @id
RETURNING version;

-- name: WorkflowArchive :exec
UPDATE workflows SET status = 'ARCHIVED', updated_at = GREATEST(updated_at, now()) WHERE workspace_id = @workspace_id AND id = @id;

-- name: WorkflowGetStatus :one
SELECT status, version FROM workflows WHERE workspace_id = @workspace_id AND id = @id;

-- name: WorkflowListMissing :many
-- The positions, from 0, of ids that are not workflows of the workspace.
SELECT (wanted.position - 1)::integer AS position FROM unnest(@ids::uuid[]) WITH ORDINALITY AS wanted (id, position)
WHERE NOT EXISTS (SELECT FROM workflows w WHERE w.workspace_id = @workspace_id AND w.id = wanted.id)
ORDER BY wanted.position;

-- name: WorkflowListNames :many
SELECT id, name FROM workflows WHERE workspace_id = @workspace_id AND id = ANY (@ids::uuid[]);
