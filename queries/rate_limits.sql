-- name: RateLimitLock :many
-- Locks the states of workspaces, always in the same order, and returns the time after each lock.
-- The time is the database's, so clocks of nodes do not matter.
SELECT locked.workspace_id, locked.state, clock_timestamp()::timestamptz AS now
FROM (SELECT workspace_id, state FROM rate_limits WHERE workspace_id = ANY(@workspace_ids::uuid[])
      ORDER BY workspace_id FOR UPDATE) AS locked;

-- name: RateLimitInsertMany :exec
-- Inserts missing rows. Do not call it in the transaction that locks: a transaction that waits
-- here for another's row must not hold any.
INSERT INTO rate_limits (workspace_id, state, updated_at)
SELECT id, '', clock_timestamp() FROM unnest(@workspace_ids::uuid[]) AS id ORDER BY id
ON CONFLICT (workspace_id) DO NOTHING;

-- name: RateLimitUpdateMany :exec
UPDATE rate_limits r SET state = u.state, updated_at = clock_timestamp()
FROM (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@states::bytea[]) AS state) u
WHERE r.workspace_id = u.workspace_id;
