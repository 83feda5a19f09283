-- name: ExecutionAcceptMany :many
-- Accepts executions, one for each element of the arrays: reserves their credits, and inserts their
-- jobs, their rows and their callbacks. Returns one row for each element, in the given order, with
-- the reason if it is not accepted: that of refusal(), or suspended. A suspended workspace gets no
-- new executions, but stages of its accepted runs.
--
-- The row of an execution whose worker_id is not 0 is inserted as started by that worker, which has
-- reserved a slot for it, and its job is due after safety_net. amount is reserved in the account,
-- and price is what the execution will cost: a run pays for its stages.
--
-- An execution that would exceed its workspace's fair share is parked: its job is pending, so no
-- worker fetches it. Executions without a worker are parked first. The account is locked, so the
-- counts are exact. finishing executions finish later in the transaction: their room counts as
-- free, unless older executions are parked, which come first. If whole is set, it raises WF001 or
-- WF002 unless all executions are accepted, and none of them is parked before finishing ones have
-- finished. at is the creation time of stages, or
-- null for now.
--
-- key_root_id is written for processes of the previous release, which do not read key_id. Without
-- it they would hide the execution from its key, or show it to others, during a rolling upgrade.
-- Remove it from here in the release after the first one that writes key_id. Older rows still
-- need the reads of key_root_id until retention has deleted them.
WITH item AS (
    SELECT generate_subscripts(@ids::uuid[], 1) AS place,
           unnest(@workspace_ids::uuid[])     AS workspace_id,
           unnest(@ids::uuid[])               AS id,
           unnest(@amounts::bigint[])         AS amount,
           unnest(@modules::text[])           AS module,
           unnest(@repeats::text[])           AS repeat_rule,
           unnest(@calls::bytea[])            AS call,
           unnest(@attempts::smallint[])      AS attempts,
           unnest(@worker_ids::integer[])     AS worker_id,
           unnest(@traceparents::text[])      AS traceparent,
           unnest(@prices::bigint[])          AS price,
           NULLIF(unnest(@run_ids::uuid[]), '00000000-0000-0000-0000-000000000000')      AS run_id,
           unnest(@timeouts::integer[])       AS timeout_ms,
           NULLIF(unnest(@deadlines::bigint[]), 0) * interval '1 millisecond' AS lasts, -- 0: no deadline
           NULLIF(unnest(@key_ids::uuid[]), '00000000-0000-0000-0000-000000000000')      AS key_id,
           NULLIF(unnest(@key_root_ids::uuid[]), '00000000-0000-0000-0000-000000000000') AS key_root_id,
           unnest(@callback_urls::text[])     AS url,
           unnest(@callback_sealed::bytea[])  AS sealed,
           unnest(@callback_signed::boolean[]) AS signed,
           unnest(@callback_headers::text[])  AS header_names
), account AS (
    -- Rows are locked in order of ids, here and everywhere, to avoid deadlocks.
    SELECT h.workspace_id, GREATEST(h.live - h.parked - h.waiting, 0) AS active,
           (SELECT fair_share()) + CASE WHEN h.parked = 0 THEN @finishing::bigint ELSE 0 END AS max_active,
           h.valid_until > now() AS current, h.stopped, h.suspended, h.stored, h.storage_limit,
           h.plan + h.paid + GREATEST(h.usage_limit - h.plan_used - h.allowance_used - h.plan, 0) - h.reserved AS available
    FROM credit_accounts h
    WHERE h.workspace_id = ANY (@workspace_ids::uuid[])
    ORDER BY h.workspace_id FOR NO KEY UPDATE
), asked AS (
    SELECT i.place, i.workspace_id, i.worker_id, c.active, c.max_active,
           CASE WHEN c.suspended AND i.run_id IS NULL THEN 'suspended'
                ELSE refusal(c.current, c.stopped, c.available, c.stored, c.storage_limit, i.amount,
                             (sum(i.amount) OVER (PARTITION BY i.workspace_id ORDER BY i.place) - i.amount)::bigint) END AS reason
    FROM item i JOIN account c ON c.workspace_id = i.workspace_id
), admitted AS (
    SELECT a.place, nextval('river.river_job_id_seq') AS job_id,
           row_number() OVER (PARTITION BY a.workspace_id ORDER BY a.worker_id = 0, a.place) + a.active > a.max_active AS parked
    FROM asked a
    WHERE a.reason IS NULL
), reserved AS (
    UPDATE credit_accounts c SET reserved = c.reserved + t.amount, live = c.live + t.live, parked = c.parked + t.parked
    FROM (SELECT i.workspace_id, sum(i.amount)::bigint AS amount, count(*) AS live, count(*) FILTER (WHERE a.parked) AS parked
          FROM item i JOIN admitted a ON a.place = i.place GROUP BY i.workspace_id) AS t
    WHERE c.workspace_id = t.workspace_id
), jobs AS (
    INSERT INTO river.river_job (id, kind, queue, args, state, scheduled_at, max_attempts, priority, metadata, tags)
    SELECT a.job_id, 'component_execution', @queue::text, jsonb_build_object('workspaceId', i.workspace_id, 'executionId', i.id),
           (CASE WHEN a.parked THEN 'pending' WHEN i.worker_id <> 0 THEN 'scheduled' ELSE 'available' END)::river.river_job_state,
           CASE WHEN i.worker_id <> 0 AND NOT a.parked THEN now() + @safety_net::interval ELSE now() END, 25, 1, '{}', '{}'
    FROM item i JOIN admitted a ON a.place = i.place
), executions AS (
    INSERT INTO component_executions
        (workspace_id, id, module, repeat_rule, status, call, attempts, attempt, attempt_started_at, epoch, worker_id,
         job_id, has_callback, traceparent, reserved, parked, run_id, timeout_ms, deadline, key_id, key_root_id, created_at, updated_at)
    SELECT i.workspace_id, i.id, i.module, i.repeat_rule, CASE WHEN s.started THEN 'EXECUTING' ELSE 'CREATED' END, i.call, i.attempts,
           CASE WHEN s.started THEN 1 ELSE 0 END, CASE WHEN s.started THEN s.at END, CASE WHEN s.started THEN 1 ELSE 0 END,
           CASE WHEN s.started THEN i.worker_id END, a.job_id, i.url <> '', NULLIF(i.traceparent, ''), i.price, a.parked,
           i.run_id, NULLIF(i.timeout_ms, 0), s.at + i.lasts, i.key_id, i.key_root_id, s.at, s.at
    FROM item i JOIN admitted a ON a.place = i.place,
         LATERAL (SELECT i.worker_id <> 0 AND NOT a.parked AS started, COALESCE(sqlc.narg('at')::timestamptz, now()) AS at) AS s
), called AS (
    INSERT INTO callbacks (workspace_id, execution_id, url, sealed, signed, header_names, created_at)
    SELECT i.workspace_id, i.id, i.url, i.sealed, i.signed, string_to_array(i.header_names, ','), now()
    FROM item i JOIN admitted a ON a.place = i.place WHERE i.url <> ''
)
SELECT COALESCE(CASE WHEN a.place IS NULL THEN COALESCE(r.reason, 'period') END, '')::text AS reason,
       COALESCE(a.job_id, 0)::bigint AS job_id, COALESCE(a.parked, false)::boolean AS parked, now()::timestamptz AS created_at
FROM item i LEFT JOIN asked r ON r.place = i.place LEFT JOIN admitted a ON a.place = i.place
WHERE NOT @whole::boolean OR must(a.place IS NOT NULL AND NOT (a.parked AND @finishing::bigint > 0),
    CASE WHEN a.place IS NULL AND COALESCE(r.reason, 'period') = 'period' THEN 'WF002' ELSE 'WF001' END)
ORDER BY i.place;
