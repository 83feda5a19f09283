-- name: RiverJobDeleteMany :exec
-- Takes finished work out of the queue in the transaction that finished it.
-- River's own completion of a running job then finds no row, which it allows.
DELETE FROM river.river_job WHERE id = ANY(@ids::bigint[]);

-- name: RiverJobRearm :exec
-- Makes a job that is not yet running due after the delay: the way a snooze
-- does it, for work that River did not fetch.
UPDATE river.river_job SET state = 'available', scheduled_at = now() + @delay::interval
WHERE id = @id AND state = 'scheduled';

-- name: RiverJobListOrphaned :many
-- Jobs of a queue that a vanished client has fetched and not finished.
SELECT id, kind, args FROM river.river_job
WHERE state = 'running' AND queue = @queue
  AND NOT (attempted_by[array_upper(attempted_by, 1)] = ANY(@live_clients::text[]))
LIMIT @max_rows;

-- name: RiverJobOldestDue :one
-- How many seconds the longest-waiting job of a queue has been ready; 0 when
-- none is.
SELECT COALESCE(EXTRACT(epoch FROM now() - min(scheduled_at)), 0)::double precision AS seconds
FROM river.river_job WHERE state = 'available' AND queue = @queue AND scheduled_at <= now();
