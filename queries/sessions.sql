-- name: SessionInsert :one
-- Inserts a session, unless the password has changed since it was verified. The row lock
-- serializes this with a change of the password. It also deletes up to 100 expired sessions, so
-- that no other job has to.
WITH over AS (
    DELETE FROM sessions WHERE token_hash IN (SELECT s.token_hash FROM sessions s WHERE s.expires_at < now() LIMIT 100)
)
INSERT INTO sessions (token_hash, user_id, expires_at)
SELECT @token_hash, u.id, now() + @life::interval FROM users u
WHERE u.id = @user_id AND u.password_hash = @password_hash AND u.disabled_at IS NULL FOR SHARE OF u
RETURNING expires_at;

-- name: SessionGet :one
-- The user of a session, with the role in a workspace. role is null if the user is not a member.
SELECT s.expires_at, (s.seen_at < now() - interval '1 minute')::boolean AS unseen, u.id, u.email, u.name,
    (u.verified_at IS NOT NULL)::boolean AS verified, m.role
FROM sessions s JOIN users u ON u.id = s.user_id
LEFT JOIN members m ON m.workspace_id = @workspace_id AND m.user_id = u.id
WHERE s.token_hash = @token_hash AND s.expires_at > now() AND u.disabled_at IS NULL;

-- name: SessionListInactive :many
-- Those of the sessions that have ended, or whose user is no longer a member of the workspace.
SELECT i.token_hash, i.workspace_id
FROM (SELECT unnest(@token_hashes::bytea[])::bytea AS token_hash, unnest(@workspace_ids::uuid[])::uuid AS workspace_id) AS i
WHERE NOT EXISTS (
    SELECT FROM sessions s JOIN users u ON u.id = s.user_id JOIN members m ON m.workspace_id = i.workspace_id AND m.user_id = u.id
    WHERE s.token_hash = i.token_hash AND s.expires_at > now() AND u.disabled_at IS NULL
);

-- name: SessionTouch :exec
UPDATE sessions SET seen_at = now() WHERE token_hash = @token_hash;

-- name: SessionDelete :exec
DELETE FROM sessions WHERE token_hash = @token_hash;

-- name: SessionDeleteOfUser :exec
DELETE FROM sessions WHERE user_id = @user_id;

-- name: SessionTrim :exec
-- Deletes the oldest sessions of a user beyond the number kept.
DELETE FROM sessions WHERE token_hash IN (
    SELECT s.token_hash FROM sessions s WHERE s.user_id = @user_id ORDER BY s.created_at DESC OFFSET @kept::int
);
