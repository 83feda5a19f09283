-- name: OutputKeyGet :one
SELECT sealed FROM output_keys WHERE workspace_id = @workspace_id AND id = @id;

-- name: OutputKeyGetByMaster :one
-- The key of a workspace that was created under a master key.
SELECT id, sealed FROM output_keys WHERE workspace_id = @workspace_id AND master = @master;

-- name: OutputKeyInsert :exec
-- Inserts a key, unless another process has inserted one.
INSERT INTO output_keys (workspace_id, id, master, sealed) VALUES (@workspace_id, @id, @master, @sealed)
ON CONFLICT (workspace_id, master) DO NOTHING;

-- name: OutputKeyListSealed :many
-- A page of keys in order of their ids. stale is set if the key is not sealed under the master
-- key of the header.
SELECT page.workspace_id, page.id,
       (CASE WHEN substring(page.sealed FROM 1 FOR octet_length(@header::bytea)) <> @header::bytea THEN page.sealed END)::bytea AS stale
FROM (SELECT k.workspace_id, k.id, k.sealed FROM output_keys k WHERE k.id > @after ORDER BY k.id LIMIT @max_rows) AS page
ORDER BY page.id;

-- name: OutputKeyListHeaders :many
-- The headers of the oldest and newest keys, which name the master key.
SELECT substring(seen.sealed FROM 1 FOR 66)::bytea AS header
FROM ((SELECT o.sealed FROM output_keys o ORDER BY o.id LIMIT @each)
      UNION ALL
      (SELECT n.sealed FROM output_keys n ORDER BY n.id DESC LIMIT @each)) AS seen;

-- name: OutputKeyReseal :execrows
-- Replaces keys by their resealed form. It skips rows that are locked or changed.
UPDATE output_keys k SET sealed = free.fresh
FROM (SELECT l.workspace_id, l.id, i.fresh FROM output_keys l
      JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@ids::uuid[]) AS id,
                   unnest(@stale::bytea[]) AS stale, unnest(@fresh::bytea[]) AS fresh) AS i
        ON l.workspace_id = i.workspace_id AND l.id = i.id AND l.sealed = i.stale
      FOR UPDATE OF l SKIP LOCKED) AS free
WHERE k.workspace_id = free.workspace_id AND k.id = free.id;
