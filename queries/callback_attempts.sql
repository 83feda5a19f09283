-- name: CallbackAttemptList :many
-- Newest first, after the cursor; the primary key serves it.
SELECT * FROM callback_attempts
WHERE workspace_id = @workspace_id AND execution_id = @execution_id AND attempt < @before
ORDER BY attempt DESC
LIMIT @max_rows;
