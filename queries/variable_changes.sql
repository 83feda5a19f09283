-- name: VariableChangeRecord :exec
-- Records that a variable was changed or deleted. The time is that of the statement: transactions
-- that lock the variables run it one after the other.
INSERT INTO variable_changes (workspace_id, name, changed_at) VALUES (@workspace_id, @name, clock_timestamp())
ON CONFLICT (workspace_id, name) DO UPDATE SET changed_at = EXCLUDED.changed_at;

-- name: VariableChangeList :many
-- Those of the names whose variables changed after a time.
SELECT name FROM variable_changes WHERE workspace_id = @workspace_id AND name = ANY (@names::text[]) AND changed_at > @since;
