-- name: UsagePostMany :exec
-- One posting for each execution that became final. A second one for the same
-- execution violates the primary key and takes the whole transaction with it.
INSERT INTO usage_postings (workspace_id, kind, reference_id, amount)
SELECT i.workspace_id, 'execution', i.reference_id, i.amount
FROM (SELECT
    unnest(@workspace_ids::uuid[]) AS workspace_id,
    unnest(@reference_ids::uuid[]) AS reference_id,
    unnest(@amounts::bigint[])     AS amount) AS i;
