-- name: PostingInsert :execrows
-- Inserts a posting, unless the workspace has one with the same kind and reference: then it
-- changes 0 rows.
INSERT INTO credit_postings (workspace_id, id, kind, reference, plan, paid, granted, released, expired, note, created_at)
VALUES (@workspace_id, new_id(), @kind, @reference, @plan, @paid, @granted, @released, @expired, sqlc.narg('note'), @created_at)
ON CONFLICT (workspace_id, kind, reference) DO NOTHING;

-- name: PostingGetPaid :one
-- The change of the paid credits by a posting.
SELECT paid FROM credit_postings WHERE workspace_id = @workspace_id AND kind = @kind AND reference = @reference;

-- name: PostingSumPlanUsed :one
-- The plan credits used since a time. The bound on the ids leaves a day of slack.
SELECT COALESCE(-sum(plan), 0)::bigint AS used FROM credit_postings
WHERE workspace_id = @workspace_id AND usage > 0 AND created_at >= @since::timestamptz
  AND id >= least_id(sqlc.arg('since')::timestamptz - interval '1 day');

-- name: PostingList :many
-- The statement, newest first, after the cursor. Ids are UUIDv7, so they are ordered by time. The
-- days are those of created_at, which comes from a different clock. The bounds on the ids limit
-- how many rows are read, with a day of slack.
SELECT * FROM credit_postings
WHERE workspace_id = @workspace_id AND id < @before AND created_at >= @since::timestamptz AND created_at < @until::timestamptz
  AND id < least_id(sqlc.arg('until')::timestamptz + interval '1 day') AND id >= least_id(sqlc.arg('since')::timestamptz - interval '1 day')
ORDER BY id DESC
LIMIT @max_rows;

-- name: PostingAudit :many
-- Postings whose entries do not sum to zero, and charges whose execution or run is missing
-- although its week still exists.
SELECT p.workspace_id, p.id, p.kind, p.reference,
       (p.plan + p.paid + p.allowance + p.usage + p.granted + p.released + p.expired)::bigint AS rest
FROM credit_postings p
WHERE p.workspace_id = ANY (@workspace_ids::uuid[]) AND p.id > @after AND p.id <= @upto
  AND (p.plan + p.paid + p.allowance + p.usage + p.granted + p.released + p.expired <> 0
       OR (p.kind = 'EXECUTION' AND CASE WHEN p.reference ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
            THEN to_regclass('component_executions' || to_char(time_of(p.reference::uuid) AT TIME ZONE 'UTC', '"_"IYYY"w"IW')) IS NOT NULL
                 AND NOT EXISTS (SELECT FROM component_executions e WHERE e.workspace_id = p.workspace_id AND e.id = p.reference::uuid)
            ELSE true END)
       OR (p.kind = 'RUN' AND CASE WHEN p.reference ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
            THEN to_regclass('workflow_runs' || to_char(time_of(p.reference::uuid) AT TIME ZONE 'UTC', '"_"IYYY"w"IW')) IS NOT NULL
                 AND NOT EXISTS (SELECT FROM workflow_runs r WHERE r.workspace_id = p.workspace_id AND r.id = p.reference::uuid)
            ELSE true END))
ORDER BY p.workspace_id, p.id
LIMIT @max_rows;
