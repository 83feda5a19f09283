-- name: HookCount :one
-- The hooks of a workspace, and those of one of its workflows.
SELECT count(*) AS all_hooks, count(*) FILTER (WHERE workflow_id = @workflow_id) AS of_workflow FROM hooks WHERE workspace_id = @workspace_id;

-- name: HookInsert :exec
INSERT INTO hooks (workspace_id, id, workflow_id, name, status, verification, sealed, sealed_token, headers, sealed_previous, respond, deadline_ms)
VALUES (@workspace_id, @id, @workflow_id, @name, @status, @verification, @sealed, @sealed_token, @headers, @sealed_previous, @respond, sqlc.narg('deadline_ms'));

-- name: HookGet :one
SELECT id, workflow_id, name, status, verification, headers, respond, deadline_ms, (sealed_token IS NOT NULL)::boolean AS has_token, (sealed_previous IS NOT NULL)::boolean AS has_previous, refusals, last_at, last_run_id, last_refused_at, last_refusal, refusal_count, created_at, updated_at
FROM hooks WHERE workspace_id = @workspace_id AND id = @id;

-- name: HookGetByID :one
-- A hook by its id alone, in any workspace, with the current time.
SELECT workspace_id, workflow_id, status, verification, headers, respond, deadline_ms, sealed, sealed_previous, sealed_token, now()::timestamptz AS now FROM hooks WHERE id = @id;

-- name: HookLock :one
-- Locks a hook until the transaction ends.
SELECT workflow_id, status, verification, headers, respond, deadline_ms, sealed, sealed_previous, sealed_token FROM hooks WHERE workspace_id = @workspace_id AND id = @id FOR NO KEY UPDATE;

-- name: HookList :many
-- A page of the hooks, newest first, optionally of one workflow and of the workflows that a key
-- is restricted to.
SELECT id, workflow_id, name, status, verification, headers, respond, deadline_ms, (sealed_token IS NOT NULL)::boolean AS has_token, (sealed_previous IS NOT NULL)::boolean AS has_previous, 'null'::jsonb AS refusals, last_at, last_run_id, last_refused_at, last_refusal, refusal_count, created_at, updated_at
FROM hooks
WHERE workspace_id = @workspace_id AND id < @before
  AND (sqlc.narg('workflow_id')::uuid IS NULL OR workflow_id = sqlc.narg('workflow_id')::uuid)
  AND (sqlc.narg('allowed')::uuid[] IS NULL OR workflow_id = ANY (sqlc.narg('allowed')::uuid[]))
ORDER BY id DESC
LIMIT @max_rows;

-- name: HookUpdate :exec
UPDATE hooks SET name = @name, status = @status, verification = @verification, headers = @headers, respond = @respond, deadline_ms = sqlc.narg('deadline_ms'), sealed = @sealed, sealed_token = @sealed_token, sealed_previous = @sealed_previous, updated_at = GREATEST(updated_at, now())
WHERE workspace_id = @workspace_id AND id = @id;

-- name: HookRecordDelivery :execrows
-- Records the last run of a hook, or why the last delivery was refused. It records each at most
-- once per second, because all deliveries of a hook share the row.
UPDATE hooks SET
    last_at         = CASE WHEN sqlc.narg('run_id')::uuid IS NULL THEN last_at ELSE now() END,
    last_run_id     = COALESCE(sqlc.narg('run_id')::uuid, last_run_id),
    last_refused_at = CASE WHEN sqlc.narg('refusal')::text IS NULL THEN last_refused_at ELSE now() END,
    last_refusal    = COALESCE(sqlc.narg('refusal')::text, last_refusal),
    refusals        = CASE
        WHEN sqlc.narg('refusal')::text IS NULL THEN refusals
        ELSE (SELECT jsonb_agg(kept.entry ORDER BY kept.place) FROM (
            SELECT 0::bigint AS place, jsonb_build_object(
                'at', to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'reason', sqlc.narg('refusal')::text,
                'count', 1 + CASE WHEN refusals->0->>'reason' = sqlc.narg('refusal')::text THEN (refusals->0->>'count')::bigint ELSE 0 END) AS entry
            UNION ALL
            (SELECT earlier.place, earlier.entry FROM jsonb_array_elements(refusals) WITH ORDINALITY AS earlier (entry, place)
             WHERE earlier.place > 1 OR earlier.entry->>'reason' <> sqlc.narg('refusal')::text ORDER BY earlier.place LIMIT 19)) AS kept) END,
    refusal_count   = refusal_count + CASE WHEN sqlc.narg('refusal')::text IS NULL THEN 0 ELSE 1 END
WHERE workspace_id = @workspace_id AND id = @id
  AND COALESCE(CASE WHEN sqlc.narg('run_id')::uuid IS NULL THEN last_refused_at ELSE last_at END, '-infinity') < now() - interval '1 second';

-- name: HookDelete :exec
DELETE FROM hooks WHERE workspace_id = @workspace_id AND id = @id;

-- name: HookListSealed :many
-- A page of hooks in order of their ids. stale is set if the secret is not sealed under the key
-- of the header.
SELECT page.workspace_id, page.id,
       (CASE WHEN substring(page.sealed FROM 1 FOR octet_length(@header::bytea)) <> @header::bytea THEN page.sealed END)::bytea AS stale
FROM (SELECT h.workspace_id, h.id, h.sealed FROM hooks h WHERE h.id > @after ORDER BY h.id LIMIT @max_rows) AS page
ORDER BY page.id;

-- name: HookListHeaders :many
-- The headers of the oldest and newest secrets, which name the key.
SELECT substring(seen.sealed FROM 1 FOR 66)::bytea AS header
FROM ((SELECT o.sealed FROM hooks o ORDER BY o.id LIMIT @each)
      UNION ALL
      (SELECT n.sealed FROM hooks n ORDER BY n.id DESC LIMIT @each)) AS seen;

-- name: HookReseal :execrows
-- Replaces secrets by their resealed form. It skips rows that are locked or changed.
UPDATE hooks h SET sealed = free.fresh
FROM (SELECT l.workspace_id, l.id, i.fresh FROM hooks l
      JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@ids::uuid[]) AS id,
                   unnest(@stale::bytea[]) AS stale, unnest(@fresh::bytea[]) AS fresh) AS i
        ON l.workspace_id = i.workspace_id AND l.id = i.id AND l.sealed = i.stale
      FOR UPDATE OF l SKIP LOCKED) AS free
WHERE h.workspace_id = free.workspace_id AND h.id = free.id;

-- name: HookTokenListSealed :many
-- A page of hooks with a token, in order of their ids. stale is set if the token is not sealed
-- under the key of the header.
SELECT page.workspace_id, page.id,
       (CASE WHEN substring(page.sealed_token FROM 1 FOR octet_length(@header::bytea)) <> @header::bytea THEN page.sealed_token END)::bytea AS stale
FROM (SELECT h.workspace_id, h.id, h.sealed_token FROM hooks h WHERE h.id > @after AND h.sealed_token IS NOT NULL ORDER BY h.id LIMIT @max_rows) AS page
ORDER BY page.id;

-- name: HookTokenListHeaders :many
-- The headers of the oldest and newest tokens, which name the key.
SELECT substring(seen.sealed_token FROM 1 FOR 66)::bytea AS header
FROM ((SELECT o.sealed_token FROM hooks o WHERE o.sealed_token IS NOT NULL ORDER BY o.id LIMIT @each)
      UNION ALL
      (SELECT n.sealed_token FROM hooks n WHERE n.sealed_token IS NOT NULL ORDER BY n.id DESC LIMIT @each)) AS seen;

-- name: HookTokenReseal :execrows
-- Replaces tokens by their resealed form. It skips rows that are locked or changed.
UPDATE hooks h SET sealed_token = free.fresh
FROM (SELECT l.workspace_id, l.id, i.fresh FROM hooks l
      JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@ids::uuid[]) AS id,
                   unnest(@stale::bytea[]) AS stale, unnest(@fresh::bytea[]) AS fresh) AS i
        ON l.workspace_id = i.workspace_id AND l.id = i.id AND l.sealed_token = i.stale
      FOR UPDATE OF l SKIP LOCKED) AS free
WHERE h.workspace_id = free.workspace_id AND h.id = free.id;

-- name: HookPreviousListSealed :many
-- A page of hooks with a previous secret, in order of their ids. stale is set if the previous secret is not sealed
-- under the key of the header.
SELECT page.workspace_id, page.id,
       (CASE WHEN substring(page.sealed_previous FROM 1 FOR octet_length(@header::bytea)) <> @header::bytea THEN page.sealed_previous END)::bytea AS stale
FROM (SELECT h.workspace_id, h.id, h.sealed_previous FROM hooks h WHERE h.id > @after AND h.sealed_previous IS NOT NULL ORDER BY h.id LIMIT @max_rows) AS page
ORDER BY page.id;

-- name: HookPreviousListHeaders :many
-- The headers of the oldest and newest previous secrets, which name the key.
SELECT substring(seen.sealed_previous FROM 1 FOR 66)::bytea AS header
FROM ((SELECT o.sealed_previous FROM hooks o WHERE o.sealed_previous IS NOT NULL ORDER BY o.id LIMIT @each)
      UNION ALL
      (SELECT n.sealed_previous FROM hooks n WHERE n.sealed_previous IS NOT NULL ORDER BY n.id DESC LIMIT @each)) AS seen;

-- name: HookPreviousReseal :execrows
-- Replaces previous secrets by their resealed form. It skips rows that are locked or changed.
UPDATE hooks h SET sealed_previous = free.fresh
FROM (SELECT l.workspace_id, l.id, i.fresh FROM hooks l
      JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@ids::uuid[]) AS id,
                   unnest(@stale::bytea[]) AS stale, unnest(@fresh::bytea[]) AS fresh) AS i
        ON l.workspace_id = i.workspace_id AND l.id = i.id AND l.sealed_previous = i.stale
      FOR UPDATE OF l SKIP LOCKED) AS free
WHERE h.workspace_id = free.workspace_id AND h.id = free.id;
