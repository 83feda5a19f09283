-- name: OpenCallLock :exec
-- One node at a time judges a cap of a workspace. The keys are sorted.
SELECT pg_advisory_xact_lock(@lock_class::integer, key) FROM unnest(@keys::integer[]) AS key;

-- name: OpenCallSumOthers :many
-- What the other nodes have open, of workspaces. Rows that were not renewed in time count no
-- more: their node is gone.
SELECT workspace_id, sum(waits)::bigint AS waits, sum(streams)::bigint AS streams
FROM open_calls
WHERE workspace_id = ANY(@workspace_ids::uuid[]) AND node <> @node AND expires_at > clock_timestamp()
GROUP BY workspace_id;

-- name: OpenCallUpsertMany :exec
-- waits_end_at is for binaries of before, which say in a refusal when the first wait ends.
INSERT INTO open_calls (workspace_id, node, waits, streams, waits_end_at, expires_at)
SELECT u.workspace_id, @node, u.waits, u.streams, NULL, clock_timestamp() + @life::interval
FROM (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@waits::integer[]) AS waits, unnest(@streams::integer[]) AS streams) u
ORDER BY u.workspace_id
ON CONFLICT (workspace_id, node)
DO UPDATE SET waits = excluded.waits, streams = excluded.streams, waits_end_at = excluded.waits_end_at, expires_at = excluded.expires_at;

-- name: OpenCallDeleteExpired :exec
-- Forgets the rows of nodes that are gone.
DELETE FROM open_calls WHERE expires_at < clock_timestamp() - interval '1 minute';
