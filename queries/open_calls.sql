-- name: OpenCallLock :exec
-- Locks caps of workspaces, so that one node at a time checks each. The keys are sorted.
SELECT pg_advisory_xact_lock(@lock_class::integer, key) FROM unnest(@keys::integer[]) AS key;

-- name: OpenCallSumOthers :many
-- The open calls of workspaces on other nodes. Expired rows do not count: their node is gone.
SELECT workspace_id, sum(waits)::bigint AS waits, sum(streams)::bigint AS streams
FROM open_calls
WHERE workspace_id = ANY(@workspace_ids::uuid[]) AND node <> @node AND expires_at > clock_timestamp()
GROUP BY workspace_id;

-- name: OpenCallUpsertMany :exec
-- waits_end_at is for older versions, which return it in a refusal as the time when the first
-- wait ends.
INSERT INTO open_calls (workspace_id, node, waits, streams, waits_end_at, expires_at)
SELECT u.workspace_id, @node, u.waits, u.streams, NULL, clock_timestamp() + @life::interval
FROM (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@waits::integer[]) AS waits, unnest(@streams::integer[]) AS streams) u
ORDER BY u.workspace_id
ON CONFLICT (workspace_id, node)
DO UPDATE SET waits = excluded.waits, streams = excluded.streams, waits_end_at = excluded.waits_end_at, expires_at = excluded.expires_at;

-- name: OpenCallDeleteExpired :exec
-- Deletes the rows of nodes that are gone. The condition on workspace_id holds for every row: with
-- it the plan uses the primary key, because sessions have scans of whole tables disabled.
DELETE FROM open_calls WHERE workspace_id >= '00000000-0000-0000-0000-000000000000' AND expires_at < clock_timestamp() - interval '1 minute';
