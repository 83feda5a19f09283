-- name: ExecutionInsertFinalMany :many
-- Inserts executions that finished before they were stored, one for each element of the arrays.
-- They have no job, and no worker ever had them. usage is 0 for a failed execution. The columns are
-- those of ExecutionFinishMany.
INSERT INTO component_executions
    (workspace_id, id, module, repeat_rule, status, call, attempts, attempt, attempt_started_at, epoch, job_id, has_callback,
     traceparent, output, error, usage, key_id, key_root_id, created_at, updated_at, finished_at)
SELECT i.workspace_id, i.id, i.module, i.repeat_rule, i.status, '', i.attempts, 1, now(), 1, 0, i.has_callback,
       NULLIF(i.traceparent, ''), NULLIF(i.output, '')::json, NULLIF(i.error, '')::json, i.usage,
       NULLIF(i.key_id, '00000000-0000-0000-0000-000000000000'), NULLIF(i.key_root_id, '00000000-0000-0000-0000-000000000000'),
       now(), now(), now()
FROM (SELECT
    unnest(@workspace_ids::uuid[])    AS workspace_id,
    unnest(@ids::uuid[])              AS id,
    unnest(@modules::text[])          AS module,
    unnest(@repeats::text[])          AS repeat_rule,
    unnest(@statuses::text[])         AS status,
    unnest(@attempts::smallint[])     AS attempts,
    unnest(@has_callbacks::boolean[]) AS has_callback,
    unnest(@traceparents::text[])     AS traceparent,
    unnest(@outputs::text[])          AS output,
    unnest(@errors::text[])           AS error,
    unnest(@usages::bigint[])         AS usage,
    unnest(@key_ids::uuid[])          AS key_id,
    unnest(@key_root_ids::uuid[])     AS key_root_id) AS i
RETURNING workspace_id, id, epoch, module, status, usage, reserved, job_id, has_callback,
          run_id, created_at, updated_at, attempt;

-- name: ExecutionGetWithoutCallback :one
-- The record of an execution that has no callback. A statement locks each partition of each table
-- that it names. With two tables, these are more locks than the fast path of a session holds, and
-- they are most of the cost of this query.
SELECT workspace_id, id, module, status, output, error, usage, created_at, updated_at, attempt, continuing, not_before, has_callback
FROM component_executions
WHERE workspace_id = @workspace_id AND id = @id;

-- name: ExecutionGetKey :one
-- The key that submitted an execution. It is null for a stage of a run, and for executions
-- accepted before keys were recorded. Earlier versions recorded only the first key of the
-- rotations (key_root_id). All keys of these rotations see such an execution.
SELECT COALESCE(key_id, key_root_id) FROM component_executions WHERE workspace_id = @workspace_id AND id = @id;

-- name: ExecutionGet :one
-- The record of an execution with the progress of its callback.
SELECT e.workspace_id, e.id, e.module, e.status, e.output, e.error, e.usage, e.created_at, e.updated_at,
       e.attempt, e.continuing, e.not_before,
       c.url AS callback_url, c.signed AS callback_signed, c.header_names AS callback_header_names,
       c.attempt_count AS callback_attempt_count, c.last_attempt_at AS callback_last_attempt_at,
       c.delivered_at AS callback_delivered_at, c.last_error AS callback_last_error
FROM component_executions e
LEFT JOIN callbacks c ON e.has_callback AND c.workspace_id = e.workspace_id AND c.execution_id = e.id
WHERE e.workspace_id = @workspace_id AND e.id = @id;

-- name: ExecutionWalk :many
-- Executions newest first, after the cursor, without the stages of runs, with the columns that lists
-- filter by. UUIDv7 ids are ordered by time, so inserts do not disturb a page. least is the smallest
-- ID that matches the filters.
SELECT id, COALESCE(key_id, key_root_id) AS key_id, module, status, created_at FROM component_executions
WHERE workspace_id = @workspace_id AND id < @before AND id >= @least AND run_id IS NULL
ORDER BY id DESC
LIMIT @max_rows;

-- name: ExecutionWalkModule :many
-- The same for one module, by its index.
SELECT id, COALESCE(key_id, key_root_id) AS key_id, module, status, created_at FROM component_executions
WHERE workspace_id = @workspace_id AND id < @before AND id >= @least AND run_id IS NULL AND module = @module
ORDER BY id DESC
LIMIT @max_rows;

-- name: ExecutionWalkFailed :many
-- The same for failed executions, by their index: only these have an error.
SELECT id, COALESCE(key_id, key_root_id) AS key_id, module, status, created_at FROM component_executions
WHERE workspace_id = @workspace_id AND id < @before AND id >= @least AND run_id IS NULL AND error IS NOT NULL
ORDER BY id DESC
LIMIT @max_rows;

-- name: ExecutionWalkLive :many
-- The same for unfinished executions, by the indexes of those that are parked and those that are
-- not. The index of the latter has those of all workspaces, but only as many as the deployment may
-- have in progress.
SELECT l.id, l.key_id, l.module, l.status, l.created_at
FROM ((SELECT p.id, COALESCE(p.key_id, p.key_root_id) AS key_id, p.module, p.status, p.created_at FROM component_executions p
       WHERE p.workspace_id = @workspace_id AND p.id < @before AND p.id >= @least AND p.run_id IS NULL AND p.parked
       ORDER BY p.id DESC LIMIT @max_rows)
      UNION ALL
      (SELECT u.id, COALESCE(u.key_id, u.key_root_id) AS key_id, u.module, u.status, u.created_at FROM component_executions u
       WHERE u.workspace_id = @workspace_id AND u.id < @before AND u.id >= @least AND u.run_id IS NULL AND u.finished_at IS NULL AND NOT u.parked
       ORDER BY u.id DESC LIMIT @max_rows)) AS l
ORDER BY l.id DESC
LIMIT @max_rows;

-- name: ExecutionListMany :many
-- The records of executions with the progress of their callbacks, newest first, each looked up by
-- its key. The list ends early, but not before the first execution, when all their texts exceed
-- max_bytes. An execution counts as 1,000 bytes more, for its other fields.
SELECT e.workspace_id, e.id, e.module, e.status, e.output, e.error, e.usage, e.created_at, e.updated_at,
       e.attempt, e.continuing, e.not_before,
       c.url AS callback_url, c.signed AS callback_signed, c.header_names AS callback_header_names,
       c.attempt_count AS callback_attempt_count, c.last_attempt_at AS callback_last_attempt_at,
       c.delivered_at AS callback_delivered_at, c.last_error AS callback_last_error
FROM (
    SELECT page.*, row_number() OVER newest AS place, sum(page.size) OVER newest AS bytes
    FROM (
        SELECT l.workspace_id, l.id, l.module, l.status, l.output, l.error, l.usage, l.has_callback, l.created_at, l.updated_at,
               l.attempt, l.continuing, l.not_before, 1000 + octet_length(concat(l.output, l.error)) + CASE WHEN l.has_callback THEN
                   COALESCE((SELECT octet_length(concat(c.url, c.header_names, c.last_error)) FROM callbacks c WHERE c.workspace_id = l.workspace_id AND c.execution_id = l.id), 0)
               ELSE 0 END AS size
        FROM (SELECT unnest(@ids::uuid[]) AS id) AS i
        JOIN LATERAL (SELECT x.* FROM component_executions x WHERE x.workspace_id = @workspace_id AND x.id = i.id LIMIT 1) AS l ON true
    ) AS page WINDOW newest AS (ORDER BY page.id DESC)
) AS e
LEFT JOIN callbacks c ON e.has_callback AND c.workspace_id = e.workspace_id AND c.execution_id = e.id
WHERE e.place = 1 OR e.bytes <= @max_bytes::bigint
ORDER BY e.id DESC;

-- name: ExecutionStartMany :many
-- Starts or continues attempts. It compares and sets: no worker may have the execution. If two
-- workers try at once, one gets no row, and so does a job that the sweep has replaced. A
-- condition on finished_at would make the planner walk the index of live executions instead of
-- the primary key. continuing reports whether the attempt was started before. The next pause sets
-- it again. outcome_known reports whether each attempt so far was answered, except one that
-- waits, or none was sent. An execution that waits for a retry is not started before it is due, even if
-- its job is: its job is due at the same time, give or take a second. since is the time since the
-- first attempt started, and remaining the time until the deadline: 1000 days without a deadline.
UPDATE component_executions e SET
    status             = 'EXECUTING',
    attempt            = CASE WHEN e.continuing THEN e.attempt ELSE e.attempt + 1 END,
    attempt_started_at = CASE WHEN e.continuing THEN COALESCE(e.attempt_started_at, GREATEST(e.updated_at, now())) ELSE GREATEST(e.updated_at, now()) END,
    not_before         = NULL,
    epoch              = e.epoch + 1,
    worker_id          = @worker_id::integer,
    updated_at         = GREATEST(e.updated_at, now())
FROM (SELECT
    unnest(@workspace_ids::uuid[]) AS workspace_id,
    unnest(@ids::uuid[])           AS id,
    unnest(@job_ids::bigint[])     AS job_id) AS i
WHERE e.workspace_id = i.workspace_id AND e.id = i.id AND e.job_id = i.job_id
  AND e.worker_id IS NULL AND NOT e.parked AND e.status IN ('CREATED', 'EXECUTING')
  AND (e.not_before IS NULL OR e.not_before < now() + interval '1 second')
RETURNING e.workspace_id, e.id, e.module, e.call, e.attempts, e.attempt, e.wait_state, e.epoch, e.job_id, e.traceparent,
          e.run_id, e.timeout_ms, e.canceling, e.cancel_reason, e.repeat_rule, e.continuing,
          COALESCE(e.deadline - now(), interval '1000 days')::interval AS remaining,
          (e.attempt = 1 AND NOT e.continuing OR e.outcome_known_epoch IS NOT DISTINCT FROM e.epoch - 1)::boolean AS outcome_known,
          GREATEST(now() - e.attempt_started_at, interval '0')::interval AS elapsed,
          GREATEST(now() - COALESCE(e.first_attempt_at, e.attempt_started_at), interval '0')::interval AS since,
          COALESCE(now() - e.unrunnable_since, interval '0')::interval AS unrunnable;

-- name: ExecutionGetState :one
-- Why ExecutionStartMany returned no row. due_in is the time until the execution may start again.
SELECT job_id, finished_at, GREATEST(COALESCE(not_before - now(), interval '0'), interval '0')::interval AS due_in FROM component_executions
WHERE workspace_id = @workspace_id AND id = @id;

-- name: ExecutionPause :one
-- Pauses an execution between attempts (continuing = false) or while an attempt waits (continuing
-- = true). restart gives the attempt its full timeout again. unrunnable means that this worker
-- could not run it. An execution that is to be canceled is due now, and ends when it starts. Fenced by the epoch.
UPDATE component_executions SET
    worker_id          = NULL,
    continuing         = @continuing,
    attempt_started_at = CASE WHEN @restart::boolean THEN NULL ELSE attempt_started_at END,
    first_attempt_at   = CASE WHEN @continuing THEN first_attempt_at ELSE COALESCE(first_attempt_at, attempt_started_at) END,
    wait_state         = @wait_state,
    outcome_known_epoch = CASE WHEN @outcome_known::boolean THEN epoch END,
    unrunnable_since   = CASE WHEN @unrunnable::boolean THEN COALESCE(unrunnable_since, now()) END,
    not_before         = now() + CASE WHEN canceling THEN interval '0' ELSE @delay::interval END,
    updated_at         = GREATEST(updated_at, now())
WHERE workspace_id = @workspace_id AND id = @id AND epoch = @epoch
  AND worker_id IS NOT NULL -- so it is not final
RETURNING job_id, not_before, canceling;

-- name: ExecutionFinishMany :many
-- Moves executions to their final state. Completed ones are charged the reserved price. Rows that
-- another worker has taken over (a different epoch) or that are final are not changed and not
-- returned. The outputs are not returned, because the caller has them. The statement uses the
-- primary key, as ExecutionStartMany does. It erases the call, which is no longer needed and may
-- contain secrets. It also erases the start of an attempt that the error does not count, because a
-- canceled run refused it.
UPDATE component_executions e SET
    call        = '',
    status      = i.status,
    output      = i.output::json,
    error       = i.error::json,
    usage       = CASE WHEN i.status = 'COMPLETED' THEN e.reserved ELSE 0 END,
    worker_id   = NULL,
    wait_state  = NULL,
    not_before  = NULL,
    attempt_started_at = CASE WHEN (i.error::json->>'attempt')::integer < e.attempt THEN NULL ELSE e.attempt_started_at END,
    updated_at  = GREATEST(e.updated_at, now()),
    finished_at = GREATEST(e.updated_at, now())
FROM (SELECT
    unnest(@workspace_ids::uuid[]) AS workspace_id,
    unnest(@ids::uuid[])           AS id,
    unnest(@epochs::integer[])     AS epoch,
    unnest(@statuses::text[])      AS status,
    NULLIF(unnest(@outputs::text[]), '') AS output,
    NULLIF(unnest(@errors::text[]), '')  AS error) AS i
WHERE e.workspace_id = i.workspace_id AND e.id = i.id AND e.epoch = i.epoch
  AND e.status = 'EXECUTING'
RETURNING e.workspace_id, e.id, e.epoch, e.module, e.status, e.usage, e.reserved, e.job_id,
          e.has_callback, e.run_id, e.created_at, e.updated_at, e.attempt;

-- name: ExecutionListOfRun :many
-- The unfinished ones of a run's executions, with what a cancellation needs. waiting reports
-- whether an attempt waits. outcome_known is about the attempts before it. The statement uses the
-- primary key, as ExecutionStartMany does.
SELECT e.id, e.epoch, e.attempt, (e.worker_id IS NOT NULL)::boolean AS held, e.canceling,
       (e.continuing AND e.attempt_started_at IS NOT NULL)::boolean AS waiting, e.repeat_rule,
       (e.attempt = 0 OR e.outcome_known_epoch IS NOT DISTINCT FROM e.epoch)::boolean AS outcome_known
FROM component_executions e
JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@ids::uuid[]) AS id) AS i
  ON e.workspace_id = i.workspace_id AND e.id = i.id
WHERE e.run_id = @run_id::uuid AND e.status IN ('CREATED', 'EXECUTING');

-- name: ExecutionCancelMany :many
-- Fails executions that no worker has. It skips rows that are locked, or that were started or
-- released since they were read. The caller has locked the account, so parked executions stay
-- parked, and their number may be changed. The columns are those of ExecutionFinishMany.
WITH free AS (
    SELECT c.workspace_id, c.id, c.parked, i.error
    FROM component_executions c
    JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@ids::uuid[]) AS id,
                 unnest(@epochs::integer[]) AS epoch, unnest(@errors::text[]) AS error) AS i
      ON c.workspace_id = i.workspace_id AND c.id = i.id AND c.epoch = i.epoch
    WHERE c.worker_id IS NULL AND c.status IN ('CREATED', 'EXECUTING')
    FOR UPDATE OF c SKIP LOCKED
), unparked AS (
    UPDATE credit_accounts a SET parked = a.parked - p.parked
    FROM (SELECT f.workspace_id, count(*) AS parked FROM free f WHERE f.parked GROUP BY f.workspace_id) AS p
    WHERE a.workspace_id = p.workspace_id
)
UPDATE component_executions e SET
    call        = '',
    status      = 'FAILED',
    error       = free.error::json,
    parked      = false,
    wait_state  = NULL,
    not_before  = NULL,
    updated_at  = GREATEST(e.updated_at, now()),
    finished_at = GREATEST(e.updated_at, now())
FROM free
WHERE e.workspace_id = free.workspace_id AND e.id = free.id
RETURNING e.workspace_id, e.id, e.epoch, e.module, e.status, e.usage, e.reserved, e.job_id,
          e.has_callback, e.run_id, e.created_at, e.updated_at, e.attempt;

-- name: ExecutionListOverdue :many
-- Executions past their deadline that no worker has, with what their end needs. An attempt in flight ends
-- itself.
SELECT e.workspace_id, e.id, e.epoch, e.attempt, (e.continuing AND e.attempt_started_at IS NOT NULL)::boolean AS waiting, e.repeat_rule,
       (e.attempt = 0 OR e.outcome_known_epoch IS NOT DISTINCT FROM e.epoch)::boolean AS outcome_known
FROM component_executions e
WHERE e.finished_at IS NULL AND e.deadline IS NOT NULL AND e.deadline <= now() AND e.worker_id IS NULL
ORDER BY e.deadline
LIMIT @max_rows;

-- name: ExecutionRequestCancelMany :many
-- Requests the cancellation of attempts in flight. It skips locked rows.
UPDATE component_executions e SET canceling = true, updated_at = GREATEST(e.updated_at, now())
FROM (SELECT c.workspace_id, c.id
      FROM component_executions c
      JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@ids::uuid[]) AS id, unnest(@epochs::integer[]) AS epoch) AS i
        ON c.workspace_id = i.workspace_id AND c.id = i.id AND c.epoch = i.epoch
      WHERE c.status = 'EXECUTING'
      FOR UPDATE OF c SKIP LOCKED) AS free
WHERE e.workspace_id = free.workspace_id AND e.id = free.id
RETURNING e.id;

-- name: ExecutionRequestCancel :one
-- Requests the cancellation of an unfinished execution that is not a stage of a run, and returns what its
-- end needs. The first reason stays. Attempts that start later see the request.
UPDATE component_executions e SET
    canceling     = true,
    cancel_reason = CASE WHEN e.canceling THEN e.cancel_reason ELSE sqlc.narg('reason') END,
    updated_at    = CASE WHEN e.canceling THEN e.updated_at ELSE GREATEST(e.updated_at, now()) END
WHERE e.workspace_id = @workspace_id AND e.id = @id AND e.finished_at IS NULL AND e.run_id IS NULL
RETURNING e.epoch, e.attempt, (e.worker_id IS NOT NULL)::boolean AS held, e.cancel_reason, e.repeat_rule,
          (e.continuing AND e.attempt_started_at IS NOT NULL)::boolean AS waiting,
          (e.attempt = 0 OR e.outcome_known_epoch IS NOT DISTINCT FROM e.epoch)::boolean AS outcome_known;

-- name: ExecutionIsStage :one
-- Whether an execution is a stage of a run.
SELECT (run_id IS NOT NULL)::boolean AS stage FROM component_executions WHERE workspace_id = @workspace_id AND id = @id;

-- name: ExecutionCancelAlone :many
-- Requests the cancellation of a workspace's unfinished executions that are not stages of runs. Attempts
-- in flight stop, and no other starts: those that wait for an attempt are due now, and fail. It
-- skips rows that are locked.
WITH free AS (
    SELECT c.workspace_id, c.id
    FROM component_executions c
    WHERE c.workspace_id = @workspace_id AND c.finished_at IS NULL AND c.run_id IS NULL AND NOT c.canceling
    LIMIT @max_rows
    FOR UPDATE OF c SKIP LOCKED
), canceled AS (
    UPDATE component_executions e SET canceling = true, not_before = LEAST(e.not_before, now()), updated_at = GREATEST(e.updated_at, now())
    FROM free WHERE e.workspace_id = free.workspace_id AND e.id = free.id
    RETURNING e.id, e.job_id
), due AS (
    UPDATE river.river_job j SET scheduled_at = now() FROM canceled
    WHERE j.id = canceled.job_id AND j.state IN ('scheduled', 'retryable') AND j.scheduled_at > now()
)
SELECT id FROM canceled;

-- name: ExecutionCountAlone :one
-- The number of executions that ExecutionCancelAlone has still to cancel.
SELECT count(*) FROM component_executions
WHERE workspace_id = @workspace_id AND finished_at IS NULL AND run_id IS NULL AND NOT canceling;

-- name: ExecutionIsCanceling :one
-- Whether the attempt in flight is to be canceled, and why.
SELECT canceling, cancel_reason FROM component_executions WHERE workspace_id = @workspace_id AND id = @id;

-- name: ExecutionChangedSince :many
-- Those of the watched executions that are final or changed recently, in case a wake-up was lost.
-- Final ones are always returned: updated_at is the time when the transaction started, which may
-- be long before its commit.
SELECT e.workspace_id, e.id FROM component_executions e
JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@ids::uuid[]) AS id) AS i
  ON e.workspace_id = i.workspace_id AND e.id = i.id
WHERE e.finished_at IS NOT NULL OR e.updated_at > now() - @since::interval;

-- name: ExecutionListOfWorkers :many
-- Executions that workers have had for at least grace, in order of their ids. Uses the index of
-- executions that are neither final nor parked.
SELECT e.workspace_id, e.id, e.repeat_rule, e.epoch, e.crashes, e.attempt, e.job_id, e.worker_id,
       EXISTS (SELECT FROM workers w WHERE w.id = e.worker_id AND w.survived) AS survived
FROM component_executions e
WHERE e.finished_at IS NULL AND NOT e.parked AND e.worker_id = ANY(@workers::integer[]) AND e.updated_at < now() - @grace::interval
  AND e.id > @after
ORDER BY e.id
LIMIT @max_rows;

-- name: ExecutionListStranded :many
-- Live executions that are not parked, have no worker, and have no job that would continue them.
-- The job is missing or finished, or pending although the execution is not parked, or it was
-- fetched by a process that did not start the execution. An execution that waits needs its job only when
-- it is due.
SELECT e.workspace_id, e.id, e.epoch, e.job_id
FROM component_executions e
LEFT JOIN river.river_job j ON j.id = e.job_id
WHERE e.finished_at IS NULL AND NOT e.parked AND e.worker_id IS NULL AND e.updated_at < now() - @grace::interval
  AND (e.not_before IS NULL OR e.not_before < now() - @grace::interval)
  AND (j.id IS NULL
       OR j.state NOT IN ('available', 'running', 'retryable', 'scheduled')
       OR (j.state = 'running' AND j.attempted_at < now() - @grace::interval))
ORDER BY e.id
LIMIT @max_rows;

-- name: ExecutionListParked :many
-- A page of parked executions. stranded reports whether the job that waits for the release is
-- missing.
SELECT page.workspace_id, page.id, page.epoch, page.job_id,
       (page.updated_at < now() - @grace::interval AND j.state IS DISTINCT FROM 'pending')::boolean AS stranded
FROM (SELECT p.workspace_id, p.id, p.epoch, p.job_id, p.updated_at FROM component_executions p
      WHERE p.parked AND (p.workspace_id, p.id) > (@after_workspace_id::uuid, @after::uuid)
      ORDER BY p.workspace_id, p.id LIMIT @max_rows) AS page
LEFT JOIN river.river_job j ON j.id = page.job_id
ORDER BY page.workspace_id, page.id;

-- name: ExecutionRequeueMany :many
-- Frees executions from a lost worker or a lost job and binds each to a new job. It compares and
-- sets the job, the worker and the epoch that the caller read. Of two sweeps one wins, an
-- execution that was started since is not changed, and a late worker is fenced off by the next
-- epoch. Locked rows are left to the next sweep. An interrupted attempt keeps its number, and
-- gets its full timeout unless it was waiting. The loss of a worker whose process survived is not
-- a crash: call WorkerLockMany first.
UPDATE component_executions e SET
    worker_id  = NULL,
    continuing = e.continuing OR (e.worker_id IS NOT NULL),
    outcome_known_epoch = CASE WHEN e.worker_id IS NULL AND e.outcome_known_epoch = e.epoch THEN e.epoch + 1 END,
    attempt_started_at = CASE WHEN e.worker_id IS NOT NULL AND e.wait_state IS NULL THEN NULL ELSE e.attempt_started_at END,
    crashes     = e.crashes + CASE WHEN free.crashed THEN 1 ELSE 0 END,
    lost_worker = CASE WHEN free.crashed THEN e.worker_id ELSE e.lost_worker END,
    epoch      = e.epoch + 1,
    job_id     = free.new_job_id,
    updated_at = GREATEST(e.updated_at, now())
FROM (SELECT l.workspace_id, l.id, i.new_job_id,
             i.crashed AND NOT EXISTS (SELECT FROM workers w WHERE w.id = l.worker_id AND w.survived) AS crashed
      FROM component_executions l
      JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@ids::uuid[]) AS id, unnest(@epochs::integer[]) AS epoch,
                   unnest(@old_job_ids::bigint[]) AS old_job_id, unnest(@new_job_ids::bigint[]) AS new_job_id,
                   NULLIF(unnest(@worker_ids::integer[]), 0) AS worker_id, unnest(@crashed::boolean[]) AS crashed) AS i
        ON l.workspace_id = i.workspace_id AND l.id = i.id AND l.epoch = i.epoch AND l.job_id = i.old_job_id
      WHERE l.worker_id IS NOT DISTINCT FROM i.worker_id AND l.status IN ('CREATED', 'EXECUTING')
      FOR UPDATE OF l SKIP LOCKED) AS free
WHERE e.workspace_id = free.workspace_id AND e.id = free.id
RETURNING e.job_id;

-- name: ExecutionDetachUnsafe :many
-- Removes unfinished executions that are not safe to repeat from their workers, so that this
-- transaction can fail them. Their records are computed again, so their callbacks get a new
-- webhook-id.
WITH unsafe AS (
    SELECT l.workspace_id, l.id, l.parked FROM component_executions l
    WHERE l.finished_at IS NULL AND l.repeat_rule = 'unsafe' ORDER BY l.id LIMIT @max_rows FOR UPDATE
), taken AS (
    UPDATE component_executions e SET
        status     = 'EXECUTING',
        parked     = false,
        worker_id  = NULL,
        epoch      = e.epoch + 1,
        updated_at = GREATEST(e.updated_at, now())
    FROM unsafe WHERE e.workspace_id = unsafe.workspace_id AND e.id = unsafe.id
    RETURNING e.workspace_id, e.id, e.epoch, e.attempt, unsafe.parked AS was_parked
), unparked AS (
    UPDATE credit_accounts a SET parked = GREATEST(a.parked - p.parked, 0)
    FROM (SELECT t.workspace_id, count(*) AS parked FROM taken t WHERE t.was_parked GROUP BY t.workspace_id) AS p
    WHERE a.workspace_id = p.workspace_id
), recomputed AS (
    UPDATE callbacks c SET restores = c.restores + 1
    FROM taken t WHERE c.workspace_id = t.workspace_id AND c.execution_id = t.id AND c.state = 'PENDING'
)
SELECT t.workspace_id, t.id, t.epoch, t.attempt FROM taken t;

-- name: ExecutionCountLive :one
SELECT count(*) FILTER (WHERE status = 'CREATED') AS created,
       count(*) FILTER (WHERE status = 'EXECUTING') AS executing,
       COALESCE(EXTRACT(epoch FROM now() - min(created_at)), 0)::double precision AS oldest_seconds
FROM component_executions WHERE finished_at IS NULL;

-- name: ExecutionListSealed :many
-- A page of live executions in order of their ids. stale is set if the call is not sealed under
-- the key of the header.
SELECT page.workspace_id, page.id,
       (CASE WHEN substring(page.call FROM 1 FOR octet_length(@header::bytea)) <> @header::bytea THEN page.call END)::bytea AS stale
FROM (SELECT e.workspace_id, e.id, e.call FROM component_executions e
      WHERE e.finished_at IS NULL AND e.id > @after ORDER BY e.id LIMIT @max_rows) AS page
ORDER BY page.id;

-- name: ExecutionListHeaders :many
-- The headers of the calls of the oldest and newest live executions, which name the key.
SELECT substring(seen.call FROM 1 FOR 66)::bytea AS header
FROM ((SELECT o.call FROM component_executions o WHERE o.finished_at IS NULL ORDER BY o.id LIMIT @each)
      UNION ALL
      (SELECT n.call FROM component_executions n WHERE n.finished_at IS NULL ORDER BY n.id DESC LIMIT @each)) AS seen;

-- name: ExecutionReseal :execrows
-- Replaces calls by their resealed form. It skips rows that are locked, changed or final.
UPDATE component_executions e SET call = free.fresh
FROM (SELECT l.workspace_id, l.id, i.fresh FROM component_executions l
      JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@ids::uuid[]) AS id,
                   unnest(@stale::bytea[]) AS stale, unnest(@fresh::bytea[]) AS fresh) AS i
        ON l.workspace_id = i.workspace_id AND l.id = i.id AND l.call = i.stale
      WHERE l.status IN ('CREATED', 'EXECUTING')
      FOR UPDATE OF l SKIP LOCKED) AS free
WHERE e.workspace_id = free.workspace_id AND e.id = free.id;

-- name: ExecutionAudit :many
-- Executions whose usage differs from their posting. A final execution has one posting. An
-- unfinished one has none, and a stage of a run never has one. posted is -1 if there is no
-- posting.
SELECT e.workspace_id, e.id, e.status, e.usage, (e.run_id IS NOT NULL)::boolean AS stage, COALESCE(p.usage, -1)::bigint AS posted
FROM component_executions e
LEFT JOIN credit_postings p ON p.workspace_id = e.workspace_id AND p.kind = 'EXECUTION' AND p.reference = e.id::text
WHERE e.workspace_id = ANY (@workspace_ids::uuid[]) AND e.id > @after AND e.id <= @upto
  AND CASE WHEN e.finished_at IS NULL OR e.run_id IS NOT NULL THEN p.usage IS NOT NULL ELSE p.usage IS DISTINCT FROM e.usage END
ORDER BY e.workspace_id, e.id
LIMIT @max_rows;

-- name: ExecutionRelease :many
-- Releases the oldest parked executions of each workspace that now fit its fair share. The first
-- ones, here for each workspace, start at once with this worker, with their jobs as the safety
-- net. The jobs of the others become available in the queue, and their calls are not returned. The
-- transaction has locked the accounts, so nobody else releases them. Another condition on parked,
-- or one on pending jobs, would make the planner walk all such rows.
WITH room AS (
    SELECT a.workspace_id, i.here, GREATEST((SELECT fair_share()) - GREATEST(a.live - a.parked - a.waiting, 0), 0) AS free
    FROM ROWS FROM (unnest(@workspace_ids::uuid[]), unnest(@here::integer[])) AS i (workspace_id, here)
    JOIN credit_accounts a ON a.workspace_id = i.workspace_id AND a.parked > 0
), oldest AS (
    SELECT o.workspace_id, o.id, row_number() OVER (PARTITION BY o.workspace_id ORDER BY o.id) <= r.here AS here
    FROM room r, LATERAL (SELECT p.workspace_id, p.id FROM component_executions p WHERE p.workspace_id = r.workspace_id AND p.parked
                          ORDER BY p.id LIMIT r.free) AS o
), released AS (
    UPDATE component_executions e SET
        parked             = false,
        status             = CASE WHEN o.here THEN 'EXECUTING' ELSE 'CREATED' END,
        attempt            = CASE WHEN o.here THEN 1 ELSE 0 END,
        attempt_started_at = CASE WHEN o.here THEN GREATEST(e.updated_at, now()) END,
        epoch              = e.epoch + 1,
        worker_id          = CASE WHEN o.here THEN @worker_id::integer END,
        updated_at         = GREATEST(e.updated_at, now())
    FROM oldest o
    WHERE e.workspace_id = o.workspace_id AND e.id = o.id AND e.status = 'CREATED'
    RETURNING e.workspace_id, e.id, e.module, CASE WHEN o.here THEN e.call END::bytea AS call, e.attempts, e.epoch, e.job_id, e.traceparent,
              e.run_id, e.timeout_ms, e.repeat_rule, e.created_at, e.deadline, o.here
), due AS (
    UPDATE river.river_job j SET
        state        = CASE WHEN r.here THEN 'scheduled' ELSE 'available' END::river.river_job_state,
        scheduled_at = CASE WHEN r.here THEN now() + @safety_net::interval ELSE now() END
    FROM released r WHERE j.id = r.job_id AND j.state NOT IN ('running', 'completed', 'cancelled', 'discarded')
), counted AS (
    UPDATE credit_accounts a SET parked = GREATEST(a.parked - n.released, 0)
    FROM (SELECT r.workspace_id, count(*) AS released FROM released r GROUP BY r.workspace_id) AS n
    WHERE a.workspace_id = n.workspace_id
)
SELECT r.workspace_id, r.id, r.module, r.call, r.attempts, r.epoch, r.job_id, r.traceparent, r.run_id, r.timeout_ms, r.repeat_rule, r.created_at, r.here::boolean AS here,
       COALESCE(r.deadline - now(), interval '1000 days')::interval AS remaining,
       (now() - r.created_at)::interval AS waited
FROM released r;
