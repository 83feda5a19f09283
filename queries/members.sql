-- name: MemberListOfUser :many
-- Everything that the user belongs to, newest workspace first.
SELECT w.id, w.name, m.role FROM members m JOIN workspaces w ON w.id = m.workspace_id
WHERE m.user_id = @user_id ORDER BY w.id DESC LIMIT 1000;

-- name: MemberInsert :exec
-- Who is a member already keeps the role.
INSERT INTO members (workspace_id, user_id, role) VALUES (@workspace_id, @user_id, @role)
ON CONFLICT (workspace_id, user_id) DO NOTHING;

-- name: MemberPut :exec
INSERT INTO members (workspace_id, user_id, role) VALUES (@workspace_id, @user_id, @role)
ON CONFLICT (workspace_id, user_id) DO UPDATE SET role = excluded.role;

