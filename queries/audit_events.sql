-- name: AuditEventInsert :exec
-- Stores the actor's current name. age is the time since the event.
INSERT INTO audit_events (workspace_id, id, action, actor_kind, actor_id, actor_name, subject_kind, subject_id, details, request_id, created_at)
VALUES (@workspace_id, new_id(), @action, @actor_kind, @actor_id,
    CASE @actor_kind
        WHEN 'user' THEN (SELECT u.email FROM users u WHERE u.id = @actor_id)
        WHEN 'api_key' THEN (SELECT k.label FROM api_keys k WHERE k.workspace_id = @workspace_id AND k.id = @actor_id)
    END,
    @subject_kind, @subject_id, @details, @request_id, now() - @age::interval);

-- name: AuditEventList :many
-- Newest first, after the cursor.
SELECT id, action, actor_kind, actor_id, actor_name, subject_kind, subject_id, details, request_id, created_at
FROM audit_events
WHERE workspace_id = @workspace_id AND id < @before
ORDER BY id DESC
LIMIT @max_rows;
