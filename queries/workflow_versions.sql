-- name: WorkflowVersionInsert :exec
INSERT INTO workflow_versions (workspace_id, workflow_id, version, name, description, definition)
VALUES (@workspace_id, @workflow_id, @version, @name, @description, @definition);
