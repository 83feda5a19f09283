-- name: RiverJobDeleteMany :exec
-- Takes finished work out of the queue in the transaction that finished it.
-- River's own completion of a running job then finds no row, which it allows.
-- A job that the queue's own upkeep has locked just now is left to its worker,
-- which finds nothing to do: waiting here could deadlock.
DELETE FROM river.river_job WHERE id IN (
    SELECT j.id FROM river.river_job j WHERE j.id = ANY(@ids::bigint[]) FOR UPDATE SKIP LOCKED);

-- name: RiverJobRearm :exec
-- Makes a job that is not yet running due after the delay: the way a snooze
-- does it, for work that River did not fetch.
UPDATE river.river_job SET state = 'available', scheduled_at = now() + @delay::interval
WHERE id = @id AND state IN ('scheduled', 'available');

-- name: RiverJobTell :exec
-- Wakes those that fetch from a queue, as an insert does, when the transaction
-- commits.
SELECT pg_notify('river.river_insert', json_build_object('queue', @queue::text)::text);

-- name: RiverJobOldestDue :one
-- How many seconds the longest-waiting job of a queue has been ready; 0 when
-- none is.
SELECT COALESCE(EXTRACT(epoch FROM now() - min(scheduled_at)), 0)::double precision AS seconds
FROM river.river_job WHERE state = 'available' AND queue = @queue AND scheduled_at <= now();
