-- name: RunInsert :one
-- Inserts a run and its job, which is due after safety_net, and returns the ID of the job. lasts is
-- the maximum duration of the run, limited whether a deadline sets it, and grace the time after which
-- another process starts it. A run
-- that an advance starts is created at the time of the advance.
WITH job AS (
    INSERT INTO river.river_job (kind, queue, args, state, scheduled_at, max_attempts, priority, metadata, tags)
    VALUES ('workflow_run', @queue::text, jsonb_build_object('workspaceId', @workspace_id::uuid, 'runId', @id::uuid),
            'scheduled', now() + @safety_net::interval, 25, 1, '{}', '{}')
    RETURNING id
)
INSERT INTO workflow_runs
    (workspace_id, id, workflow_id, workflow_version, status, trigger, input, metadata, output, error, variables, reserved, max_credits,
     committed, usage, stage_count, failed_count, pending_count, output_bytes, uncounted_bytes, event_seq,
     deadline, wake_at, job_id, parent_run_id, parent_stage_id, root_run_id, trigger_id, schedule_id, scheduled_at, key_root_id, rerun_of, effect_root_id, traceparent, paces, has_callback, limited, created_at, updated_at)
SELECT
    @workspace_id, @id, @workflow_id, @workflow_version, @status, @trigger, @input, sqlc.narg('metadata'), sqlc.narg('output'), sqlc.narg('error'),
     sqlc.narg('variables'), @reserved, sqlc.narg('max_credits'),
     @committed, @usage, @stage_count, @failed_count, @pending_count, @output_bytes, @uncounted_bytes, @event_seq,
     COALESCE(sqlc.narg('at')::timestamptz, now()) + @lasts::interval, now() + @grace::interval, job.id,
     sqlc.narg('parent_run_id'), sqlc.narg('parent_stage_id'), sqlc.narg('root_run_id'), sqlc.narg('trigger_id'), sqlc.narg('schedule_id'), sqlc.narg('scheduled_at'), sqlc.narg('key_root_id'), sqlc.narg('rerun_of'), sqlc.narg('effect_root_id'), sqlc.narg('traceparent'), sqlc.narg('paces'), @has_callback, @limited,
     COALESCE(sqlc.narg('at')::timestamptz, now()), COALESCE(sqlc.narg('at')::timestamptz, now())
FROM job
RETURNING job_id;

-- name: RunGet :one
-- The record of a run without its stages.
SELECT id, workflow_id, workflow_version, status, trigger, input, metadata, output, error, cancel_requested_at,
       cancel_reason, usage, usage_below, failed_count, pending_count, event_seq, job_id, parent_run_id, trigger_id, rerun_of, effect_root_id, has_callback, created_at, updated_at, finished_at
FROM workflow_runs
WHERE workspace_id = @workspace_id AND id = @id;

-- name: RunGetSchedule :one
-- The schedule and the scheduled time of a run that a schedule started, or of its rerun.
SELECT schedule_id, scheduled_at FROM workflow_runs WHERE workspace_id = @workspace_id AND id = @id;

-- name: RunWalk :many
-- Runs newest first, after the cursor, with the columns that lists filter by. least is the smallest
-- ID that matches the filters.
SELECT id, workflow_id, status, trigger, created_at FROM workflow_runs
WHERE workspace_id = @workspace_id AND id < @before AND id >= @least
ORDER BY id DESC
LIMIT @max_rows;

-- name: RunWalkWorkflow :many
-- The same for one workflow, by the index on workflows. The workspace is checked outside the
-- subquery: otherwise the planner might scan all runs of the workspace.
SELECT r.id, r.workflow_id, r.status, r.trigger, r.created_at
FROM (SELECT l.workspace_id, l.id, l.workflow_id, l.status, l.trigger, l.created_at FROM workflow_runs l
      WHERE l.workflow_id = @workflow_id AND l.id < @before AND l.id >= @least
      ORDER BY l.id DESC
      LIMIT @max_rows) AS r
WHERE r.workspace_id = @workspace_id::uuid
ORDER BY r.id DESC;

-- name: RunWalkLive :many
-- The same for unfinished runs, by their index.
SELECT id, workflow_id, status, trigger, created_at FROM workflow_runs
WHERE workspace_id = @workspace_id AND id < @before AND id >= @least AND finished_at IS NULL
ORDER BY id DESC
LIMIT @max_rows;

-- name: RunWalkFailed :many
-- The same for failed runs, by an index that has some canceled runs as well.
SELECT id, workflow_id, status, trigger, created_at FROM workflow_runs
WHERE workspace_id = @workspace_id AND id < @before AND id >= @least AND finished_at IS NOT NULL AND error IS NOT NULL
ORDER BY id DESC
LIMIT @max_rows;

-- name: RunWalkCanceled :many
-- The same for canceled runs, by an index that has all finished runs that were to be canceled.
SELECT id, workflow_id, status, trigger, created_at FROM workflow_runs
WHERE workspace_id = @workspace_id AND id < @before AND id >= @least AND finished_at IS NOT NULL AND cancel_requested_at IS NOT NULL
ORDER BY id DESC
LIMIT @max_rows;

-- name: RunWalkTrigger :many
-- The same for runs with one trigger other than API, by their index.
SELECT id, workflow_id, status, trigger, created_at FROM workflow_runs
WHERE workspace_id = @workspace_id AND id < @before AND id >= @least AND trigger = @trigger AND trigger <> 'API'
ORDER BY id DESC
LIMIT @max_rows;

-- name: RunListMany :many
-- The records of runs, newest first, each looked up by its key. The list ends early, but not
-- before the first run, when all their texts exceed max_bytes. A run counts as 1,000 bytes more, for
-- its other fields.
SELECT r.id, r.workflow_id, r.workflow_version, r.status, r.trigger, r.input, r.metadata, r.output, r.error, r.cancel_requested_at,
       r.cancel_reason, r.usage, r.usage_below, r.failed_count, r.pending_count, r.event_seq, r.job_id, r.parent_run_id, r.trigger_id, r.rerun_of, r.effect_root_id, r.has_callback, r.created_at, r.updated_at, r.finished_at
FROM (
    SELECT page.*, row_number() OVER newest AS place, sum(page.size) OVER newest AS bytes
    FROM (
        SELECT l.id, l.workflow_id, l.workflow_version, l.status, l.trigger, l.input, l.metadata, l.output, l.error, l.cancel_requested_at,
               l.cancel_reason, l.usage, l.usage_below, l.failed_count, l.pending_count, l.event_seq, l.job_id, l.parent_run_id, l.trigger_id, l.rerun_of, l.effect_root_id, l.has_callback, l.created_at, l.updated_at, l.finished_at,
               1000 + octet_length(concat(l.input, l.metadata, l.output, l.error, l.cancel_reason, l.rerun_of)) + CASE WHEN l.has_callback THEN
                   COALESCE((SELECT octet_length(concat(c.url, c.header_names, c.last_error)) FROM callbacks c WHERE c.workspace_id = l.workspace_id AND c.execution_id = l.id), 0)
               ELSE 0 END AS size
        FROM (SELECT unnest(@ids::uuid[]) AS id) AS i
        JOIN LATERAL (SELECT x.* FROM workflow_runs x WHERE x.workspace_id = @workspace_id AND x.id = i.id LIMIT 1) AS l ON true
    ) AS page WINDOW newest AS (ORDER BY page.id DESC)
) AS r
WHERE r.place = 1 OR r.bytes <= @max_bytes::bigint
ORDER BY r.id DESC;

-- name: RunStageList :many
-- Stages in order of creation, after the cursor. Pages end early as those of runs do: to read
-- all, continue after the last stage until none is returned. The status of an unfinished stage is
-- that of its execution. Executions are looked up one by one: the planner might turn a join into
-- a scan of all executions. If component_ids is not null, only the stages of these components are
-- listed, if iteration is not null, only those whose iteration starts with it, and if only_id is not
-- null, only that stage.
SELECT s.id, s.component_id, s.module, s.name, s.iteration,
       CASE WHEN e.status IN ('EXECUTING', 'COMPLETED', 'FAILED') THEN 'RUNNING' ELSE s.status END::text AS status,
       s.port, s.output, s.error, s.usage, GREATEST(s.attempt, e.attempt)::integer AS attempt, s.execution_id, s.item_count,
       s.next_item, s.live_items, s.failed_items, s.child_run_id, s.dispatched_at, s.created_at,
       COALESCE(s.started_at, e.first_attempt_at, e.attempt_started_at) AS started_at, GREATEST(s.updated_at, e.updated_at)::timestamptz AS updated_at,
       s.finished_at, COALESCE(e.attempt > 0 AND NOT e.continuing, false)::boolean AS retries, e.not_before, s.found::bigint AS found
FROM (
    SELECT page.*, row_number() OVER oldest AS place, sum(page.size) OVER oldest AS bytes, count(page.id) OVER () AS found
    FROM (
        SELECT l.workspace_id, l.id, l.component_id, l.module, l.name, l.iteration, l.status, l.port, l.output, l.error, l.usage, l.attempt,
               l.execution_id, l.item_count, l.next_item, l.live_items, l.failed_items, l.child_run_id, l.dispatched_at, l.created_at,
               l.started_at, l.updated_at, l.finished_at, 1000 + octet_length(concat(l.output, l.error, l.name)) AS size
        FROM run_stages l
        WHERE l.workspace_id = @workspace_id AND l.run_id = @run_id AND l.id > @after
          AND (sqlc.narg('only_id')::uuid IS NULL OR l.id = sqlc.narg('only_id')::uuid)
          AND (sqlc.narg('component_ids')::text[] IS NULL OR l.component_id = ANY (sqlc.narg('component_ids')::text[]))
          AND (sqlc.narg('iteration')::integer[] IS NULL OR l.iteration[1:cardinality(sqlc.narg('iteration')::integer[])] = sqlc.narg('iteration')::integer[])
        ORDER BY l.id
        LIMIT @max_rows
    ) AS page WINDOW oldest AS (ORDER BY page.id)
) AS s
LEFT JOIN LATERAL (
    SELECT x.status, x.attempt, x.continuing, x.not_before, x.first_attempt_at, x.attempt_started_at, x.updated_at FROM component_executions x
    WHERE s.finished_at IS NULL AND x.workspace_id = s.workspace_id AND x.id = s.execution_id LIMIT 1
) AS e ON true
WHERE s.place = 1 OR s.bytes <= @max_bytes::bigint
ORDER BY s.id;

-- name: RunEventList :many
-- A page of a run's events after the given one, in order.
SELECT seq, status, output, error, created_at FROM run_events
WHERE workspace_id = @workspace_id AND run_id = @run_id AND seq > @after
ORDER BY seq
LIMIT @max_rows;

-- name: RunSignalInsert :one
-- Stores the first signal of each name and wakes the run, if the run is not final. It stores
-- nothing if the workspace may not store more this month.
WITH room AS (
    SELECT a.storage_limit > 0 AND a.stored >= a.storage_limit AND a.valid_until > now() AS exhausted FROM credit_accounts a WHERE a.workspace_id = @workspace_id
), woken AS (
    UPDATE workflow_runs r SET wake_at = LEAST(r.wake_at, now())
    WHERE r.workspace_id = @workspace_id AND r.id = @run_id AND r.finished_at IS NULL
    RETURNING r.workspace_id, r.id
), kept AS (
    INSERT INTO run_signals (workspace_id, run_id, name, payload, received_at)
    SELECT woken.workspace_id, woken.id, @name, @payload::json, now() FROM woken JOIN room ON NOT room.exhausted
    ON CONFLICT DO NOTHING
    RETURNING workspace_id
), counted AS (
    UPDATE credit_accounts c SET stored = c.stored + @bytes::bigint FROM kept WHERE c.workspace_id = kept.workspace_id
)
SELECT EXISTS (SELECT FROM woken)::boolean AS live, EXISTS (SELECT FROM room WHERE room.exhausted)::boolean AS exhausted;

-- name: RunListExecutions :many
-- A page of the unfinished stages of a run that have an execution, in order of their ids.
SELECT s.id, s.execution_id::uuid AS execution_id FROM run_stages s
WHERE s.workspace_id = @workspace_id AND s.run_id = @run_id AND s.finished_at IS NULL AND s.execution_id IS NOT NULL
  AND s.id > @after
ORDER BY s.id
LIMIT @max_rows;

-- name: RunAudit :many
-- Runs whose usage differs from their posting, or from the sum of their stages' usage and their
-- storage fee. A final run has one posting, and an unfinished one has none. posted is -1 if there
-- is no posting.
SELECT r.workspace_id, r.id, r.status, r.usage, COALESCE(p.usage, -1)::bigint AS posted, (COALESCE(s.usage, 0) + r.storage_fee)::bigint AS staged
FROM workflow_runs r
LEFT JOIN credit_postings p ON p.workspace_id = r.workspace_id AND p.kind = 'RUN' AND p.reference = r.id::text
LEFT JOIN (
    SELECT t.workspace_id, t.run_id, sum(t.usage) AS usage
    FROM run_stages t WHERE t.workspace_id = ANY (@workspace_ids::uuid[]) AND t.run_id > @after AND t.run_id <= @upto GROUP BY t.workspace_id, t.run_id
) AS s ON s.workspace_id = r.workspace_id AND s.run_id = r.id
WHERE r.workspace_id = ANY (@workspace_ids::uuid[]) AND r.id > @after AND r.id <= @upto
  AND CASE WHEN r.finished_at IS NULL THEN p.usage IS NOT NULL
           ELSE p.usage IS DISTINCT FROM r.usage OR r.usage <> COALESCE(s.usage, 0) + r.storage_fee END
ORDER BY r.workspace_id, r.id
LIMIT @max_rows;

-- name: RunSignalGet :one
SELECT payload, received_at FROM run_signals WHERE workspace_id = @workspace_id AND run_id = @run_id AND name = @name;

-- name: RunListSealed :many
-- A page of the runs with environment variables, in order of their ids. stale is set if the
-- variables are not sealed under the key of the header.
SELECT page.workspace_id, page.id,
       (CASE WHEN substring(page.variables FROM 1 FOR octet_length(@header::bytea)) <> @header::bytea THEN page.variables END)::bytea AS stale
FROM (SELECT r.workspace_id, r.id, r.variables FROM workflow_runs r
      WHERE r.variables IS NOT NULL AND r.id > @after ORDER BY r.id LIMIT @max_rows) AS page
ORDER BY page.id;

-- name: RunListHeaders :many
-- The headers of the variables of the oldest and newest runs, which name the key.
SELECT substring(seen.variables FROM 1 FOR 66)::bytea AS header
FROM ((SELECT o.variables FROM workflow_runs o WHERE o.variables IS NOT NULL ORDER BY o.id LIMIT @each)
      UNION ALL
      (SELECT n.variables FROM workflow_runs n WHERE n.variables IS NOT NULL ORDER BY n.id DESC LIMIT @each)) AS seen;

-- name: RunReseal :execrows
-- Replaces variables by their resealed form. It skips runs that are locked or changed.
UPDATE workflow_runs r SET variables = free.fresh
FROM (SELECT l.workspace_id, l.id, i.fresh FROM workflow_runs l
      JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@ids::uuid[]) AS id,
                   unnest(@stale::bytea[]) AS stale, unnest(@fresh::bytea[]) AS fresh) AS i
        ON l.workspace_id = i.workspace_id AND l.id = i.id AND l.variables = i.stale
      FOR NO KEY UPDATE OF l SKIP LOCKED) AS free
WHERE r.workspace_id = free.workspace_id AND r.id = free.id;
