-- name: RunComponentList :many
-- The stages of a run by component, in the order in which their first stages were created: how many
-- stages are in each state, when the first started and the last ended, and the first that failed.
-- A stage whose execution has started is running. next_attempt_at is the next retry. A missing time or ID is the zero value.
SELECT s.component_id, min(s.module)::text AS module, count(*) AS total,
       count(*) FILTER (WHERE s.status = 'COMPLETED') AS completed,
       count(*) FILTER (WHERE s.status = 'FAILED') AS failed,
       count(*) FILTER (WHERE s.status = 'CANCELED') AS canceled,
       count(*) FILTER (WHERE s.finished_at IS NULL AND (s.status = 'RUNNING' OR e.status = 'EXECUTING')) AS running,
       count(s.signal) FILTER (WHERE s.finished_at IS NULL) AS waiting,
       COALESCE(min(COALESCE(s.started_at, e.first_attempt_at, e.attempt_started_at)), '0001-01-01 00:00:00+00')::timestamptz AS started_at,
       COALESCE(max(s.finished_at), '0001-01-01 00:00:00+00')::timestamptz AS finished_at,
       COALESCE(min(e.not_before) FILTER (WHERE e.attempt > 0 AND NOT e.continuing), '0001-01-01 00:00:00+00')::timestamptz AS next_attempt_at,
       sum(s.usage)::bigint AS usage, max(GREATEST(s.attempt, e.attempt))::integer AS attempt,
       COALESCE(sum(CASE WHEN s.module = 'REPEAT' THEN s.next_item ELSE s.item_count END), 0)::bigint AS items, min(s.id::text)::uuid AS first_id,
       COALESCE(min(s.id::text) FILTER (WHERE s.status = 'FAILED'), '00000000-0000-0000-0000-000000000000')::uuid AS failed_id
FROM run_stages s
LEFT JOIN LATERAL (
    SELECT x.status, x.attempt, x.continuing, x.not_before, x.first_attempt_at, x.attempt_started_at FROM component_executions x
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

-- name: RunCountFailures :many
-- The runs since a time that failed, by the code of their error. least is at most the least ID of that
-- time. It reads at most max_walked runs.
SELECT COALESCE(f.error->>'code', '')::text AS code, count(*) AS failed
FROM (
    SELECT r.error FROM workflow_runs r
    WHERE r.workspace_id = @workspace_id AND r.id >= @least AND r.finished_at IS NOT NULL AND r.error IS NOT NULL
      AND r.status = 'FAILED' AND r.created_at >= @since
    ORDER BY r.id DESC LIMIT @max_walked
) AS f
GROUP BY 1
ORDER BY 2 DESC, 1
LIMIT @max_rows;

-- name: RunCountLive :one
-- How many runs are not final, up to max_walked, and the ID of the oldest or the zero ID.
SELECT count(*) AS live, COALESCE(min(l.id::text), '00000000-0000-0000-0000-000000000000')::uuid AS oldest
FROM (
    SELECT r.id FROM workflow_runs r
    WHERE r.workspace_id = @workspace_id AND r.finished_at IS NULL
    ORDER BY r.id LIMIT @max_walked
) AS l;
