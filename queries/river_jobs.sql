-- name: RiverJobDeleteMany :exec
-- Deletes jobs in the transaction that finished their work. River's own completion of a running
-- job then finds no row, which it allows. A job that River's maintenance has locked is left to
-- its worker, which finds nothing to do: waiting here could deadlock.
DELETE FROM river.river_job WHERE id IN (
    SELECT j.id FROM river.river_job j WHERE j.id = ANY(@ids::bigint[]) FOR UPDATE SKIP LOCKED);

-- name: RiverJobDeleteFinal :execrows
-- Deletes jobs that were fetched at least grace ago for an execution or a run that is final. Each
-- finish deletes its job, unless a worker is fetching the job at that moment. If the worker's process
-- then dies, the job stays running: River rescues no job without a timeout. River's own completion of
-- a deleted job finds no row, which it allows. Jobs of other kinds are not changed: callbacks are
-- sent after the end.
DELETE FROM river.river_job WHERE id IN (
    SELECT j.id FROM river.river_job j
    WHERE j.state = 'running' AND j.queue = @queue AND j.attempted_at < now() - @grace::interval
      AND CASE j.kind
          WHEN 'component_execution' THEN (SELECT e.finished_at IS NOT NULL FROM component_executions e
              WHERE e.workspace_id = (j.args->>'workspaceId')::uuid AND e.id = (j.args->>'executionId')::uuid)
          WHEN 'workflow_run' THEN (SELECT r.finished_at IS NOT NULL FROM workflow_runs r
              WHERE r.workspace_id = (j.args->>'workspaceId')::uuid AND r.id = (j.args->>'runId')::uuid)
          END
    LIMIT @max_rows FOR UPDATE SKIP LOCKED);

-- name: RiverJobMakeDue :exec
-- Makes a job that is not running due after the delay, like a snooze of a job that River fetched.
UPDATE river.river_job SET state = 'available', scheduled_at = now() + @delay::interval
WHERE id = @id AND state IN ('scheduled', 'available');

-- name: RiverJobNotify :exec
-- Notifies the workers of a queue when the transaction commits, as an insert does.
SELECT pg_notify('river.river_insert', json_build_object('queue', @queue::text)::text);

-- name: RiverJobOldestDue :one
-- How many seconds the oldest job of a queue has been due, or 0 if none is.
SELECT COALESCE(EXTRACT(epoch FROM now() - min(scheduled_at)), 0)::double precision AS seconds
FROM river.river_job WHERE state = 'available' AND queue = @queue AND scheduled_at <= now();
