-- name: PostingInsertExecutions :exec
-- One posting for each execution that became final. A second one for the same
-- execution violates the key and takes the whole transaction with it.
INSERT INTO credit_postings (workspace_id, id, kind, reference, allowance, usage)
SELECT i.workspace_id, i.id, 'EXECUTION', i.execution_id::text, -i.amount, i.amount
FROM (SELECT
    unnest(@workspace_ids::uuid[]) AS workspace_id,
    unnest(@ids::uuid[])           AS id,
    unnest(@execution_ids::uuid[]) AS execution_id,
    unnest(@amounts::bigint[])     AS amount) AS i;
