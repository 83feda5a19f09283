-- name: WorkspaceInsert :exec
-- A workspace with its books: an account on the plan's terms, whose first release
-- is due at once, and the posting of the paid credits that it begins with.
WITH made AS (
    INSERT INTO workspaces (id, name, plan) VALUES (@id, @name, @plan) RETURNING id
), opened AS (
    INSERT INTO credit_accounts (workspace_id, monthly, usage_limit, paid, month, week, valid_until)
    SELECT made.id, @monthly, @usage_limit, @paid, '1970-01-01', '1970-01-01', 'epoch' FROM made
    RETURNING workspace_id, paid
)
INSERT INTO credit_postings (workspace_id, id, kind, reference, paid, granted)
SELECT opened.workspace_id, @posting_id, 'GRANT', 'opening', opened.paid, -opened.paid FROM opened WHERE opened.paid > 0;

-- name: WorkspaceGetByName :one
SELECT id, name, plan, created_at FROM workspaces WHERE name = @name;

-- name: WorkspaceSetPlan :exec
UPDATE workspaces SET plan = @plan WHERE id = @id;
