-- name: RunLock :one
-- A run as it stands, for whoever folds it. Rows that refer to it may be inserted meanwhile.
-- Where the account's period is over, the next one decides about storage and credits. now is the
-- clock, which may be before updated_at if a standby whose clock is behind has taken over.
SELECT r.workspace_id, r.id, r.workflow_id, r.workflow_version, r.status, r.trigger, r.input, r.output, r.error, r.variables,
       r.cancel_requested_at, r.cancel_mode, r.committed, r.below, r.reserved, r.max_credits, r.usage, r.usage_below, r.stage_count, r.failed_count, r.pending_count,
       r.output_bytes, r.event_seq, r.wake_at, r.deadline, r.parent_run_id, r.key_root_id, r.traceparent, r.rerun_of, r.effect_root_id, r.job_id, r.created_at, r.updated_at,
       r.cancel_reason, clock_timestamp()::timestamptz AS now, COALESCE(r.root_run_id, r.id)::uuid AS root_run_id, (t.root_run_id IS NOT NULL)::boolean AS in_tree,
       COALESCE(t.live, 0)::integer AS tree_live, COALESCE(t.stages, 0)::bigint AS tree_stages, COALESCE(t.bytes, 0)::bigint AS tree_bytes,
       r.storage_fee, r.uncounted_bytes, COALESCE(a.storage_limit > 0 AND a.stored >= a.storage_limit AND a.valid_until > now(), false)::boolean AS storage_full,
       COALESCE(a.valid_until <= now() OR a.plan + a.paid + GREATEST(a.usage_limit - a.plan_used - a.allowance_used - a.plan, 0) - a.reserved > 0, false)::boolean AS solvent
FROM workflow_runs r
LEFT JOIN credit_accounts a ON a.workspace_id = r.workspace_id
LEFT JOIN run_trees t ON t.workspace_id = r.workspace_id AND t.root_run_id = COALESCE(r.root_run_id, r.id)
WHERE r.workspace_id = @workspace_id AND r.id = @id
FOR NO KEY UPDATE OF r;

-- name: RunLockFree :one
-- RunLock for whoever does not wait for it.
SELECT r.workspace_id, r.id, r.workflow_id, r.workflow_version, r.status, r.trigger, r.input, r.output, r.error, r.variables,
       r.cancel_requested_at, r.cancel_mode, r.committed, r.below, r.reserved, r.max_credits, r.usage, r.usage_below, r.stage_count, r.failed_count, r.pending_count,
       r.output_bytes, r.event_seq, r.wake_at, r.deadline, r.parent_run_id, r.key_root_id, r.traceparent, r.rerun_of, r.effect_root_id, r.job_id, r.created_at, r.updated_at,
       r.cancel_reason, clock_timestamp()::timestamptz AS now, COALESCE(r.root_run_id, r.id)::uuid AS root_run_id, (t.root_run_id IS NOT NULL)::boolean AS in_tree,
       COALESCE(t.live, 0)::integer AS tree_live, COALESCE(t.stages, 0)::bigint AS tree_stages, COALESCE(t.bytes, 0)::bigint AS tree_bytes,
       r.storage_fee, r.uncounted_bytes, COALESCE(a.storage_limit > 0 AND a.stored >= a.storage_limit AND a.valid_until > now(), false)::boolean AS storage_full,
       COALESCE(a.valid_until <= now() OR a.plan + a.paid + GREATEST(a.usage_limit - a.plan_used - a.allowance_used - a.plan, 0) - a.reserved > 0, false)::boolean AS solvent
FROM workflow_runs r
LEFT JOIN credit_accounts a ON a.workspace_id = r.workspace_id
LEFT JOIN run_trees t ON t.workspace_id = r.workspace_id AND t.root_run_id = COALESCE(r.root_run_id, r.id)
WHERE r.workspace_id = @workspace_id AND r.id = @id
FOR NO KEY UPDATE OF r SKIP LOCKED;

-- name: RunFold :exec
-- What a fold makes of a run, under its lock.
UPDATE workflow_runs SET
    status        = @status,
    output        = sqlc.narg('output'),
    error         = sqlc.narg('error'),
    variables     = CASE WHEN NOT @final::boolean THEN variables END, -- they go with the end
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
    updated_at    = GREATEST(updated_at, @at),
    finished_at   = CASE WHEN @final::boolean THEN @at::timestamptz END
WHERE workspace_id = @workspace_id AND id = @id;

-- name: RunRepeated :one
-- What a rerun needs to know of the run that it repeats, which may be a rerun itself.
SELECT created_at, rerun_of, resumed_children FROM workflow_runs WHERE workspace_id = @workspace_id AND id = @id;

-- name: RunResumesChildren :exec
-- Stores which child runs the child runs of a rerun repeat, in its first fold.
UPDATE workflow_runs SET resumed_children = @resumed_children WHERE workspace_id = @workspace_id AND id = @id;

-- name: RunEventInsert :exec
INSERT INTO run_events (workspace_id, run_id, seq, status, output, error, created_at)
VALUES (@workspace_id, @run_id, @seq, @status, @output, sqlc.narg('error'), COALESCE(sqlc.narg('at')::timestamptz, now()));

-- name: RunCancel :exec
-- Requests the cancellation of one run, which the caller has locked.
UPDATE workflow_runs SET
    cancel_requested_at = COALESCE(cancel_requested_at, @at::timestamptz),
    cancel_reason       = CASE WHEN cancel_requested_at IS NULL THEN @reason::text ELSE cancel_reason END,
    cancel_mode         = CASE WHEN cancel_mode = 'immediate' THEN cancel_mode ELSE @mode::text END
WHERE workspace_id = @workspace_id AND id = @id AND finished_at IS NULL;

-- name: RunCancelTree :many
-- Requests the cancellation of runs and of all unfinished runs below them. The first request
-- sets the reason. A later immediate request replaces a graceful one. It returns the runs that
-- it changed. It locks runs from the bottom of the tree to its top: a transaction that locks a
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

-- name: RunWake :exec
-- Has a run folded that another one tells something: its child is over.
UPDATE workflow_runs SET wake_at = LEAST(wake_at, now()) WHERE workspace_id = @workspace_id AND id = @id AND finished_at IS NULL;

-- name: RunListDue :many
-- Runs that are to be folded although nothing told of it: a timer is due, a signal or a
-- cancel came, or nobody has begun them. A page in the order of time: those of which the
-- folds fail hold up none that come after them. And the schedules that are due, many of
-- them at the same minute, or one of whose runs waits for those before, which have ended:
-- all in one statement, for it is asked each second.
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

-- name: RunListBehind :many
-- The next stages that are executed, in the order of the executions, and whether these have
-- been final for a moment although the stages are not. What waits for something else is not
-- walked.
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
-- Of the watched runs those that ended or changed lately: the net under lost wake-ups, as
-- for executions.
SELECT r.workspace_id, r.id FROM workflow_runs r
JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@ids::uuid[]) AS id) AS i
  ON r.workspace_id = i.workspace_id AND r.id = i.id
WHERE r.finished_at IS NOT NULL OR r.updated_at > now() - @since::interval;

-- name: RunLockAbove :many
-- The runs above a run that may cost so much at most, the nearest first, as they stand: what
-- is committed below them counts for them too. Locks go upwards always, so nobody waits in a
-- circle.
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

-- name: RunCommitBelow :exec
-- Counts what a run has committed for those above it, which RunLockAbove has locked.
UPDATE workflow_runs SET below = below + @amount
WHERE workspace_id = @workspace_id AND id = ANY (@ids::uuid[]) AND finished_at IS NULL;

-- name: RunCountBelow :one
-- How many of the newest runs under way in a workspace others began.
SELECT count(l.parent_run_id) FROM (
    SELECT r.parent_run_id FROM workflow_runs r
    WHERE r.workspace_id = @workspace_id AND r.finished_at IS NULL
    ORDER BY r.id DESC
    LIMIT @max_rows
) AS l;

-- name: RunAbove :one
-- How many runs are above a run, up to max_depth, and whether one of them is ending.
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

-- name: RunStopping :one
-- Whether a run, or one above it, is ending, and how, for an execution of it that is about to
-- start.
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
-- Adds to the totals of a tree of runs. It raises WF003 if that makes more than most unfinished
-- runs below the root: others were added since the caller read the count.
INSERT INTO run_trees (workspace_id, root_run_id, live, stages, bytes)
VALUES (@workspace_id, @root_run_id, GREATEST(@live::integer, 0), @stages, @bytes)
ON CONFLICT (workspace_id, root_run_id) DO UPDATE SET
    live = GREATEST(run_trees.live + @live::integer, 0), stages = run_trees.stages + @stages, bytes = run_trees.bytes + @bytes
WHERE must(@live <= 0 OR run_trees.live + @live <= @most::integer, 'WF003');

-- name: RunTreeDeleteOrphaned :execrows
-- Deletes trees whose root run has finished or is gone. A binary that knows no trees finishes a
-- root without deleting its tree.
DELETE FROM run_trees t
WHERE COALESCE((SELECT r.finished_at IS NOT NULL FROM workflow_runs r WHERE r.workspace_id = t.workspace_id AND r.id = t.root_run_id LIMIT 1), true);

-- name: RunTreeDelete :exec
-- Deletes the tree of a root run that has finished, and with it all runs below.
DELETE FROM run_trees WHERE workspace_id = @workspace_id AND root_run_id = @root_run_id;
