-- name: CallbackInsertMany :exec
INSERT INTO callbacks (workspace_id, execution_id, url, sealed, signed, header_names, created_at)
SELECT i.workspace_id, i.execution_id, i.url, i.sealed, i.signed, string_to_array(i.header_names, ','), now()
FROM (SELECT
    unnest(@workspace_ids::uuid[]) AS workspace_id,
    unnest(@execution_ids::uuid[]) AS execution_id,
    unnest(@urls::text[])          AS url,
    unnest(@sealed::bytea[])       AS sealed,
    unnest(@signed::boolean[])     AS signed,
    unnest(@header_names::text[])  AS header_names) AS i;

-- name: CallbackListForFreeze :many
-- The callbacks of executions that become final in this transaction.
SELECT c.workspace_id, c.execution_id, c.url, c.sealed, c.signed, c.header_names, c.restores, e.traceparent
FROM callbacks c
JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@execution_ids::uuid[]) AS execution_id) AS i
  ON c.workspace_id = i.workspace_id AND c.execution_id = i.execution_id
JOIN component_executions e ON e.workspace_id = c.workspace_id AND e.id = c.execution_id
WHERE c.state = 'PENDING';

-- name: CallbackFreezeMany :exec
-- Freezes the bodies and binds each callback to its delivery job. State moves
-- PENDING -> QUEUED once only.
UPDATE callbacks c SET state = 'QUEUED', body = i.body, job_id = i.job_id
FROM (SELECT
    unnest(@workspace_ids::uuid[]) AS workspace_id,
    unnest(@execution_ids::uuid[]) AS execution_id,
    unnest(@bodies::bytea[])       AS body,
    unnest(@job_ids::bigint[])     AS job_id) AS i
WHERE c.workspace_id = i.workspace_id AND c.execution_id = i.execution_id AND c.state = 'PENDING';

-- name: CallbackLoadMany :many
-- What the deliveries under way need, for those that are still to be made. wait
-- is the time until the next attempt is due; negative when it is. unopened is the
-- time since a worker found that it lacks the key, and none opened it. Naming QUEUED
-- would make the planner walk the index of queued callbacks instead of the key.
SELECT c.workspace_id, c.execution_id, c.url, c.sealed, c.body, c.tries, c.restores, c.job_id, c.due_at, e.traceparent,
       (COALESCE(c.due_at, now()) - now())::interval AS wait,
       COALESCE(now() - c.unopened_since, interval '0')::interval AS unopened
FROM callbacks c
JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@execution_ids::uuid[]) AS execution_id) AS i
  ON c.workspace_id = i.workspace_id AND c.execution_id = i.execution_id
JOIN component_executions e ON e.workspace_id = c.workspace_id AND e.id = c.execution_id
WHERE c.state NOT IN ('PENDING', 'DELIVERED', 'EXHAUSTED');

-- name: CallbackUnopened :exec
-- Notes that a worker lacks the key of the secrets, unless one has found so before.
UPDATE callbacks SET unopened_since = now()
WHERE workspace_id = @workspace_id AND execution_id = @execution_id AND unopened_since IS NULL;

-- name: CallbackRecordMany :many
-- Records attempts: their rows, the counters, the state that follows, and what
-- becomes of the delivery jobs, in one statement. again_us is the delay before
-- the next attempt in microseconds, negative for none; job_us is the delay of
-- the job, negative when the worker that holds it sees to that.
-- Survives an attempt made twice at once (each is counted), and the late attempt
-- of a job that was replaced: its success counts, its failure decides nothing.
WITH i AS (
    SELECT unnest(@workspace_ids::uuid[])     AS workspace_id,
           unnest(@execution_ids::uuid[])     AS execution_id,
           unnest(@job_ids::bigint[])         AS job_id,
           unnest(@started_ats::timestamptz[]) AS started_at,
           unnest(@durations_ms::integer[])   AS duration_ms,
           unnest(@http_statuses::smallint[]) AS http_status,
           unnest(@errors::text[])            AS error,
           unnest(@delivered::boolean[])      AS delivered,
           unnest(@agains_us::bigint[])       AS again_us,
           unnest(@jobs_us::bigint[])         AS job_us
), changed AS (
    UPDATE callbacks c SET
        attempt_count   = c.attempt_count + 1,
        tries           = c.tries + CASE WHEN c.job_id = i.job_id THEN 1 ELSE 0 END,
        last_attempt_at = i.started_at,
        unopened_since  = NULL,
        last_error      = NULLIF(i.error, '')::json,
        delivered_at    = COALESCE(c.delivered_at, CASE WHEN i.delivered THEN now() END),
        due_at          = CASE WHEN i.delivered OR (c.job_id = i.job_id AND i.again_us < 0) THEN NULL
                               WHEN c.job_id = i.job_id THEN now() + i.again_us * interval '1 microsecond'
                               ELSE c.due_at END,
        state           = CASE WHEN i.delivered THEN 'DELIVERED'
                               WHEN c.state <> 'QUEUED' OR c.job_id <> i.job_id OR i.again_us >= 0 THEN c.state
                               WHEN c.delivered_at IS NOT NULL THEN 'DELIVERED'
                               ELSE 'EXHAUSTED' END
    FROM i
    WHERE c.workspace_id = i.workspace_id AND c.execution_id = i.execution_id
    RETURNING c.workspace_id, c.execution_id, c.attempt_count, c.state, c.job_id = i.job_id AS owned, i.job_id,
              i.started_at, i.duration_ms, i.http_status, i.error, i.delivered, i.again_us, i.job_us
), logged AS (
    INSERT INTO callback_attempts
        (workspace_id, execution_id, attempt, started_at, duration_ms, http_status, error, delivered)
    SELECT workspace_id, execution_id, attempt_count, started_at, duration_ms, NULLIF(http_status, 0),
           NULLIF(error, '')::json, delivered
    FROM changed
), ended AS (
    DELETE FROM river.river_job j USING changed
    WHERE j.id = changed.job_id AND (changed.state <> 'QUEUED' OR NOT changed.owned)
), rearmed AS (
    UPDATE river.river_job j SET state = 'available', scheduled_at = now() + changed.job_us * interval '1 microsecond'
    FROM changed
    WHERE j.id = changed.job_id AND changed.state = 'QUEUED' AND changed.owned AND changed.job_us >= 0
      AND j.state IN ('running', 'scheduled', 'available')
)
SELECT workspace_id, execution_id, (state = 'QUEUED' AND owned)::boolean AS pending FROM changed;

-- name: CallbackGet :one
SELECT * FROM callbacks WHERE workspace_id = @workspace_id AND execution_id = @execution_id;

-- name: CallbackLock :one
-- Serialises replays of one callback. waits reports whether its next attempt is due
-- later; while an attempt is sent, its due time has passed.
SELECT sqlc.embed(callbacks), COALESCE(due_at > clock_timestamp(), false)::boolean AS waits
FROM callbacks WHERE workspace_id = @workspace_id AND execution_id = @execution_id FOR UPDATE;

-- name: CallbackReplay :exec
-- Begins another round of attempts. The caller holds the row's lock.
UPDATE callbacks SET state = 'QUEUED', round = round + 1, tries = 0, due_at = NULL, unopened_since = NULL, job_id = @job_id
WHERE workspace_id = @workspace_id AND execution_id = @execution_id;

-- name: CallbackRearm :exec
-- Makes the job of a delivery due that no worker of the queue holds.
UPDATE river.river_job SET state = 'available', scheduled_at = now() + @delay::interval
WHERE id = @job_id AND state IN ('scheduled', 'available');

-- name: CallbackHasten :exec
-- Makes the next attempt of a waiting callback due now, with a new job. The job that
-- it waited for stays and finds nothing to do: River may still close a run of that
-- job, which would complete it. The caller holds the row's lock.
UPDATE callbacks SET due_at = now(), job_id = @job_id
WHERE workspace_id = @workspace_id AND execution_id = @execution_id;

-- name: CallbackListStranded :many
-- Callbacks that are to be delivered and have no job that would: it is gone or
-- finished, or a process took it and has not come back within the grace.
SELECT c.workspace_id, c.execution_id, c.job_id, c.due_at
FROM callbacks c
LEFT JOIN river.river_job j ON j.id = c.job_id
WHERE c.state = 'QUEUED'
  AND (j.id IS NULL
       OR j.state NOT IN ('available', 'pending', 'running', 'retryable', 'scheduled')
       OR (j.state = 'running' AND j.attempted_at < now() - @grace::interval))
ORDER BY c.execution_id
LIMIT @max_rows;

-- name: CallbackRequeueMany :many
-- Binds stranded callbacks to new jobs, and returns the jobs of those that it changed.
-- Compare-and-set on the job: of two reconcilers one wins, and a late worker's failure
-- decides nothing any more. Rows are locked in the order of IDs.
WITH given AS (
    SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@execution_ids::uuid[]) AS execution_id,
           unnest(@new_job_ids::bigint[]) AS new_job_id, unnest(@old_job_ids::bigint[]) AS old_job_id
), held AS (
    SELECT l.workspace_id, l.execution_id, given.new_job_id
    FROM callbacks l JOIN given ON l.workspace_id = given.workspace_id AND l.execution_id = given.execution_id
    WHERE l.state = 'QUEUED' AND l.job_id = given.old_job_id
      AND l.workspace_id = ANY (@workspace_ids::uuid[]) AND l.execution_id = ANY (@execution_ids::uuid[])
    ORDER BY l.execution_id
    FOR UPDATE OF l
)
UPDATE callbacks c SET job_id = held.new_job_id
FROM held
WHERE c.workspace_id = held.workspace_id AND c.execution_id = held.execution_id
  AND c.workspace_id = ANY (@workspace_ids::uuid[]) AND c.execution_id = ANY (@execution_ids::uuid[])
RETURNING held.new_job_id::bigint AS new_job_id;

-- name: CallbackEraseSecrets :execrows
-- Erases secrets that no delivery needs any more: some time after the delivery,
-- and in any case long after the end. Ids are UUIDv7, so the bounds of time are
-- bounds of ids. The state stands outside too: a replay may have begun while this
-- waited for the row.
UPDATE callbacks c SET sealed = NULL
FROM (SELECT s.workspace_id, s.execution_id FROM callbacks s
      WHERE s.sealed IS NOT NULL AND s.execution_id < @recent::uuid AND s.state IN ('DELIVERED', 'EXHAUSTED')
        AND (s.delivered_at < now() - @after_delivery::interval OR s.execution_id < @old::uuid)
      ORDER BY s.execution_id LIMIT @max_rows) AS gone
WHERE c.workspace_id = gone.workspace_id AND c.execution_id = gone.execution_id
  AND c.state IN ('DELIVERED', 'EXHAUSTED') AND (c.delivered_at < now() - @after_delivery::interval OR c.execution_id < @old::uuid);

-- name: CallbackListSealed :many
-- A page of the callbacks that hold secrets in the order of their ids, each with
-- its secrets if those are not sealed under the key that header names.
SELECT page.workspace_id, page.execution_id,
       (CASE WHEN substring(page.sealed FROM 1 FOR octet_length(@header::bytea)) <> @header::bytea THEN page.sealed END)::bytea AS stale
FROM (SELECT c.workspace_id, c.execution_id, c.sealed FROM callbacks c
      WHERE c.sealed IS NOT NULL AND c.execution_id > @after ORDER BY c.execution_id LIMIT @max_rows) AS page
ORDER BY page.execution_id;

-- name: CallbackListHeaders :many
-- How the secrets of the oldest and the newest callbacks begin that hold any: there
-- the key is named.
SELECT substring(seen.sealed FROM 1 FOR 66)::bytea AS header
FROM ((SELECT o.sealed FROM callbacks o WHERE o.sealed IS NOT NULL ORDER BY o.execution_id LIMIT @each)
      UNION ALL
      (SELECT n.sealed FROM callbacks n WHERE n.sealed IS NOT NULL ORDER BY n.execution_id DESC LIMIT @each)) AS seen;

-- name: CallbackReseal :execrows
-- Puts secrets that were sealed anew in place of those that were read. A row that
-- somebody else has locked, or whose secrets are erased, is left alone.
UPDATE callbacks c SET sealed = free.fresh, unopened_since = NULL
FROM (SELECT l.workspace_id, l.execution_id, i.fresh FROM callbacks l
      JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@execution_ids::uuid[]) AS execution_id,
                   unnest(@stale::bytea[]) AS stale, unnest(@fresh::bytea[]) AS fresh) AS i
        ON l.workspace_id = i.workspace_id AND l.execution_id = i.execution_id AND l.sealed = i.stale
      FOR UPDATE OF l SKIP LOCKED) AS free
WHERE c.workspace_id = free.workspace_id AND c.execution_id = free.execution_id;
