-- name: WorkspaceInsert :exec
INSERT INTO workspaces (id, name, plan) VALUES (@id, @name, @plan);

-- name: WorkspaceGetByName :one
SELECT id, name, plan, created_at FROM workspaces WHERE name = @name;

-- name: WorkspaceSetPlan :exec
UPDATE workspaces SET plan = @plan WHERE id = @id;
