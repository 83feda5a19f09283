-- name: IdempotencyLock :exec
-- Locks the scope of a key until the transaction ends. Raises WF005 if another transaction holds it:
-- the first request has not committed yet.
SELECT must(pg_try_advisory_xact_lock(@scope::bigint), 'WF005');

-- name: IdempotencyGet :one
SELECT body_hash, resource_id FROM idempotency_keys
WHERE workspace_id = @workspace_id AND operation = @operation AND path = @path AND key = @key
  AND created_at > now() - interval '24 hours';

-- name: IdempotencyUpsert :exec
INSERT INTO idempotency_keys (workspace_id, operation, path, key, body_hash, resource_id)
VALUES (@workspace_id, @operation, @path, @key, @body_hash, @resource_id)
ON CONFLICT (workspace_id, operation, path, key) DO UPDATE
SET body_hash = excluded.body_hash, resource_id = excluded.resource_id, created_at = now();

-- name: IdempotencyDeleteExpired :execrows
-- Deletes expired keys. The age is checked again outside the subquery, because a key may have
-- been used again while this statement waited for its row.
DELETE FROM idempotency_keys d WHERE d.created_at < now() - interval '24 hours' AND (d.workspace_id, d.operation, d.path, d.key) IN (
    SELECT k.workspace_id, k.operation, k.path, k.key FROM idempotency_keys k
    WHERE k.created_at < now() - interval '24 hours' LIMIT 5000);
