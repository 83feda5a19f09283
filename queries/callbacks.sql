-- name: CallbackInsertMany :exec
INSERT INTO callbacks (workspace_id, execution_id, url, sealed, signed, header_names, created_at)
SELECT i.workspace_id, i.execution_id, i.url, i.sealed, i.signed, string_to_array(i.header_names, ','), now()
FROM (SELECT
    unnest(@workspace_ids::uuid[]) AS workspace_id,
    unnest(@execution_ids::uuid[]) AS execution_id,
    unnest(@urls::text[])          AS url,
    unnest(@sealed::bytea[])       AS sealed,
    unnest(@signed::boolean[])     AS signed,
    unnest(@header_names::text[])  AS header_names) AS i;

-- name: CallbackListForFreeze :many
-- The callbacks of executions that become final in this transaction.
SELECT c.workspace_id, c.execution_id, c.url, c.signed, c.header_names
FROM callbacks c
JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@execution_ids::uuid[]) AS execution_id) AS i
  ON c.workspace_id = i.workspace_id AND c.execution_id = i.execution_id
WHERE c.state = 'PENDING';

-- name: CallbackFreezeMany :exec
-- Freezes the bodies and binds each callback to its delivery job. State moves
-- PENDING -> QUEUED once only.
UPDATE callbacks c SET state = 'QUEUED', body = i.body, job_id = i.job_id
FROM (SELECT
    unnest(@workspace_ids::uuid[]) AS workspace_id,
    unnest(@execution_ids::uuid[]) AS execution_id,
    unnest(@bodies::bytea[])       AS body,
    unnest(@job_ids::bigint[])     AS job_id) AS i
WHERE c.workspace_id = i.workspace_id AND c.execution_id = i.execution_id AND c.state = 'PENDING';

-- name: CallbackListStranded :many
-- Callbacks that are due and have no job that could deliver them.
SELECT c.workspace_id, c.execution_id, c.job_id
FROM callbacks c
LEFT JOIN river.river_job j ON j.id = c.job_id
WHERE c.state = 'QUEUED'
  AND (j.id IS NULL OR j.state NOT IN ('available', 'pending', 'running', 'retryable', 'scheduled'))
ORDER BY c.execution_id
LIMIT @max_rows;
