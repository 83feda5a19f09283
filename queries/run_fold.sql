-- name: RunLock :one
-- Locks a run for an advance and returns it. Rows that refer to it may be inserted meanwhile. If the
-- account's period is over, storage_full is false and solvent is true: the next period decides.
-- cancel_shown reports whether the last event shows the cancel request.
-- now is the clock, which may be before updated_at if a standby whose clock is behind has taken
-- over.
SELECT r.workspace_id, r.id, r.workflow_id, r.workflow_version, r.status, r.trigger, r.input, r.output, r.error, r.variables,
       r.cancel_requested_at, r.cancel_mode, r.committed, r.below, r.reserved, r.max_credits, r.usage, r.usage_below, r.stage_count, r.failed_count, r.pending_count,
       r.output_bytes, r.event_seq, r.wake_at, r.deadline, r.parent_run_id, r.key_root_id, r.traceparent, r.rerun_of, r.effect_root_id, r.job_id, r.created_at, r.updated_at,
       r.schedule_id, r.scheduled_at, r.cancel_reason, clock_timestamp()::timestamptz AS now, COALESCE(r.root_run_id, r.id)::uuid AS root_run_id, (t.root_run_id IS NOT NULL)::boolean AS in_tree,
       COALESCE(t.live, 0)::integer AS tree_live, COALESCE(t.stages, 0)::bigint AS tree_stages, COALESCE(t.bytes, 0)::bigint AS tree_bytes,
       r.storage_fee, r.uncounted_bytes, r.paces, r.has_callback, r.limited,
       (r.cancel_requested_at IS NOT NULL AND EXISTS (
           SELECT FROM run_events v WHERE v.workspace_id = r.workspace_id AND v.run_id = r.id AND v.seq = r.event_seq AND v.output->>'cancelRequestedAt' IS NOT NULL))::boolean AS cancel_shown,
       COALESCE(a.storage_limit > 0 AND a.stored >= a.storage_limit AND a.valid_until > now(), false)::boolean AS storage_full,
       COALESCE(a.valid_until <= now() OR a.plan + a.paid + GREATEST(a.usage_limit - a.plan_used - a.allowance_used - a.plan, 0) - a.reserved > 0, false)::boolean AS solvent
FROM workflow_runs r
LEFT JOIN credit_accounts a ON a.workspace_id = r.workspace_id
LEFT JOIN run_trees t ON t.workspace_id = r.workspace_id AND t.root_run_id = COALESCE(r.root_run_id, r.id)
WHERE r.workspace_id = @workspace_id AND r.id = @id
FOR NO KEY UPDATE OF r;

-- name: RunTryLock :one
-- RunLock without waiting: it returns no row if the run is locked.
SELECT r.workspace_id, r.id, r.workflow_id, r.workflow_version, r.status, r.trigger, r.input, r.output, r.error, r.variables,
       r.cancel_requested_at, r.cancel_mode, r.committed, r.below, r.reserved, r.max_credits, r.usage, r.usage_below, r.stage_count, r.failed_count, r.pending_count,
       r.output_bytes, r.event_seq, r.wake_at, r.deadline, r.parent_run_id, r.key_root_id, r.traceparent, r.rerun_of, r.effect_root_id, r.job_id, r.created_at, r.updated_at,
       r.schedule_id, r.scheduled_at, r.cancel_reason, clock_timestamp()::timestamptz AS now, COALESCE(r.root_run_id, r.id)::uuid AS root_run_id, (t.root_run_id IS NOT NULL)::boolean AS in_tree,
       COALESCE(t.live, 0)::integer AS tree_live, COALESCE(t.stages, 0)::bigint AS tree_stages, COALESCE(t.bytes, 0)::bigint AS tree_bytes,
       r.storage_fee, r.uncounted_bytes, r.paces, r.has_callback, r.limited,
       (r.cancel_requested_at IS NOT NULL AND EXISTS (
           SELECT FROM run_events v WHERE v.workspace_id = r.workspace_id AND v.run_id = r.id AND v.seq = r.event_seq AND v.output->>'cancelRequestedAt' IS NOT NULL))::boolean AS cancel_shown,
       COALESCE(a.storage_limit > 0 AND a.stored >= a.storage_limit AND a.valid_until > now(), false)::boolean AS storage_full,
       COALESCE(a.valid_until <= now() OR a.plan + a.paid + GREATEST(a.usage_limit - a.plan_used - a.allowance_used - a.plan, 0) - a.reserved > 0, false)::boolean AS solvent
FROM workflow_runs r
LEFT JOIN credit_accounts a ON a.workspace_id = r.workspace_id
LEFT JOIN run_trees t ON t.workspace_id = r.workspace_id AND t.root_run_id = COALESCE(r.root_run_id, r.id)
WHERE r.workspace_id = @workspace_id AND r.id = @id
FOR NO KEY UPDATE OF r SKIP LOCKED;

-- name: RunFold :exec
-- Stores the result of an advance. The caller has locked the run.
UPDATE workflow_runs SET
    status        = @status,
    output        = sqlc.narg('output'),
    error         = sqlc.narg('error'),
    variables     = CASE WHEN NOT @final::boolean THEN variables END, -- erased when the run finishes
    committed     = @committed,
    reserved      = @reserved,
    usage         = @usage,
    usage_below   = @usage_below,
    stage_count   = @stage_count,
    failed_count  = @failed_count,
    pending_count = @pending_count,
    output_bytes  = @output_bytes,
    storage_fee     = @storage_fee,
    uncounted_bytes = @uncounted_bytes,
    event_seq     = @event_seq,
    wake_at       = sqlc.narg('wake_at'),
    paces         = sqlc.narg('paces'),
    updated_at    = GREATEST(updated_at, @at),
    finished_at   = CASE WHEN @final::boolean THEN @at::timestamptz END
WHERE workspace_id = @workspace_id AND id = @id;

-- name: RunGetAbout :one
-- What references to a run can read, besides what RunLock returns. metadata is null if the run is not
-- stored yet.
SELECT w.name, w.key, r.metadata FROM workflows w
LEFT JOIN workflow_runs r ON r.workspace_id = w.workspace_id AND r.id = @run_id
WHERE w.workspace_id = @workspace_id AND w.id = @workflow_id;

-- name: RunGetRepeated :one
-- What a rerun needs of the run that it repeats, which may be a rerun itself.
SELECT created_at, rerun_of, resumed_children FROM workflow_runs WHERE workspace_id = @workspace_id AND id = @id;

-- name: RunSetResumedChildren :exec
-- Stores which child runs the child runs of a rerun repeat, in its first advance.
UPDATE workflow_runs SET resumed_children = @resumed_children WHERE workspace_id = @workspace_id AND id = @id;

-- name: RunEventInsert :exec
INSERT INTO run_events (workspace_id, run_id, seq, status, output, error, created_at)
VALUES (@workspace_id, @run_id, @seq, @status, @output, sqlc.narg('error'), COALESCE(sqlc.narg('at')::timestamptz, now()));

-- name: RunCancel :exec
-- Requests the cancellation of one run. The caller has locked it.
UPDATE workflow_runs SET
    cancel_requested_at = COALESCE(cancel_requested_at, @at::timestamptz),
    cancel_reason       = CASE WHEN cancel_requested_at IS NULL THEN @reason::text ELSE cancel_reason END,
    cancel_mode         = CASE WHEN cancel_mode = 'immediate' THEN cancel_mode ELSE @mode::text END
WHERE workspace_id = @workspace_id AND id = @id AND finished_at IS NULL;

-- name: RunCancelTree :many
-- Requests the cancellation of runs and of all unfinished runs below them, and returns the runs
-- that it changed. The first request sets the reason. A later immediate request replaces a
-- graceful one. It locks runs from the bottom of the tree to its top: a transaction that locks a
-- run may lock those above it afterwards, so locks in another order would deadlock.
WITH RECURSIVE tree AS (
    SELECT i.id, 0 AS depth FROM (SELECT unnest(@ids::uuid[]) AS id) AS i
    UNION ALL
    SELECT s.child_run_id, t.depth + 1 FROM tree t
    JOIN LATERAL (
        SELECT x.child_run_id FROM run_stages x
        WHERE x.workspace_id = @workspace_id AND x.run_id = t.id AND x.finished_at IS NULL AND x.child_run_id IS NOT NULL
    ) AS s ON true
    WHERE t.depth < @max_depth::integer
), held AS (
    SELECT l.id, t.depth FROM tree t JOIN workflow_runs l ON l.workspace_id = @workspace_id AND l.id = t.id
    WHERE l.id = ANY (ARRAY(SELECT u.id FROM tree u))
      AND l.finished_at IS NULL AND (l.cancel_requested_at IS NULL OR l.cancel_mode <> 'immediate' AND @mode::text = 'immediate')
    ORDER BY t.depth DESC, l.id
    FOR NO KEY UPDATE OF l
)
UPDATE workflow_runs r SET
    cancel_requested_at = COALESCE(r.cancel_requested_at, GREATEST(r.updated_at, clock_timestamp())),
    cancel_reason       = CASE WHEN r.cancel_requested_at IS NOT NULL THEN r.cancel_reason
                               WHEN held.depth = 0 THEN sqlc.narg('reason')::text ELSE @reason_below::text END,
    cancel_mode         = CASE WHEN r.cancel_mode = 'immediate' THEN r.cancel_mode ELSE @mode::text END,
    wake_at             = LEAST(r.wake_at, now()),
    updated_at          = GREATEST(r.updated_at, clock_timestamp())
FROM held
WHERE r.workspace_id = @workspace_id AND r.id = held.id AND r.id = ANY (ARRAY(SELECT h.id FROM held h)) AND r.finished_at IS NULL
RETURNING r.id;

-- name: RunListLiveRoots :many
-- The unfinished runs of a workspace that no run started and that are not being canceled.
SELECT id FROM workflow_runs
WHERE workspace_id = @workspace_id AND finished_at IS NULL AND parent_run_id IS NULL AND (cancel_requested_at IS NULL OR cancel_mode <> 'immediate')
ORDER BY id
LIMIT @max_rows;

-- name: RunWake :exec
-- Wakes a run after one of its child runs has finished.
UPDATE workflow_runs SET wake_at = LEAST(wake_at, now()) WHERE workspace_id = @workspace_id AND id = @id AND finished_at IS NULL;

-- name: RunListDue :many
-- Due work in one statement, because it runs every second. First, runs to be advanced: a timer is
-- due, a signal or a cancellation arrived, or no process has started them. Pages are in order of
-- time, so runs whose advances fail do not hold up later ones. Second, due schedules, of which many
-- may be due in the same minute. Third, schedules with waiting runs whose earlier runs have all
-- finished.
SELECT due.workspace_id, due.id, due.at::timestamptz AS at, due.kind::text AS kind
FROM ((SELECT r.workspace_id, r.id, r.wake_at AS at, 'run' AS kind FROM workflow_runs r
       WHERE r.finished_at IS NULL AND r.wake_at <= now() AND r.wake_at > @after::timestamptz
       ORDER BY r.wake_at
       LIMIT @max_rows)
      UNION ALL
      (SELECT s.workspace_id, s.id, s.next_at AS at, 'schedule' AS kind FROM schedules s
       WHERE s.next_at <= now() AND (s.next_at, s.id) > (@schedules_after::timestamptz, @schedules_after_id::uuid)
       ORDER BY s.next_at, s.id
       LIMIT @max_rows)
      UNION ALL
      (SELECT w.workspace_id, w.id, w.created_at AS at, 'waiting' AS kind FROM schedules w
       WHERE w.waiting <> '{}' AND w.id > @waiting_after::uuid AND NOT COALESCE((
           SELECT true FROM workflow_runs l
           WHERE l.workspace_id = w.workspace_id AND l.trigger_id = w.id AND l.finished_at IS NULL LIMIT 1), false)
       ORDER BY w.id
       LIMIT @max_rows)) AS due;

-- name: RunListStageExecutions :many
-- The next stages with an execution, in order of the execution ids. behind reports whether the
-- execution has been final for at least grace although the stage is not. Stages that wait for
-- something else are not read.
SELECT s.workspace_id, s.run_id, s.execution_id::uuid AS execution_id, EXISTS (
    SELECT FROM component_executions e
    WHERE e.workspace_id = s.workspace_id AND e.id = s.execution_id AND e.finished_at < now() - @grace::interval) AS behind
FROM (
    SELECT l.workspace_id, l.run_id, l.execution_id FROM run_stages l
    WHERE l.finished_at IS NULL AND l.execution_id IS NOT NULL AND l.execution_id > @after::uuid
    ORDER BY l.execution_id
    LIMIT @max_rows
) AS s;

-- name: RunChangedSince :many
-- Those of the watched runs that are final or changed recently, as for executions.
SELECT r.workspace_id, r.id FROM workflow_runs r
JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@ids::uuid[]) AS id) AS i
  ON r.workspace_id = i.workspace_id AND r.id = i.id
WHERE r.finished_at IS NOT NULL OR r.updated_at > now() - @since::interval;

-- name: RunLockAncestors :many
-- Locks the runs above a run that have a cost limit, the nearest first, and returns them. What is
-- committed below them counts toward their limits. Locks always go upward, to avoid deadlocks.
WITH RECURSIVE above AS (
    SELECT r.parent_run_id, 0 AS depth FROM workflow_runs r WHERE r.workspace_id = @workspace_id AND r.id = @id
    UNION ALL
    SELECT p.parent_run_id, a.depth + 1 FROM above a
    JOIN LATERAL (SELECT x.parent_run_id FROM workflow_runs x WHERE x.workspace_id = @workspace_id AND x.id = a.parent_run_id LIMIT 1) AS p ON true
    WHERE a.depth < @max_depth::integer
)
SELECT r.id, r.committed, r.below, r.max_credits
FROM above a JOIN workflow_runs r ON r.workspace_id = @workspace_id AND r.id = a.parent_run_id
WHERE r.id = ANY (ARRAY(SELECT u.parent_run_id FROM above u)) AND r.max_credits IS NOT NULL AND r.finished_at IS NULL
ORDER BY a.depth
FOR NO KEY UPDATE OF r;

-- name: RunAddCommittedBelow :exec
-- Adds what a run has committed to the runs above it, which RunLockAncestors has locked.
UPDATE workflow_runs SET below = below + @amount
WHERE workspace_id = @workspace_id AND id = ANY (@ids::uuid[]) AND finished_at IS NULL;

-- name: RunCountChildren :one
-- How many of the newest unfinished runs of a workspace are child runs.
SELECT count(l.parent_run_id) FROM (
    SELECT r.parent_run_id FROM workflow_runs r
    WHERE r.workspace_id = @workspace_id AND r.finished_at IS NULL
    ORDER BY r.id DESC
    LIMIT @max_rows
) AS l;

-- name: RunGetAncestors :one
-- The number of runs above a run, up to max_depth, and whether one of them is ending.
WITH RECURSIVE above AS (
    SELECT r.parent_run_id, 0 AS depth, false AS ending, false AS immediate FROM workflow_runs r WHERE r.workspace_id = @workspace_id AND r.id = @id
    UNION ALL
    SELECT p.parent_run_id, a.depth + 1, p.ending, p.immediate FROM above a
    JOIN LATERAL (
        SELECT x.parent_run_id, x.cancel_requested_at IS NOT NULL OR x.error IS NOT NULL OR x.finished_at IS NOT NULL AS ending,
               COALESCE(x.cancel_mode = 'immediate', false) AS immediate
        FROM workflow_runs x WHERE x.workspace_id = @workspace_id AND x.id = a.parent_run_id LIMIT 1
    ) AS p ON true
    WHERE a.depth < @max_depth::integer
)
SELECT max(depth)::integer AS depth, bool_or(ending)::boolean AS ending, bool_or(immediate)::boolean AS immediate FROM above;

-- name: RunGetEnding :one
-- Whether a run, or one above it, is ending, and whether immediately. An execution checks it
-- before it starts.
WITH RECURSIVE above AS (
    SELECT r.parent_run_id, r.cancel_requested_at IS NOT NULL OR r.error IS NOT NULL OR r.finished_at IS NOT NULL AS ending,
           COALESCE(r.cancel_mode = 'immediate', false) AS immediate
    FROM workflow_runs r WHERE r.workspace_id = @workspace_id AND r.id = @id
    UNION ALL
    SELECT p.parent_run_id, p.ending, p.immediate FROM above a
    JOIN LATERAL (
        SELECT x.parent_run_id, x.cancel_requested_at IS NOT NULL OR x.error IS NOT NULL OR x.finished_at IS NOT NULL AS ending,
               COALESCE(x.cancel_mode = 'immediate', false) AS immediate
        FROM workflow_runs x WHERE x.workspace_id = @workspace_id AND x.id = a.parent_run_id LIMIT 1
    ) AS p ON true
)
SELECT COALESCE(bool_or(ending), false)::boolean AS ending, COALESCE(bool_or(immediate), false)::boolean AS immediate
FROM above;

-- name: RunTreeAdd :exec
-- Adds to the totals of a tree of runs. Raises WF003 if the tree then has more than most
-- unfinished runs below its root: other runs were added since the caller read the count.
INSERT INTO run_trees (workspace_id, root_run_id, live, stages, bytes)
VALUES (@workspace_id, @root_run_id, GREATEST(@live::integer, 0), @stages, @bytes)
ON CONFLICT (workspace_id, root_run_id) DO UPDATE SET
    live = GREATEST(run_trees.live + @live::integer, 0), stages = run_trees.stages + @stages, bytes = run_trees.bytes + @bytes
WHERE must(@live <= 0 OR run_trees.live + @live <= @most::integer, 'WF003');

-- name: RunTreeLock :exec
-- Locks the totals of a tree.
SELECT FROM run_trees WHERE workspace_id = @workspace_id AND root_run_id = @root_run_id FOR NO KEY UPDATE;

-- name: RunTreeDeleteOrphaned :execrows
-- Deletes trees whose root run has finished or is missing. Versions without trees finish a root
-- without deleting its tree. The condition on workspace_id holds for every row, so that the plan
-- uses the primary key.
DELETE FROM run_trees t
WHERE t.workspace_id >= '00000000-0000-0000-0000-000000000000'
  AND COALESCE((SELECT r.finished_at IS NOT NULL FROM workflow_runs r WHERE r.workspace_id = t.workspace_id AND r.id = t.root_run_id LIMIT 1), true);

-- name: RunTreeDelete :exec
-- Deletes the tree of a root run that has finished, as have all runs below it.
DELETE FROM run_trees WHERE workspace_id = @workspace_id AND root_run_id = @root_run_id;
