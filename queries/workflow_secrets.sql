-- name: WorkflowSecretsInsert :exec
INSERT INTO workflow_secrets (workspace_id, id, workflow_id, version, sealed) VALUES (@workspace_id, @id, @workflow_id, @version, @sealed);

-- name: WorkflowSecretsGet :one
SELECT id, sealed FROM workflow_secrets
WHERE workspace_id = @workspace_id AND workflow_id = @workflow_id AND version = @version;

-- name: WorkflowSecretsListSealed :many
-- A page of secrets in order of their ids. stale is set if the secret is not sealed under the key
-- of the header.
SELECT page.workspace_id, page.id,
       (CASE WHEN substring(page.sealed FROM 1 FOR octet_length(@header::bytea)) <> @header::bytea THEN page.sealed END)::bytea AS stale
FROM (SELECT s.workspace_id, s.id, s.sealed FROM workflow_secrets s WHERE s.id > @after ORDER BY s.id LIMIT @max_rows) AS page
ORDER BY page.id;

-- name: WorkflowSecretsListHeaders :many
-- The headers of the oldest and newest secrets, which name the key.
SELECT substring(seen.sealed FROM 1 FOR 66)::bytea AS header
FROM ((SELECT o.sealed FROM workflow_secrets o ORDER BY o.id LIMIT @each)
      UNION ALL
      (SELECT n.sealed FROM workflow_secrets n ORDER BY n.id DESC LIMIT @each)) AS seen;

-- name: WorkflowSecretsReseal :execrows
-- Replaces secrets by their resealed form. It skips rows that are locked or changed.
UPDATE workflow_secrets s SET sealed = free.fresh
FROM (SELECT l.workspace_id, l.id, i.fresh FROM workflow_secrets l
      JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@ids::uuid[]) AS id,
                   unnest(@stale::bytea[]) AS stale, unnest(@fresh::bytea[]) AS fresh) AS i
        ON l.workspace_id = i.workspace_id AND l.id = i.id AND l.sealed = i.stale
      FOR UPDATE OF l SKIP LOCKED) AS free
WHERE s.workspace_id = free.workspace_id AND s.id = free.id;
