-- name: CheckpointList :many
-- The checkpoints of a workspace, in order of their ranges.
SELECT * FROM credit_checkpoints WHERE workspace_id = @workspace_id ORDER BY after;

-- name: CheckpointNext :one
-- The last of the next max_rows postings of a workspace, or no row. Postings younger than margin
-- are left out: others with a lower id may not be committed yet.
SELECT n.id FROM (
    SELECT p.id FROM credit_postings p
    WHERE p.workspace_id = @workspace_id AND p.id > @after AND p.id < least_id(now() - @margin::interval)
    ORDER BY p.id LIMIT @max_rows) AS n
ORDER BY n.id DESC LIMIT 1;

-- name: CheckpointSum :one
-- The sums of a range of postings.
WITH hashed AS (
    SELECT date_trunc('month', p.created_at AT TIME ZONE 'UTC')::date AS month, p.plan, p.paid, p.allowance, p.usage,
           ('x' || left(encode(sha256(convert_to(concat_ws('|', p.id, p.kind, p.reference, p.plan, p.paid, p.allowance, p.usage,
               p.granted, p.released, p.expired, EXTRACT(epoch FROM p.created_at), p.note), 'UTF8')), 'hex'), 15))::bit(60)::bigint AS hash
    FROM credit_postings p
    WHERE p.workspace_id = @workspace_id AND p.id > @after AND p.id <= @upto
), months AS (
    SELECT h.month, count(*) AS postings, sum(h.plan) AS plan, sum(h.paid) AS paid,
           -COALESCE(sum(h.plan) FILTER (WHERE h.usage > 0), 0) AS plan_used, -sum(h.allowance) AS allowance_used, sum(h.hash) AS checksum
    FROM hashed h GROUP BY h.month
)
SELECT COALESCE(sum(m.postings), 0)::bigint AS postings, COALESCE(sum(m.plan), 0)::bigint AS plan, COALESCE(sum(m.paid), 0)::bigint AS paid,
       COALESCE(max(m.month), 'epoch')::date AS month,
       COALESCE(sum(m.plan_used) FILTER (WHERE m.month = l.month), 0)::bigint AS plan_used,
       COALESCE(sum(m.allowance_used) FILTER (WHERE m.month = l.month), 0)::bigint AS allowance_used,
       COALESCE(sum(m.checksum), 0)::text AS checksum
FROM months m CROSS JOIN (SELECT max(x.month) AS month FROM months x) AS l;

-- name: CheckpointInsert :exec
-- Does nothing if another audit has inserted the checkpoint.
INSERT INTO credit_checkpoints (workspace_id, after, upto, postings, plan, paid, month, plan_used, allowance_used, checksum)
VALUES (@workspace_id, @after, @upto, @postings, @plan, @paid, @month, @plan_used, @allowance_used, @checksum)
ON CONFLICT DO NOTHING;

-- name: CheckpointExtend :exec
-- Adds the postings that follow a checkpoint, unless another audit did. In a new month, the sums
-- of the month start at zero.
UPDATE credit_checkpoints c SET
    upto = @upto, postings = c.postings + @postings, plan = c.plan + @plan, paid = c.paid + @paid,
    month          = GREATEST(c.month, @month::date),
    plan_used      = CASE WHEN c.month > @month::date THEN c.plan_used WHEN c.month = @month::date THEN c.plan_used + @plan_used::bigint ELSE @plan_used::bigint END,
    allowance_used = CASE WHEN c.month > @month::date THEN c.allowance_used WHEN c.month = @month::date THEN c.allowance_used + @allowance_used::bigint ELSE @allowance_used::bigint END,
    checksum       = (c.checksum::numeric + (@checksum::text)::numeric)::text
WHERE c.workspace_id = @workspace_id AND c.after = @after AND c.upto = @old_upto;

-- name: CheckpointSetVerified :exec
UPDATE credit_checkpoints SET verified_at = now() WHERE workspace_id = @workspace_id AND after = @after AND upto = @upto;

-- name: CheckpointDelete :exec
-- Deletes the checkpoints of a workspace. The next audit creates them again.
DELETE FROM credit_checkpoints WHERE workspace_id = @workspace_id;

-- name: InstallationRecordAudit :exec
-- Records an audit of all credits: the number of wrong rows and, if it is complete, when it
-- started. An incomplete audit that found nothing wrong changes nothing.
UPDATE installation SET
    audited_at   = CASE WHEN @complete::boolean THEN GREATEST(audited_at, now() - @took::interval) ELSE audited_at END,
    audit_faults = @faults
WHERE one AND (@complete::boolean OR @faults > 0);

-- name: InstallationAuditAge :one
-- The age of the last complete audit and of the oldest verification of a checkpoint in seconds,
-- the number of wrong rows that the last audit found, and the number of workspaces whose billing
-- is stopped.
SELECT COALESCE(EXTRACT(epoch FROM now() - (SELECT i.audited_at FROM installation i WHERE i.one)), 0)::double precision AS audited,
       COALESCE(EXTRACT(epoch FROM now() - (SELECT min(c.verified_at) FROM credit_checkpoints c)), 0)::double precision AS verified,
       COALESCE((SELECT i.audit_faults FROM installation i WHERE i.one), 0)::integer AS faults,
       (SELECT count(*) FROM workspaces w WHERE w.billing_stopped_at IS NOT NULL) AS stopped;
