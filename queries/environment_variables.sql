-- name: VariableList :many
-- A page of the variables, newest first.
SELECT id, name, description, secret, sealed, created_at, updated_at FROM environment_variables
WHERE workspace_id = @workspace_id AND id < @before ORDER BY id DESC LIMIT @max_rows;

-- name: VariableListNamed :many
-- The variables with these names. Unknown names are left out.
SELECT id, name, secret, sealed FROM environment_variables
WHERE workspace_id = @workspace_id AND name = ANY (@names::text[]);

-- name: VariableGet :one
SELECT id, name, description, secret, sealed, created_at, updated_at FROM environment_variables
WHERE workspace_id = @workspace_id AND name = @name;

-- name: VariableCount :one
SELECT count(*) FROM environment_variables WHERE workspace_id = @workspace_id;

-- name: VariableInsert :one
INSERT INTO environment_variables (workspace_id, id, name, description, secret, sealed)
VALUES (@workspace_id, @id, @name, @description, @secret, @sealed)
RETURNING created_at, updated_at;

-- name: VariableUpdate :one
UPDATE environment_variables SET description = @description, secret = @secret, sealed = @sealed, updated_at = GREATEST(updated_at, now())
WHERE workspace_id = @workspace_id AND id = @id
RETURNING created_at, updated_at;

-- name: VariableDelete :exec
DELETE FROM environment_variables WHERE workspace_id = @workspace_id AND id = @id;

-- name: VariableListSealed :many
-- A page of variables in order of their ids. stale is set if the value is not sealed under the
-- key of the header.
SELECT page.workspace_id, page.id,
       (CASE WHEN substring(page.sealed FROM 1 FOR octet_length(@header::bytea)) <> @header::bytea THEN page.sealed END)::bytea AS stale
FROM (SELECT v.workspace_id, v.id, v.sealed FROM environment_variables v WHERE v.id > @after ORDER BY v.id LIMIT @max_rows) AS page
ORDER BY page.id;

-- name: VariableListHeaders :many
-- The headers of the oldest and newest values, which name the key.
SELECT substring(seen.sealed FROM 1 FOR 66)::bytea AS header
FROM ((SELECT o.sealed FROM environment_variables o ORDER BY o.id LIMIT @each)
      UNION ALL
      (SELECT n.sealed FROM environment_variables n ORDER BY n.id DESC LIMIT @each)) AS seen;

-- name: VariableReseal :execrows
-- Replaces values by their resealed form. It skips rows that are locked or changed.
UPDATE environment_variables v SET sealed = free.fresh
FROM (SELECT l.workspace_id, l.id, i.fresh FROM environment_variables l
      JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@ids::uuid[]) AS id,
                   unnest(@stale::bytea[]) AS stale, unnest(@fresh::bytea[]) AS fresh) AS i
        ON l.workspace_id = i.workspace_id AND l.id = i.id AND l.sealed = i.stale
      FOR UPDATE OF l SKIP LOCKED) AS free
WHERE v.workspace_id = free.workspace_id AND v.id = free.id;
