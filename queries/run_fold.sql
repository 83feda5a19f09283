-- name: RunLock :one
-- A run as it stands, for whoever folds it. Rows that refer to it may be inserted meanwhile.
SELECT workspace_id, id, workflow_id, workflow_version, status, trigger, input, output, error, variables,
       cancel_requested_at, cancel_mode, committed, below, reserved, max_credits, usage, stage_count, failed_count, pending_count,
       output_bytes, event_seq, wake_at, deadline, parent_run_id, traceparent, rerun_of, job_id, created_at, updated_at,
       cancel_reason, now()::timestamptz AS now
FROM workflow_runs
WHERE workspace_id = @workspace_id AND id = @id
FOR NO KEY UPDATE;

-- name: RunLockFree :one
-- RunLock for whoever does not wait for it.
SELECT workspace_id, id, workflow_id, workflow_version, status, trigger, input, output, error, variables,
       cancel_requested_at, cancel_mode, committed, below, reserved, max_credits, usage, stage_count, failed_count, pending_count,
       output_bytes, event_seq, wake_at, deadline, parent_run_id, traceparent, rerun_of, job_id, created_at, updated_at,
       cancel_reason, now()::timestamptz AS now
FROM workflow_runs
WHERE workspace_id = @workspace_id AND id = @id
FOR NO KEY UPDATE SKIP LOCKED;

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
    stage_count   = @stage_count,
    failed_count  = @failed_count,
    pending_count = @pending_count,
    output_bytes  = @output_bytes,
    event_seq     = @event_seq,
    wake_at       = sqlc.narg('wake_at'),
    updated_at    = GREATEST(updated_at, now()),
    finished_at   = CASE WHEN @final::boolean THEN now() END
WHERE workspace_id = @workspace_id AND id = @id;

-- name: RunEventInsert :exec
INSERT INTO run_events (workspace_id, run_id, seq, status, output, error, created_at)
VALUES (@workspace_id, @run_id, @seq, @status, @output, sqlc.narg('error'), now());

-- name: RunCancel :one
-- Asks for the end of a run that is not final: the first to ask counts, but who asks for
-- an immediate end later gets it. No row: there is no such run; live says whether it was
-- still to be ended.
WITH asked AS (
    UPDATE workflow_runs r SET
        cancel_requested_at = COALESCE(r.cancel_requested_at, now()),
        cancel_reason       = CASE WHEN r.cancel_requested_at IS NULL THEN sqlc.narg('reason') ELSE r.cancel_reason END,
        cancel_mode         = CASE WHEN r.cancel_mode = 'immediate' THEN r.cancel_mode ELSE @mode::text END,
        wake_at             = LEAST(r.wake_at, now()),
        updated_at          = GREATEST(r.updated_at, now())
    WHERE r.workspace_id = @workspace_id AND r.id = @id AND r.finished_at IS NULL
    RETURNING r.id
)
SELECT r.workflow_id, EXISTS (SELECT FROM asked) AS live
FROM workflow_runs r WHERE r.workspace_id = @workspace_id AND r.id = @id;

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

-- name: RunDepth :one
-- How many runs are above a run, as far as max_depth.
WITH RECURSIVE above AS (
    SELECT r.parent_run_id, 0 AS depth FROM workflow_runs r WHERE r.workspace_id = @workspace_id AND r.id = @id
    UNION ALL
    SELECT p.parent_run_id, a.depth + 1 FROM above a
    JOIN LATERAL (SELECT x.parent_run_id FROM workflow_runs x WHERE x.workspace_id = @workspace_id AND x.id = a.parent_run_id LIMIT 1) AS p ON true
    WHERE a.depth < @max_depth::integer
)
SELECT max(depth)::integer AS depth FROM above;
