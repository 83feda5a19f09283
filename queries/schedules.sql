-- name: ScheduleCount :one
-- The number of schedules, and the current time.
SELECT count(*) AS of_workspace, count(*) FILTER (WHERE workflow_id = @workflow_id) AS of_workflow, now()::timestamptz AS now
FROM schedules WHERE workspace_id = @workspace_id;

-- name: ScheduleInsert :exec
INSERT INTO schedules (workspace_id, id, workflow_id, name, cron, time_zone, overlap, status, next_at, sealed_input, deadline_ms, callback, sealed_callback)
VALUES (@workspace_id, @id, @workflow_id, @name, @cron, @time_zone, @overlap, @status, sqlc.narg('next_at'), @sealed_input, sqlc.narg('deadline_ms'), @callback, @sealed_callback);

-- name: ScheduleGet :one
SELECT id, workflow_id, name, cron, time_zone, overlap, status, revision, next_at, waiting, last_at, last_run_id, last_skipped_at,
       last_skip_reason, created_at, updated_at, now()::timestamptz AS now, sealed_input, sealed_previous, deadline_ms, callback
FROM schedules WHERE workspace_id = @workspace_id AND id = @id;

-- name: ScheduleLock :one
-- Locks a schedule until the transaction ends, and returns it with the current time.
SELECT id, workflow_id, name, cron, time_zone, overlap, status, revision, next_at, waiting, sealed_input, sealed_previous, previous_at, deadline_ms, callback, sealed_callback, now()::timestamptz AS now
FROM schedules WHERE workspace_id = @workspace_id AND id = @id FOR NO KEY UPDATE;

-- name: ScheduleGetForRun :one
-- A schedule with the current time. running reports whether it has an unfinished run.
SELECT s.id, s.workflow_id, s.cron, s.time_zone, s.overlap, s.revision, s.next_at, s.waiting, s.sealed_input, s.sealed_previous, s.deadline_ms, s.callback, s.sealed_callback, now()::timestamptz AS now,
       EXISTS (SELECT FROM workflow_runs r WHERE r.workspace_id = s.workspace_id AND r.trigger_id = s.id AND r.finished_at IS NULL) AS running
FROM schedules s WHERE s.workspace_id = @workspace_id AND s.id = @id;

-- name: ScheduleList :many
-- A page of the schedules, newest first, optionally of one workflow and of the workflows that a
-- key is restricted to. The input and the previous result can be large, so they are left out.
SELECT id, workflow_id, name, cron, time_zone, overlap, status, revision, next_at, waiting, last_at, last_run_id, last_skipped_at,
       last_skip_reason, created_at, updated_at, now()::timestamptz AS now, NULL::bytea AS sealed_input, NULL::bytea AS sealed_previous, deadline_ms, callback
FROM schedules
WHERE workspace_id = @workspace_id AND id < @before
  AND (sqlc.narg('workflow_id')::uuid IS NULL OR workflow_id = sqlc.narg('workflow_id')::uuid)
  AND (sqlc.narg('allowed')::uuid[] IS NULL OR workflow_id = ANY (sqlc.narg('allowed')::uuid[]))
ORDER BY id DESC
LIMIT @max_rows;

-- name: ScheduleListInputs :many
-- The inputs of the schedules of a workflow that may start runs.
SELECT id, name, sealed_input FROM schedules
WHERE workspace_id = @workspace_id AND workflow_id = @workflow_id AND status = 'ACTIVE' ORDER BY id;

-- name: ScheduleListUnstarted :many
-- The schedules with times that are due or queued.
SELECT workspace_id, id, cron, time_zone, revision, next_at, waiting, now()::timestamptz AS now FROM schedules
WHERE status = 'ACTIVE' AND next_at <= now() OR waiting <> '{}'
ORDER BY workspace_id, id;

-- name: ScheduleUpdate :exec
UPDATE schedules SET
    name = @name, cron = @cron, time_zone = @time_zone, overlap = @overlap, status = @status, next_at = sqlc.narg('next_at'),
    waiting = @waiting::timestamptz[], sealed_input = @sealed_input, sealed_previous = @sealed_previous, deadline_ms = sqlc.narg('deadline_ms'),
    callback = @callback, sealed_callback = @sealed_callback,
    previous_at = sqlc.narg('previous_at')::timestamptz, revision = revision + 1, updated_at = GREATEST(updated_at, now())
WHERE workspace_id = @workspace_id AND id = @id;

-- name: ScheduleAdvance :exec
-- Advances a schedule to its next time, and records the results of the times that were due. It
-- changes nothing if the schedule was changed since it was read.
UPDATE schedules SET
    next_at = sqlc.narg('next_at'), waiting = @waiting::timestamptz[], revision = revision + 1,
    last_at = COALESCE(sqlc.narg('last_at')::timestamptz, last_at),
    last_run_id = COALESCE(sqlc.narg('last_run_id')::uuid, last_run_id),
    last_skipped_at = COALESCE(sqlc.narg('last_skipped_at')::timestamptz, last_skipped_at),
    last_skip_reason = COALESCE(sqlc.narg('last_skip_reason')::text, last_skip_reason)
WHERE workspace_id = @workspace_id AND id = @id AND revision = @revision;

-- name: ScheduleStorePrevious :exec
-- Stores the result of a run that completed, unless the result of a later time is stored. It changes the
-- revision, so that a run that is being started reads the new result.
UPDATE schedules SET sealed_previous = @sealed_previous, previous_at = @scheduled_at::timestamptz, revision = revision + 1
WHERE workspace_id = @workspace_id AND id = @id AND (previous_at IS NULL OR previous_at <= @scheduled_at::timestamptz);

-- name: ScheduleDelete :exec
DELETE FROM schedules WHERE workspace_id = @workspace_id AND id = @id;
