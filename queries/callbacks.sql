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

-- name: CallbackInsertForRun :exec
INSERT INTO callbacks (workspace_id, execution_id, of_run, url, sealed, signed, header_names, traceparent, created_at)
VALUES (@workspace_id, @run_id, true, @url, @sealed, @signed, @header_names, sqlc.narg('traceparent'), now());

-- name: CallbackListForFreeze :many
-- The callbacks of executions and runs that become final in this transaction.
SELECT c.workspace_id, c.execution_id, c.of_run, c.url, c.sealed, c.signed, c.header_names, c.restores,
       COALESCE(c.traceparent, e.traceparent) AS traceparent
FROM callbacks c
JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@execution_ids::uuid[]) AS execution_id) AS i
  ON c.workspace_id = i.workspace_id AND c.execution_id = i.execution_id
LEFT JOIN component_executions e ON e.workspace_id = c.workspace_id AND e.id = c.execution_id
WHERE c.state = 'PENDING';

-- name: CallbackFreezeMany :many
-- Freezes the bodies and binds each callback to a new delivery job. State moves PENDING -> QUEUED
-- once only. The process that freezes a callback attempts it itself if kept is set: then the job is
-- due after safety_net.
WITH frozen AS (
    UPDATE callbacks c SET state = 'QUEUED', body = i.body, webhook_type = i.webhook_type, job_id = nextval('river.river_job_id_seq')
    FROM (SELECT
        unnest(@workspace_ids::uuid[]) AS workspace_id,
        unnest(@execution_ids::uuid[]) AS execution_id,
        unnest(@bodies::bytea[])       AS body,
        unnest(@webhook_types::text[]) AS webhook_type,
        unnest(@kept::boolean[])       AS kept) AS i
    WHERE c.workspace_id = i.workspace_id AND c.execution_id = i.execution_id AND c.state = 'PENDING'
    RETURNING c.workspace_id, c.execution_id, c.job_id, i.kept
), jobs AS (
    INSERT INTO river.river_job (id, kind, queue, args, state, scheduled_at, max_attempts, priority, metadata, tags)
    SELECT f.job_id, 'callback_delivery', @queue::text, jsonb_build_object('workspaceId', f.workspace_id, 'executionId', f.execution_id),
           (CASE WHEN f.kept THEN 'scheduled' ELSE 'available' END)::river.river_job_state,
           CASE WHEN f.kept THEN now() + @safety_net::interval ELSE now() END, @max_runs::smallint, 1, '{}', '{}'
    FROM frozen f
)
SELECT f.execution_id, f.job_id::bigint AS job_id FROM frozen f;

-- name: CallbackLoadMany :many
-- Loads deliveries that still have to be made. wait is the time until the next attempt is due,
-- negative if it is due. unopened is the time since a worker first lacked the key. Comparing with
-- 'QUEUED' would make the planner walk the index of queued callbacks instead of the primary key.
SELECT c.workspace_id, c.execution_id, c.of_run, c.url, c.sealed, c.body, c.tries, c.restores, c.job_id, c.due_at,
       COALESCE(c.webhook_type, 'execution.' || lower(e.status))::text AS webhook_type, COALESCE(c.traceparent, e.traceparent) AS traceparent,
       (COALESCE(c.due_at, now()) - now())::interval AS wait,
       COALESCE(now() - c.unopened_since, interval '0')::interval AS unopened
FROM callbacks c
JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@execution_ids::uuid[]) AS execution_id) AS i
  ON c.workspace_id = i.workspace_id AND c.execution_id = i.execution_id
LEFT JOIN component_executions e ON e.workspace_id = c.workspace_id AND e.id = c.execution_id
WHERE c.state NOT IN ('PENDING', 'DELIVERED', 'EXHAUSTED');

-- name: CallbackSetUnopened :exec
-- Records when a worker first lacked the key of the secrets.
UPDATE callbacks SET unopened_since = now()
WHERE workspace_id = @workspace_id AND execution_id = @execution_id AND unopened_since IS NULL;

-- name: CallbackRecordMany :many
-- Records attempts in one statement: their rows, the counters, the next state, and the delivery
-- jobs. again_us is the delay before the next attempt in microseconds, negative after the last attempt.
-- job_us is the delay of the job, negative if the worker that holds it snoozes it. If two workers
-- attempt a delivery at once, both attempts count. A late attempt of a job that was replaced
-- counts if it succeeded. If it failed, it does not change the state.
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

-- name: CallbackListOfRuns :many
-- The callbacks of runs.
SELECT * FROM callbacks WHERE workspace_id = @workspace_id AND execution_id = ANY (@run_ids::uuid[]);

-- name: CallbackGet :one
SELECT * FROM callbacks WHERE workspace_id = @workspace_id AND execution_id = @execution_id;

-- name: CallbackLock :one
-- Locks a callback, so that replays of it are serialized. waits reports whether its next attempt
-- is due later. While an attempt is being sent, its due time has passed.
SELECT sqlc.embed(callbacks), COALESCE(due_at > clock_timestamp(), false)::boolean AS waits
FROM callbacks WHERE workspace_id = @workspace_id AND execution_id = @execution_id FOR UPDATE;

-- name: CallbackReplay :exec
-- Starts another round of attempts. The caller has locked the row.
UPDATE callbacks SET state = 'QUEUED', round = round + 1, tries = 0, due_at = NULL, unopened_since = NULL, job_id = @job_id
WHERE workspace_id = @workspace_id AND execution_id = @execution_id;

-- name: CallbackMakeJobDue :exec
-- Makes a delivery's job due, unless a worker of the queue holds it.
UPDATE river.river_job SET state = 'available', scheduled_at = now() + @delay::interval
WHERE id = @job_id AND state IN ('scheduled', 'available');

-- name: CallbackMakeDue :exec
-- Makes the next attempt of a waiting callback due now, with a new job. The old job stays and
-- finds nothing to do: River may still be completing a run of it. The caller has locked the row.
UPDATE callbacks SET due_at = now(), job_id = @job_id
WHERE workspace_id = @workspace_id AND execution_id = @execution_id;

-- name: CallbackListStranded :many
-- Callbacks to be delivered that have no working job: it is missing or finished, or a process
-- fetched it more than grace ago.
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
-- Binds stranded callbacks to new jobs, and returns the jobs that it bound. It compares and sets
-- the job: of two reconcilers one wins, and the failure of a late worker no longer counts. Rows
-- are locked in order of their ids.
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
-- Erases secrets that no delivery needs any more: some time after the delivery, and in any case
-- long after the execution was created. Ids are UUIDv7, so bounds of time are bounds of ids. The
-- state is checked again outside the subquery, because a replay may have started while this
-- statement waited for the row.
UPDATE callbacks c SET sealed = NULL
FROM (SELECT s.workspace_id, s.execution_id FROM callbacks s
      WHERE s.sealed IS NOT NULL AND s.execution_id < @recent::uuid AND s.state IN ('DELIVERED', 'EXHAUSTED')
        AND (s.delivered_at < now() - @after_delivery::interval OR s.execution_id < @old::uuid)
      ORDER BY s.execution_id LIMIT @max_rows) AS gone
WHERE c.workspace_id = gone.workspace_id AND c.execution_id = gone.execution_id
  AND c.state IN ('DELIVERED', 'EXHAUSTED') AND (c.delivered_at < now() - @after_delivery::interval OR c.execution_id < @old::uuid);

-- name: CallbackListSealed :many
-- A page of the callbacks with secrets, in order of their ids. stale is set if the secrets are
-- not sealed under the key of the header.
SELECT page.workspace_id, page.execution_id,
       (CASE WHEN substring(page.sealed FROM 1 FOR octet_length(@header::bytea)) <> @header::bytea THEN page.sealed END)::bytea AS stale
FROM (SELECT c.workspace_id, c.execution_id, c.sealed FROM callbacks c
      WHERE c.sealed IS NOT NULL AND c.execution_id > @after ORDER BY c.execution_id LIMIT @max_rows) AS page
ORDER BY page.execution_id;

-- name: CallbackListHeaders :many
-- The headers of the secrets of the oldest and newest callbacks, which name the key.
SELECT substring(seen.sealed FROM 1 FOR 66)::bytea AS header
FROM ((SELECT o.sealed FROM callbacks o WHERE o.sealed IS NOT NULL ORDER BY o.execution_id LIMIT @each)
      UNION ALL
      (SELECT n.sealed FROM callbacks n WHERE n.sealed IS NOT NULL ORDER BY n.execution_id DESC LIMIT @each)) AS seen;

-- name: CallbackReseal :execrows
-- Replaces secrets by their resealed form. It skips rows that are locked or changed.
UPDATE callbacks c SET sealed = free.fresh, unopened_since = NULL
FROM (SELECT l.workspace_id, l.execution_id, i.fresh FROM callbacks l
      JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@execution_ids::uuid[]) AS execution_id,
                   unnest(@stale::bytea[]) AS stale, unnest(@fresh::bytea[]) AS fresh) AS i
        ON l.workspace_id = i.workspace_id AND l.execution_id = i.execution_id AND l.sealed = i.stale
      FOR UPDATE OF l SKIP LOCKED) AS free
WHERE c.workspace_id = free.workspace_id AND c.execution_id = free.execution_id;

-- name: CallbackListExhausted :many
-- The newest callbacks that were never delivered and are not sent again.
SELECT execution_id, of_run, url, attempt_count, last_attempt_at, last_error FROM callbacks
WHERE workspace_id = @workspace_id AND state = 'EXHAUSTED' AND delivered_at IS NULL
ORDER BY execution_id DESC
LIMIT @max_rows;
