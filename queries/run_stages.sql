-- name: StageListAwaitedSignals :many
-- The signals that the stages of a run wait for, in order of their names.
SELECT DISTINCT s.signal::text AS signal FROM run_stages s
WHERE s.workspace_id = @workspace_id AND s.run_id = @run_id AND s.finished_at IS NULL AND s.signal IS NOT NULL
ORDER BY 1
LIMIT @max_rows;

-- name: StageListWaiting :many
-- The unfinished stages of a run with the state of what they wait for: an execution, a child run or
-- a signal. ended is the status of a final execution or child run, or empty, and error, usage, bytes
-- (of the output) and ended_at are those of the execution or child run. Executions and child runs are looked
-- up one by one: the planner might turn a join into a scan of all executions of the workspace. If
-- executions is not null, only their stages are listed. The unfinished stages are read before they are
-- sorted: otherwise the planner looks for them among all stages of the run, in the order of their IDs.
WITH live AS MATERIALIZED (
    SELECT x.workspace_id, x.run_id, x.id, x.component_id, x.module, x.iteration, x.status, x.attempt, x.execution_id, x.child_run_id, x.item_count,
           x.next_item, x.live_items, x.failed_items, x.signal, x.wake_at, x.created_at, x.started_at
    FROM run_stages x
    WHERE x.workspace_id = @workspace_id AND x.run_id = @run_id AND x.finished_at IS NULL
      AND (sqlc.narg('executions')::uuid[] IS NULL OR x.execution_id = ANY (sqlc.narg('executions')::uuid[]))
)
SELECT s.id, s.component_id, s.module, s.iteration, s.execution_id, s.child_run_id, s.item_count, s.signal, s.wake_at, s.started_at,
       COALESCE(s.next_item, 0)::integer AS next_item, COALESCE(s.live_items, 0)::integer AS live_items, s.failed_items,
       CASE WHEN e.status IN ('EXECUTING', 'COMPLETED', 'FAILED') THEN 'RUNNING' ELSE s.status END::text AS status,
       GREATEST(s.attempt, e.attempt)::integer AS attempt,
       COALESCE(e.ended, c.ended, '')::text AS ended, COALESCE(e.error, c.error)::json AS error, COALESCE(e.usage, 0)::bigint AS usage, COALESCE(c.used, 0)::bigint AS used_below,
       COALESCE(e.bytes, c.bytes, 0)::bigint AS bytes, (c.bytes IS NOT NULL)::boolean AS responded, COALESCE(e.finished_at, c.finished_at, s.created_at)::timestamptz AS ended_at,
       (s.signal IS NOT NULL AND EXISTS (SELECT FROM run_signals g WHERE g.workspace_id = s.workspace_id AND g.run_id = s.run_id AND g.name = s.signal))::boolean AS signaled
FROM live s
LEFT JOIN LATERAL (
    SELECT x.status, CASE WHEN x.finished_at IS NOT NULL THEN x.status END AS ended, x.error, x.usage, x.attempt, octet_length(x.output::text) AS bytes, x.finished_at
    FROM component_executions x WHERE x.workspace_id = s.workspace_id AND x.id = s.execution_id LIMIT 1
) AS e ON true
LEFT JOIN LATERAL (
    SELECT x.status AS ended, x.error, x.usage + x.usage_below AS used, octet_length(x.output::text) AS bytes, x.finished_at
    FROM workflow_runs x WHERE x.workspace_id = s.workspace_id AND x.id = s.child_run_id AND x.finished_at IS NOT NULL LIMIT 1
) AS c ON true
ORDER BY s.id
LIMIT @max_rows;

-- name: StageListEnded :many
-- The outputs of executions and child runs that completed.
SELECT x.id, x.output FROM component_executions x
WHERE x.workspace_id = @workspace_id AND x.id = ANY (@execution_ids::uuid[]) AND x.status = 'COMPLETED'
UNION ALL
SELECT x.id, COALESCE(x.output, '{}'::json) FROM workflow_runs x
WHERE x.workspace_id = @workspace_id AND x.id = ANY (@child_run_ids::uuid[]) AND x.status = 'COMPLETED';

-- name: StageListStates :many
-- The states of stages by component and iteration. Each is looked up by its key: the planner
-- might turn a join into a scan of all stages of the run.
SELECT s.component_id, s.iteration, s.status, s.port
FROM (SELECT unnest(@component_ids::text[]) AS component_id, unnest(@iterations::text[])::integer[] AS iteration) AS k
JOIN LATERAL (
    SELECT x.component_id, x.iteration, x.status, x.port FROM run_stages x
    WHERE x.workspace_id = @workspace_id AND x.run_id = @run_id AND x.component_id = k.component_id AND x.iteration = k.iteration
    LIMIT 1
) AS s ON true;

-- name: StageListOutputs :many
-- The outputs of stages by component and iteration. source is the row that the output is sealed
-- for, if it is sealed: that of the execution or the child run that produced it.
SELECT s.component_id, s.iteration, s.output, s.source
FROM (SELECT unnest(@component_ids::text[]) AS component_id, unnest(@iterations::text[])::integer[] AS iteration) AS k
JOIN LATERAL (
    SELECT x.component_id, x.iteration, x.status, x.output, COALESCE(x.execution_id, x.child_run_id, x.id)::uuid AS source FROM run_stages x
    WHERE x.workspace_id = @workspace_id AND x.run_id = @run_id AND x.component_id = k.component_id AND x.iteration = k.iteration
    LIMIT 1
) AS s ON true
WHERE s.status = 'COMPLETED';

-- name: StageListCollected :many
-- The outputs of a component in all iterations with a prefix, in their order. They are a range of
-- the key, so iterations of enclosing loops are not read.
SELECT s.iteration, s.output, COALESCE(s.execution_id, s.child_run_id, s.id)::uuid AS source FROM run_stages s
WHERE s.workspace_id = @workspace_id AND s.run_id = @run_id AND s.component_id = @component_id
  AND s.iteration >= @prefix::integer[] AND s.iteration < (@prefix::integer[] || 2147483647)
  AND s.iteration[1:cardinality(@prefix::integer[])] = @prefix::integer[] AND s.status = 'COMPLETED'
ORDER BY s.iteration;

-- name: StageListFailedIterations :many
-- The iterations with a prefix in which one of the components failed.
SELECT s.iteration FROM run_stages s
WHERE s.workspace_id = @workspace_id AND s.run_id = @run_id AND s.component_id = ANY (@component_ids::text[])
  AND s.iteration[1:cardinality(@prefix::integer[])] = @prefix::integer[] AND s.status = 'FAILED';

-- name: StageListFailures :many
-- The errors of a component in all iterations with a prefix. They are a range of the key.
SELECT s.id, s.component_id, s.iteration, s.error FROM run_stages s
WHERE s.workspace_id = @workspace_id AND s.run_id = @run_id AND s.component_id = @component_id
  AND s.iteration >= @prefix::integer[] AND s.iteration < (@prefix::integer[] || 2147483647)
  AND s.iteration[1:cardinality(@prefix::integer[])] = @prefix::integer[] AND s.status = 'FAILED';

-- name: StageGetFirstFailed :one
-- The first failed stage of these components in the iterations with a prefix, in order of
-- iterations, then of the given components.
SELECT s.id, s.component_id, s.iteration, s.error FROM run_stages s
WHERE s.workspace_id = @workspace_id AND s.run_id = @run_id AND s.component_id = ANY (@component_ids::text[])
  AND s.iteration >= @prefix::integer[] AND s.iteration < (@prefix::integer[] || 2147483647)
  AND s.iteration[1:cardinality(@prefix::integer[])] = @prefix::integer[] AND s.status = 'FAILED'
ORDER BY s.iteration, array_position(@component_ids::text[], s.component_id)
LIMIT 1;

-- name: StageListLoops :many
-- Unfinished loops by component and iteration, without their items.
SELECT s.id, s.component_id, s.iteration, s.item_count::integer AS item_count, s.next_item::integer AS next_item,
       s.live_items::integer AS live_items, s.failed_items, s.started_at::timestamptz AS started_at
FROM (SELECT unnest(@component_ids::text[]) AS component_id, unnest(@iterations::text[])::integer[] AS iteration) AS k
JOIN LATERAL (
    SELECT x.id, x.component_id, x.iteration, x.item_count, x.next_item, x.live_items, x.failed_items, x.started_at, x.finished_at FROM run_stages x
    WHERE x.workspace_id = @workspace_id AND x.run_id = @run_id AND x.component_id = k.component_id AND x.iteration = k.iteration
    LIMIT 1
) AS s ON true
WHERE s.finished_at IS NULL AND s.item_count IS NOT NULL;

-- name: StageGetItems :one
SELECT COALESCE(items, '[]'::json) AS items FROM run_stages WHERE workspace_id = @workspace_id AND run_id = @run_id AND id = @id;

-- name: StageInsertMany :exec
-- Inserts stages, some of which are final already. An empty string means null. now is the clock,
-- by which timers are due, and at is the time that the advance writes. Without now, timers start when
-- the stages are inserted: the transaction began before they were decided.
INSERT INTO run_stages
    (workspace_id, run_id, id, component_id, module, name, iteration, status, port, output, error, usage, execution_id, child_run_id,
     items, item_count, next_item, live_items, failed_items, wake_at, signal, dispatched_at, created_at, started_at, updated_at, finished_at)
SELECT @workspace_id, @run_id, i.id, i.component_id, i.module, i.name, i.iteration::integer[], i.status, NULLIF(i.port, ''),
       NULLIF(i.output, '')::json, NULLIF(i.error, '')::json, i.usage,
       NULLIF(i.execution_id, '00000000-0000-0000-0000-000000000000'::uuid), NULLIF(i.child_run_id, '00000000-0000-0000-0000-000000000000'::uuid),
       NULLIF(i.items, '')::json, NULLIF(i.item_count, -1), CASE WHEN i.item_count >= 0 THEN i.next_item END,
       CASE WHEN i.item_count >= 0 THEN i.live_items END, i.failed_items,
       CASE WHEN i.wake_ms > 0 THEN c.now + i.wake_ms * interval '1 millisecond' END, NULLIF(i.signal, ''),
       CASE WHEN i.execution_id <> '00000000-0000-0000-0000-000000000000'::uuid THEN c.at END,
       c.at, CASE WHEN i.status <> 'CREATED' THEN c.at END, c.at, CASE WHEN i.status IN ('COMPLETED', 'FAILED', 'CANCELED') THEN c.at END
FROM (SELECT
    unnest(@ids::uuid[])              AS id,
    unnest(@component_ids::text[])    AS component_id,
    unnest(@modules::text[])          AS module,
    unnest(@names::text[])            AS name,
    unnest(@iterations::text[])       AS iteration,
    unnest(@statuses::text[])         AS status,
    unnest(@ports::text[])            AS port,
    unnest(@outputs::text[])          AS output,
    unnest(@errors::text[])           AS error,
    unnest(@usages::bigint[])         AS usage,
    unnest(@execution_ids::uuid[])    AS execution_id,
    unnest(@child_run_ids::uuid[])    AS child_run_id,
    unnest(@items::text[])            AS items,
    unnest(@item_counts::integer[])   AS item_count,
    unnest(@next_items::integer[])    AS next_item,
    unnest(@live_items::integer[])    AS live_items,
    unnest(@failed_items::integer[])  AS failed_items,
    unnest(@wake_ms::bigint[])        AS wake_ms,
    unnest(@signals::text[])          AS signal) AS i,
    (SELECT COALESCE(sqlc.narg('at')::timestamptz, now()) AS at, COALESCE(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now) AS c;

-- name: StageFinishMany :exec
-- Finishes stages. An empty string means null. The result of an execution or a child run, which must
-- be final, is copied from its row, except status, port and error. The ids are sorted: their bounds are a
-- condition on the key, whatever the planner makes of the list.
UPDATE run_stages s SET
    status = i.status, port = NULLIF(i.port, ''), error = NULLIF(i.error, '')::json,
    output = COALESCE(NULLIF(i.output, '')::json, e.output, CASE WHEN i.status = 'COMPLETED' THEN c.output END),
    usage = COALESCE(e.usage, 0), attempt = COALESCE(GREATEST(e.attempt, 1), s.attempt),
    next_item = CASE WHEN s.item_count IS NOT NULL THEN i.next_item END,
    live_items = CASE WHEN s.item_count IS NOT NULL THEN 0 END, failed_items = i.failed_items,
    started_at = COALESCE(s.started_at, e.first_attempt_at, e.attempt_started_at),
    updated_at = GREATEST(s.updated_at, COALESCE(e.updated_at, c.updated_at, i.at)), finished_at = i.at
FROM (SELECT
    unnest(@ids::uuid[])             AS id,
    unnest(@statuses::text[])        AS status,
    unnest(@ports::text[])           AS port,
    unnest(@outputs::text[])         AS output,
    unnest(@errors::text[])          AS error,
    unnest(@execution_ids::uuid[])   AS execution_id,
    unnest(@child_run_ids::uuid[])   AS child_run_id,
    unnest(@ats::timestamptz[])      AS at,
    unnest(@next_items::integer[])   AS next_item,
    unnest(@failed_items::integer[]) AS failed_items) AS i
LEFT JOIN LATERAL (
    SELECT x.output, x.usage, x.attempt, x.first_attempt_at, x.attempt_started_at, x.updated_at
    FROM component_executions x WHERE x.workspace_id = @workspace_id AND x.id = i.execution_id LIMIT 1
) AS e ON true
LEFT JOIN LATERAL (
    SELECT x.output, x.updated_at
    FROM workflow_runs x WHERE x.workspace_id = @workspace_id AND x.id = i.child_run_id LIMIT 1
) AS c ON true
WHERE s.workspace_id = @workspace_id AND s.run_id = @run_id AND s.id = i.id
  AND s.id BETWEEN (@ids::uuid[])[1] AND (@ids::uuid[])[cardinality(@ids::uuid[])];

-- name: StageAdvanceLoops :exec
-- Stores the progress of loops. The ids are sorted: their bounds are a condition on the key,
-- whatever the planner makes of the list.
UPDATE run_stages s SET next_item = i.next_item, live_items = i.live_items, failed_items = i.failed_items, updated_at = GREATEST(s.updated_at, @at::timestamptz)
FROM (SELECT
    unnest(@ids::uuid[])             AS id,
    unnest(@next_items::integer[])   AS next_item,
    unnest(@live_items::integer[])   AS live_items,
    unnest(@failed_items::integer[]) AS failed_items) AS i
WHERE s.workspace_id = @workspace_id AND s.run_id = @run_id AND s.id = i.id
  AND s.id BETWEEN (@ids::uuid[])[1] AND (@ids::uuid[])[cardinality(@ids::uuid[])];

-- name: StageListForRerun :many
-- The stages of a finished run, without their outputs.
SELECT id, component_id, iteration, status, port, item_count, child_run_id FROM run_stages
WHERE workspace_id = @workspace_id AND run_id = @run_id;

-- name: StageCopyMany :one
-- Copies stages of an earlier run that is final, with their ids. They were charged there. It
-- returns their number, how many of them failed in their loops, their size, when the last of them
-- finished, and the output of the last RESPOND among them.
WITH copied AS (
    INSERT INTO run_stages
        (workspace_id, run_id, id, component_id, module, name, iteration, status, port, output, error, attempt, execution_id, child_run_id,
         items, item_count, next_item, live_items, failed_items, dispatched_at, created_at, started_at, updated_at, finished_at)
    SELECT s.workspace_id, @run_id, s.id, s.component_id, s.module, s.name, s.iteration, s.status, s.port, s.output, s.error, s.attempt, s.execution_id, s.child_run_id,
           s.items, s.item_count, s.next_item, s.live_items, s.failed_items, s.dispatched_at, s.created_at, s.started_at, s.updated_at, s.finished_at
    FROM run_stages s
    WHERE s.workspace_id = @workspace_id AND s.run_id = @earlier_run_id AND s.id = ANY (@ids::uuid[])
    RETURNING id, module, status, finished_at, CASE WHEN module = 'CONTINUE' THEN 0 ELSE COALESCE(octet_length(output::text), 0) END + COALESCE(octet_length(items::text), 0) AS bytes
)
SELECT count(*)::integer AS stages, (count(*) FILTER (WHERE c.status = 'FAILED'))::integer AS failed, COALESCE(sum(c.bytes), 0)::bigint AS bytes, COALESCE(max(c.finished_at), now())::timestamptz AS finished_at,
       (SELECT r.output FROM run_stages r WHERE r.workspace_id = @workspace_id AND r.run_id = @earlier_run_id
        AND r.id = (SELECT l.id FROM copied l WHERE l.module = 'RESPOND' AND l.status = 'COMPLETED' ORDER BY l.id DESC LIMIT 1)) AS response,
       COALESCE((SELECT l.id FROM copied l WHERE l.module = 'RESPOND' AND l.status = 'COMPLETED' ORDER BY l.id DESC LIMIT 1),
                '00000000-0000-0000-0000-000000000000')::uuid AS response_id
FROM copied c;

-- name: StageGetComponent :one
-- The component of a stage.
SELECT component_id FROM run_stages WHERE workspace_id = @workspace_id AND run_id = @run_id AND id = @id;

-- name: StageListProgress :many
-- The attempts of stages' executions that have started. Each is looked up by its key: a plan made
-- early in the week would turn a list of ids into a scan of all executions of the workspace.
SELECT e.id, e.attempt::integer AS attempt
FROM (SELECT unnest(@ids::uuid[]) AS id) AS i
JOIN LATERAL (
    SELECT x.id, x.attempt, x.status FROM component_executions x WHERE x.workspace_id = @workspace_id AND x.id = i.id LIMIT 1
) AS e ON true
WHERE e.status <> 'CREATED';

-- name: StageCancelAbandoned :exec
-- Cancels the unfinished stages of a run that have neither a live execution nor a live child run.
-- What was executed is charged.
UPDATE run_stages s SET
    status = 'CANCELED', port = NULL, output = NULL, live_items = CASE WHEN s.item_count IS NOT NULL THEN 0 END,
    usage = COALESCE((SELECT e.usage FROM component_executions e WHERE e.workspace_id = s.workspace_id AND e.id = s.execution_id), 0),
    updated_at = GREATEST(s.updated_at, @at::timestamptz), finished_at = @at::timestamptz
WHERE s.workspace_id = @workspace_id AND s.run_id = @run_id AND s.finished_at IS NULL
  AND NOT EXISTS (SELECT FROM component_executions e
                  WHERE e.workspace_id = s.workspace_id AND e.id = s.execution_id AND e.finished_at IS NULL)
  AND NOT EXISTS (SELECT FROM workflow_runs c
                  WHERE c.workspace_id = s.workspace_id AND c.id = s.child_run_id AND c.finished_at IS NULL);

-- name: StageCount :one
-- The counts and usage of a run's stages, and the usage of its finished child runs.
SELECT count(*)::integer AS stages, (count(*) FILTER (WHERE s.status = 'FAILED'))::integer AS failed,
       (count(*) FILTER (WHERE s.finished_at IS NULL))::integer AS pending, COALESCE(sum(s.usage), 0)::bigint AS usage,
       COALESCE(sum(c.usage + c.usage_below) FILTER (WHERE c.finished_at IS NOT NULL), 0)::bigint AS usage_below
FROM run_stages s
LEFT JOIN workflow_runs c ON c.workspace_id = s.workspace_id AND c.id = s.child_run_id AND c.parent_run_id = s.run_id
WHERE s.workspace_id = @workspace_id AND s.run_id = @run_id;
