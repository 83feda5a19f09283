-- name: WorkspaceInsert :exec
-- Inserts a workspace and its account on the plan's terms, whose first release is due at once,
-- and a posting for the initial paid credits.
WITH made AS (
    INSERT INTO workspaces (id, name, plan) VALUES (@id, @name, @plan) RETURNING id
), opened AS (
    INSERT INTO credit_accounts (workspace_id, monthly, usage_limit, paid, month, week, valid_until)
    SELECT made.id, @monthly, @usage_limit, @paid, '1970-01-01', '1970-01-01', 'epoch' FROM made
    RETURNING workspace_id, paid
)
INSERT INTO credit_postings (workspace_id, id, kind, reference, paid, granted)
SELECT opened.workspace_id, new_id(), 'GRANT', 'opening', opened.paid, -opened.paid FROM opened WHERE opened.paid > 0;

-- name: WorkspaceGetByName :one
SELECT id, name, plan, created_at FROM workspaces WHERE name = @name;

-- name: WorkspaceGet :one
SELECT id, name, plan, custom_rps, custom_rph, custom_waits, custom_streams, custom_credits, custom_usage_limit, custom_storage, created_at FROM workspaces WHERE id = @id;

-- name: WorkspaceListOfUser :many
-- The workspaces of a user, newest first.
SELECT w.id, w.name, w.plan, w.custom_rps, w.custom_rph, w.custom_waits, w.custom_streams, w.custom_credits, w.custom_usage_limit, w.custom_storage, w.created_at, m.role
FROM members m JOIN workspaces w ON w.id = m.workspace_id
WHERE m.user_id = @user_id AND w.id < @before ORDER BY w.id DESC LIMIT @max_rows;

-- name: WorkspaceListTerms :many
-- The plans of workspaces, with their custom terms.
SELECT id, plan, custom_credits, custom_usage_limit, custom_storage FROM workspaces WHERE id = ANY (@ids::uuid[]);

-- name: WorkspaceSetPlan :execrows
-- Sets the plan and the custom limits. Null means the limit of the plan.
UPDATE workspaces SET
    plan = @plan, custom_rps = sqlc.narg('custom_rps'), custom_rph = sqlc.narg('custom_rph'),
    custom_waits = sqlc.narg('custom_waits'), custom_streams = sqlc.narg('custom_streams'),
    custom_credits = sqlc.narg('custom_credits'), custom_usage_limit = sqlc.narg('custom_usage_limit'),
    custom_storage = sqlc.narg('custom_storage')
WHERE id = @id;

-- name: WorkspaceListIds :many
-- Ids after the cursor, in order.
SELECT id FROM workspaces WHERE id > @after ORDER BY id LIMIT @max_rows;

-- name: WorkspaceGetOfKey :one
-- The names of a key and its workspace, for the key itself.
SELECT w.name, k.label FROM workspaces w JOIN api_keys k ON k.workspace_id = w.id WHERE w.id = @id AND k.id = @key_id;

-- name: WorkspaceListStopped :many
SELECT id FROM workspaces WHERE billing_stopped_at IS NOT NULL ORDER BY id;
