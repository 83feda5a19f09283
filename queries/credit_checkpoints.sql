-- name: CheckpointList :many
-- The checkpoints of a workspace, in the order of their ranges.
SELECT * FROM credit_checkpoints WHERE workspace_id = @workspace_id ORDER BY after;

-- name: CheckpointNext :one
-- The last of the next postings of a workspace, and no row if there is none. Postings
-- younger than the margin are left out: others with a lower id may not be committed yet.
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
-- Adds the postings that follow a checkpoint, unless another audit did. The sums of the
-- month start at zero in another month.
UPDATE credit_checkpoints c SET
    upto = @upto, postings = c.postings + @postings, plan = c.plan + @plan, paid = c.paid + @paid,
    month          = GREATEST(c.month, @month::date),
    plan_used      = CASE WHEN c.month > @month::date THEN c.plan_used WHEN c.month = @month::date THEN c.plan_used + @plan_used::bigint ELSE @plan_used::bigint END,
    allowance_used = CASE WHEN c.month > @month::date THEN c.allowance_used WHEN c.month = @month::date THEN c.allowance_used + @allowance_used::bigint ELSE @allowance_used::bigint END,
    checksum       = (c.checksum::numeric + (@checksum::text)::numeric)::text
WHERE c.workspace_id = @workspace_id AND c.after = @after AND c.upto = @old_upto;

-- name: CheckpointVerified :exec
UPDATE credit_checkpoints SET verified_at = now() WHERE workspace_id = @workspace_id AND after = @after AND upto = @upto;

-- name: CheckpointDelete :exec
-- The next audit makes the checkpoints of the workspace anew.
DELETE FROM credit_checkpoints WHERE workspace_id = @workspace_id;

-- name: InstallationAudited :exec
-- Notes an audit of all credits: how many rows it found wrong and, if it is complete, how
-- long ago it began. An incomplete one that found nothing changes nothing.
UPDATE installation SET
    audited_at   = CASE WHEN @complete::boolean THEN GREATEST(audited_at, now() - @took::interval) ELSE audited_at END,
    audit_faults = @faults
WHERE one AND (@complete::boolean OR @faults > 0);

-- name: InstallationAuditAge :one
-- How long ago the last complete audit of all credits began, when the checkpoint was
-- verified that waits longest for it, how many rows the last audit found wrong, and how many
-- workspaces have their billing stopped.
SELECT COALESCE(EXTRACT(epoch FROM now() - (SELECT i.audited_at FROM installation i WHERE i.one)), 0)::double precision AS audited,
       COALESCE(EXTRACT(epoch FROM now() - (SELECT min(c.verified_at) FROM credit_checkpoints c)), 0)::double precision AS verified,
       COALESCE((SELECT i.audit_faults FROM installation i WHERE i.one), 0)::integer AS faults,
       (SELECT count(*) FROM workspaces w WHERE w.billing_stopped_at IS NOT NULL) AS stopped;
