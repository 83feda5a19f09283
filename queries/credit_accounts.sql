-- name: AccountSettleMany :exec
-- Charges finished executions and runs, in the given order. Plan credits pay first, then paid
-- credits, and the rest comes out of the month's allowance. It inserts the postings and releases
-- the reservations. Raises WF002 if the period of an account is over. A second posting for an
-- execution or a run violates a unique key. A STAGE is paid for by its run: it has no posting.
-- live is 1 for what is counted as live until it is settled, and 0 for the rest. If unreserved is
-- set, nothing was reserved, and the account must also cover the charges: its billing is not
-- stopped, its workspace is not suspended, it may store more this month, and its available credits
-- are more than needed, which is the cost of all charges but the last. It raises WF001 instead of
-- WF002, also if a period is over.
WITH item AS (
    SELECT u.workspace_id, u.kind, u.about, u.amount, u.reserved, u.bytes, u.live, u.place
    FROM ROWS FROM (unnest(@workspace_ids::uuid[]), unnest(@kinds::text[]), unnest(@abouts::uuid[]),
                    unnest(@amounts::bigint[]), unnest(@reserved::bigint[]), unnest(@bytes::bigint[]), unnest(@live::integer[]))
         WITH ORDINALITY AS u (workspace_id, kind, about, amount, reserved, bytes, live, place)
), held AS (
    SELECT h.workspace_id, h.plan, h.paid, h.month FROM credit_accounts h
    WHERE h.workspace_id = ANY (@workspace_ids::uuid[]) AND h.valid_until > COALESCE(sqlc.narg('at')::timestamptz, now())
    ORDER BY h.workspace_id FOR NO KEY UPDATE
), running AS (
    SELECT item.workspace_id, item.kind, item.about, item.amount, item.reserved, item.bytes, item.live, held.plan, held.plan + held.paid AS pots, held.month,
           (sum(item.amount) OVER (PARTITION BY item.workspace_id ORDER BY item.place))::bigint AS upto
    FROM item JOIN held ON held.workspace_id = item.workspace_id
), split AS (
    SELECT r.workspace_id, r.kind, r.about, r.amount, r.reserved, r.bytes, r.live, r.month, r.upto,
           LEAST(r.upto, r.plan) - LEAST(r.upto - r.amount, r.plan) AS of_plan,
           LEAST(r.upto, r.pots) - LEAST(r.upto - r.amount, r.pots) AS of_pots
    FROM running r
), posted AS (
    INSERT INTO credit_postings (workspace_id, id, kind, reference, plan, paid, allowance, usage, created_at)
    SELECT s.workspace_id, new_id(), s.kind, s.about::text, -s.of_plan, s.of_plan - s.of_pots, s.of_pots - s.amount, s.amount,
           -- in the account's month, whenever this transaction started
           GREATEST(COALESCE(sqlc.narg('at')::timestamptz, now()), s.month::timestamp AT TIME ZONE 'UTC')
    FROM split s WHERE s.kind <> 'STAGE'
), total AS (
    SELECT s.workspace_id, sum(s.live) AS ends, max(s.upto - s.amount) FILTER (WHERE s.amount > 0) AS needed, sum(s.of_plan)::bigint AS of_plan, sum(s.of_pots - s.of_plan)::bigint AS of_paid,
           sum(s.amount - s.of_pots)::bigint AS of_allowance, sum(s.reserved)::bigint AS reserved, sum(s.bytes)::bigint AS bytes
    FROM split s GROUP BY s.workspace_id
), settled AS (
    -- Reservations and the count of live executions never fall below zero. A wrong one is left to
    -- the audit and must not keep executions from finishing. The credits are those of the locked
    -- row h: a is the row of the snapshot, and if another transaction has added credits since,
    -- PostgreSQL checks the constraints of a before it reads the row again.
    UPDATE credit_accounts a SET
        plan           = h.plan - t.of_plan,
        paid           = h.paid - t.of_paid,
        plan_used      = a.plan_used + t.of_plan,
        allowance_used = a.allowance_used + t.of_allowance,
        reserved       = GREATEST(a.reserved - t.reserved, 0),
        live           = GREATEST(a.live - t.ends, 0),
        stored         = a.stored + t.bytes
    FROM total t JOIN held h ON h.workspace_id = t.workspace_id
    WHERE a.workspace_id = t.workspace_id
      AND (NOT @unreserved::boolean
           OR NOT a.suspended AND refusal(true, a.stopped, h.plan + h.paid + GREATEST(a.usage_limit - a.plan_used - a.allowance_used - h.plan, 0) - a.reserved,
                      a.stored, a.storage_limit, CASE WHEN t.needed IS NULL THEN 0 ELSE 1 END, t.needed::bigint) IS NULL)
    RETURNING a.workspace_id
)
SELECT must((SELECT count(*) FROM settled) = (SELECT count(DISTINCT i.workspace_id) FROM item i), CASE WHEN @unreserved::boolean THEN 'WF001' ELSE 'WF002' END);

-- name: AccountLockMany :many
-- Locks accounts in order of their ids, and returns them with the current time.
SELECT sqlc.embed(a), COALESCE(sqlc.narg('at')::timestamptz, now())::timestamptz AS at
FROM credit_accounts a
WHERE a.workspace_id = ANY (@workspace_ids::uuid[]) ORDER BY a.workspace_id FOR NO KEY UPDATE;

-- name: AccountLockShared :exec
-- Locks the accounts of a commit that several workspaces share. Raises WF004, with the ids of the
-- accounts, if other transactions hold some of them.
SELECT lock_accounts(@workspace_ids::uuid[]);

-- name: AccountLock :exec
SELECT workspace_id FROM credit_accounts WHERE workspace_id = @workspace_id FOR NO KEY UPDATE;

-- name: AccountGet :one
-- The account of a workspace, with its plan and the current time.
SELECT sqlc.embed(a), w.name, w.plan AS plan_name, COALESCE(sqlc.narg('at')::timestamptz, now())::timestamptz AS at
FROM credit_accounts a JOIN workspaces w ON w.id = a.workspace_id
WHERE a.workspace_id = @workspace_id;

-- name: AccountListDue :many
-- Accounts whose period is over, in the order in which the periods ended.
SELECT a.workspace_id FROM credit_accounts a
WHERE a.valid_until <= COALESCE(sqlc.narg('at')::timestamptz, now())
ORDER BY a.valid_until, a.workspace_id
LIMIT @max_rows;

-- name: AccountReserve :one
-- Reserves credits and counts stored bytes. Returns an empty text, or why the account does not admit
-- it and changes nothing: the reason of refusal(), or suspended for new work of a suspended
-- workspace. count is 1 for an execution and 0 for a run.
WITH account AS (
    SELECT h.workspace_id,
           CASE WHEN h.suspended AND @is_new::boolean THEN 'suspended'
                ELSE refusal(h.valid_until > COALESCE(sqlc.narg('at')::timestamptz, now()), h.stopped,
                             h.plan + h.paid + GREATEST(h.usage_limit - h.plan_used - h.allowance_used - h.plan, 0) - h.reserved,
                             h.stored, h.storage_limit, @amount::bigint, 0) END AS reason
    FROM credit_accounts h WHERE h.workspace_id = @workspace_id FOR NO KEY UPDATE
), reserved AS (
    UPDATE credit_accounts c SET reserved = c.reserved + @amount::bigint, live = c.live + @count::integer, stored = c.stored + @bytes::bigint
    FROM account a WHERE c.workspace_id = a.workspace_id AND a.reason IS NULL
)
SELECT COALESCE(a.reason, '')::text AS reason FROM account a;

-- name: AccountReserveForRun :exec
-- Reserves credits for stages of a run that are not executions. Raises WF001 unless the account
-- admits them. needed is the price of all of the stages but the last.
WITH kept AS (
    UPDATE credit_accounts a SET reserved = a.reserved + @amount
    WHERE a.workspace_id = @workspace_id
      AND refusal(a.valid_until > now(), a.stopped, a.plan + a.paid + GREATEST(a.usage_limit - a.plan_used - a.allowance_used - a.plan, 0) - a.reserved,
                  a.stored, a.storage_limit, @amount, @needed::bigint) IS NULL
    RETURNING a.workspace_id
)
SELECT must((SELECT count(*) FROM kept) = 1, 'WF001');

-- name: AccountLockBudget :one
-- Locks the account. It returns the credits that are available for stages of a run, why the account
-- does not admit a stage that costs something, or an empty text, and whether its storage is used up.
SELECT (a.plan + a.paid + GREATEST(a.usage_limit - a.plan_used - a.allowance_used - a.plan, 0) - a.reserved)::bigint AS available,
       COALESCE(refusal(a.valid_until > now(), a.stopped, a.plan + a.paid + GREATEST(a.usage_limit - a.plan_used - a.allowance_used - a.plan, 0) - a.reserved, a.stored, a.storage_limit, 1, 0), '')::text AS reason,
       (a.storage_limit > 0 AND a.stored >= a.storage_limit)::boolean AS storage_full
FROM credit_accounts a WHERE a.workspace_id = @workspace_id
FOR NO KEY UPDATE;

-- name: AccountRenew :exec
-- Starts a period or changes the terms. The caller has locked the account.
UPDATE credit_accounts SET
    monthly = @monthly, usage_limit = @usage_limit, plan = @plan, plan_used = @plan_used, allowance_used = @allowance_used,
    month = @month, week = @week, valid_until = @valid_until, period = @period, plan_used_before = @plan_used_before,
    stored = @stored, storage_limit = @storage_limit
WHERE workspace_id = @workspace_id;

-- name: AccountAddStored :exec
-- Counts bytes that an unfinished run has stored.
UPDATE credit_accounts SET stored = stored + @bytes WHERE workspace_id = @workspace_id;

-- name: AccountAddStoredWithinLimit :execrows
-- Counts bytes if the workspace may store more this month. If not, it changes 0 rows. An account
-- whose period is over always qualifies.
UPDATE credit_accounts a SET stored = a.stored + @bytes
WHERE a.workspace_id = @workspace_id AND (a.storage_limit = 0 OR a.stored < a.storage_limit OR a.valid_until <= now());

-- name: AccountGrant :exec
-- Adds to the paid credits. The caller has locked the account. A constraint rejects a negative
-- balance.
UPDATE credit_accounts SET paid = paid + @amount WHERE workspace_id = @workspace_id;

-- name: AccountAudit :many
-- Accounts that differ from the sums of their postings, live executions and live runs, with these
-- sums. The credits of a stage are reserved by its run. The sums of postings up to after come
-- from the checkpoints.
SELECT sqlc.embed(a),
       COALESCE(p.plan, 0)::bigint AS posted_plan, COALESCE(p.paid, 0)::bigint AS posted_paid,
       COALESCE(p.plan_used, 0)::bigint AS posted_plan_used, COALESCE(p.allowance_used, 0)::bigint AS posted_allowance_used,
       (COALESCE(e.reserved, 0) + COALESCE(r.reserved, 0))::bigint AS live_reserved, COALESCE(e.live, 0)::bigint AS live_count, COALESCE(e.parked, 0)::bigint AS live_parked
FROM credit_accounts a
LEFT JOIN (
    SELECT t.workspace_id, sum(t.plan) AS plan, sum(t.paid) AS paid, sum(t.plan_used) AS plan_used, sum(t.allowance_used) AS allowance_used
    FROM (SELECT s.workspace_id, s.plan, s.paid,
                 CASE WHEN s.usage > 0 AND s.created_at >= m.month::timestamp AT TIME ZONE 'UTC' THEN -s.plan END AS plan_used,
                 CASE WHEN s.created_at >= m.month::timestamp AT TIME ZONE 'UTC' THEN -s.allowance END AS allowance_used
          FROM credit_postings s JOIN credit_accounts m ON m.workspace_id = s.workspace_id
          WHERE s.workspace_id = ANY (@workspace_ids::uuid[]) AND s.id > @after
          UNION ALL
          SELECT c.workspace_id, c.plan, c.paid, CASE WHEN c.month >= m.month THEN c.plan_used END, CASE WHEN c.month >= m.month THEN c.allowance_used END
          FROM credit_checkpoints c JOIN credit_accounts m ON m.workspace_id = c.workspace_id
          WHERE c.workspace_id = ANY (@workspace_ids::uuid[]) AND c.upto <= @after) AS t
    GROUP BY t.workspace_id
) AS p ON p.workspace_id = a.workspace_id
LEFT JOIN (
    SELECT l.workspace_id, sum(l.reserved) FILTER (WHERE l.run_id IS NULL) AS reserved, count(l.id) AS live, count(l.id) FILTER (WHERE l.parked) AS parked
    FROM component_executions l WHERE l.finished_at IS NULL AND l.workspace_id = ANY (@workspace_ids::uuid[]) GROUP BY l.workspace_id
) AS e ON e.workspace_id = a.workspace_id
LEFT JOIN (
    SELECT k.workspace_id, sum(k.reserved) AS reserved
    FROM workflow_runs k WHERE k.finished_at IS NULL AND k.workspace_id = ANY (@workspace_ids::uuid[]) GROUP BY k.workspace_id
) AS r ON r.workspace_id = a.workspace_id
WHERE a.workspace_id = ANY (@workspace_ids::uuid[])
  AND (a.plan <> COALESCE(p.plan, 0) OR a.paid <> COALESCE(p.paid, 0)
       OR a.plan_used <> COALESCE(p.plan_used, 0) OR a.allowance_used <> COALESCE(p.allowance_used, 0)
       OR a.reserved <> COALESCE(e.reserved, 0) + COALESCE(r.reserved, 0) OR a.live <> COALESCE(e.live, 0) OR a.parked <> COALESCE(e.parked, 0))
ORDER BY a.workspace_id;

-- name: AccountListWithParked :many
-- Workspaces with parked or paused executions, in order of their ids. It scans all accounts, one
-- per workspace. An index on columns that change with most batches would prevent heap-only
-- updates of every busy account.
SELECT workspace_id FROM credit_accounts
WHERE (parked > 0 OR waiting > 0) AND workspace_id > @after
ORDER BY workspace_id LIMIT @max_rows;

-- name: AccountUpdateWaiting :exec
-- Counts the paused executions of a workspace, and locks its account.
UPDATE credit_accounts a SET waiting = (
    SELECT count(*) FROM component_executions e
    WHERE e.workspace_id = a.workspace_id AND e.finished_at IS NULL AND e.not_before > now())
WHERE a.workspace_id = @workspace_id;

-- name: AccountStop :execrows
-- Stops the billing of a workspace. It changes 0 rows if billing was stopped before.
WITH w AS (UPDATE workspaces SET billing_stopped_at = now() WHERE id = @workspace_id AND billing_stopped_at IS NULL RETURNING id)
UPDATE credit_accounts a SET stopped = true FROM w WHERE a.workspace_id = w.id;

-- name: AccountResume :execrows
-- Resumes the billing of a workspace. It changes 0 rows if billing was not stopped.
WITH w AS (UPDATE workspaces SET billing_stopped_at = NULL WHERE id = @workspace_id AND billing_stopped_at IS NOT NULL RETURNING id)
UPDATE credit_accounts a SET stopped = false FROM w WHERE a.workspace_id = w.id;

-- name: AccountIsSuspended :one
SELECT suspended FROM credit_accounts WHERE workspace_id = @workspace_id;

-- name: AccountSetSuspended :execrows
-- Suspends a workspace, or ends its suspension. It changes 0 rows if nothing changes.
UPDATE credit_accounts SET suspended = @suspended WHERE workspace_id = @workspace_id AND suspended <> @suspended;
