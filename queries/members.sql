-- name: MemberListOfUser :many
-- The workspaces of a user, newest first.
SELECT w.id, w.name, m.role FROM members m JOIN workspaces w ON w.id = m.workspace_id
WHERE m.user_id = @user_id ORDER BY w.id DESC LIMIT 1000;

-- name: MemberInsert :execrows
-- Adds a member. An existing member keeps the role, and the statement changes 0 rows.
INSERT INTO members (workspace_id, user_id, role) VALUES (@workspace_id, @user_id, @role)
ON CONFLICT (workspace_id, user_id) DO NOTHING;

-- name: MemberUpsert :exec
INSERT INTO members (workspace_id, user_id, role) VALUES (@workspace_id, @user_id, @role)
ON CONFLICT (workspace_id, user_id) DO UPDATE SET role = excluded.role;

-- name: MemberList :many
-- Members of a workspace, newest first.
SELECT m.user_id, u.email, u.name, m.role, m.created_at, (u.verified_at IS NOT NULL)::boolean AS verified FROM members m JOIN users u ON u.id = m.user_id
WHERE m.workspace_id = @workspace_id AND (m.created_at, m.user_id) < (@before_time, @before_id::uuid)
ORDER BY m.created_at DESC, m.user_id DESC LIMIT @max_rows;

-- name: MemberGet :one
SELECT m.user_id, u.email, u.name, m.role, m.created_at, (u.verified_at IS NOT NULL)::boolean AS verified FROM members m JOIN users u ON u.id = m.user_id
WHERE m.workspace_id = @workspace_id AND m.user_id = @user_id;

-- name: MemberLock :many
-- Locks the actor, the affected member and all owners, always in the same order.
SELECT user_id, role FROM members
WHERE workspace_id = @workspace_id AND (role = 'owner' OR user_id IN (@user_id, @actor_id)) ORDER BY user_id FOR UPDATE;

-- name: MemberGetForShare :one
-- The role of a member. It does not change until the transaction ends.
SELECT role FROM members WHERE workspace_id = @workspace_id AND user_id = @user_id FOR SHARE;

-- name: MemberSetRole :exec
UPDATE members SET role = @role WHERE workspace_id = @workspace_id AND user_id = @user_id;

-- name: MemberDelete :exec
DELETE FROM members WHERE workspace_id = @workspace_id AND user_id = @user_id;

-- name: MemberHasEmail :one
SELECT EXISTS (
    SELECT FROM members m JOIN users u ON u.id = m.user_id WHERE m.workspace_id = @workspace_id AND u.email = @email
) AS found;
