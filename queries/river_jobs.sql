-- name: RiverJobDeleteMany :exec
-- Deletes jobs in the transaction that finished their work. River's own completion of a running
-- job then finds no row, which it allows. A job that River's maintenance has locked is left to
-- its worker, which finds nothing to do: waiting here could deadlock.
DELETE FROM river.river_job WHERE id IN (
    SELECT j.id FROM river.river_job j WHERE j.id = ANY(@ids::bigint[]) FOR UPDATE SKIP LOCKED);

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
