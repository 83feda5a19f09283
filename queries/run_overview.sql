-- name: RunComponentList :many
-- The stages of a run by component, in the order in which their first stages were created: how many
-- stages are in each state, when the first started and the last ended, and the first that failed.
-- A stage whose execution has started is running. A missing time or ID is the zero value.
SELECT s.component_id, min(s.module)::text AS module, count(*) AS total,
       count(*) FILTER (WHERE s.status = 'COMPLETED') AS completed,
       count(*) FILTER (WHERE s.status = 'FAILED') AS failed,
       count(*) FILTER (WHERE s.status = 'CANCELED') AS canceled,
       count(*) FILTER (WHERE s.finished_at IS NULL AND (s.status = 'RUNNING' OR e.status = 'EXECUTING')) AS running,
       count(s.signal) FILTER (WHERE s.finished_at IS NULL) AS waiting,
       COALESCE(min(COALESCE(s.started_at, e.attempt_started_at)), '0001-01-01 00:00:00+00')::timestamptz AS started_at,
       COALESCE(max(s.finished_at), '0001-01-01 00:00:00+00')::timestamptz AS finished_at,
       sum(s.usage)::bigint AS usage, max(GREATEST(s.attempt, e.attempt))::integer AS attempt,
       COALESCE(sum(s.item_count), 0)::bigint AS items, min(s.id::text)::uuid AS first_id,
       COALESCE(min(s.id::text) FILTER (WHERE s.status = 'FAILED'), '00000000-0000-0000-0000-000000000000')::uuid AS failed_id
FROM run_stages s
LEFT JOIN LATERAL (
    SELECT x.status, x.attempt, x.attempt_started_at FROM component_executions x
    WHERE s.finished_at IS NULL AND x.workspace_id = s.workspace_id AND x.id = s.execution_id LIMIT 1
) AS e ON true
WHERE s.workspace_id = @workspace_id AND s.run_id = @run_id
GROUP BY s.component_id
ORDER BY min(s.id::text);

-- name: RunItemList :many
-- The items of a loop that have stages, in order: whether a stage of an item failed, was canceled or
-- is unfinished. members are the components in the loop, and outer is the iteration of the loop
-- itself.
SELECT s.iteration[cardinality(sqlc.arg('outer')::integer[]) + 1]::integer AS item, bool_or(s.status = 'FAILED')::boolean AS failed,
       bool_or(s.status = 'CANCELED')::boolean AS canceled, bool_or(s.finished_at IS NULL)::boolean AS unfinished
FROM run_stages s
WHERE s.workspace_id = @workspace_id AND s.run_id = @run_id AND s.component_id = ANY (@members::text[])
  AND s.iteration[1:cardinality(sqlc.arg('outer')::integer[])] = sqlc.arg('outer')::integer[]
GROUP BY 1
ORDER BY 1;
