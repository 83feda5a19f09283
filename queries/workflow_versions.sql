-- name: WorkflowVersionInsert :one
INSERT INTO workflow_versions (workspace_id, workflow_id, version, name, description, definition)
VALUES (@workspace_id, @workflow_id, @version, @name, @description, @definition)
RETURNING created_at;

-- name: WorkflowVersionGet :one
SELECT name, description, definition, created_at FROM workflow_versions
WHERE workspace_id = @workspace_id AND workflow_id = @workflow_id AND version = @version;
