-- name: InvitationReplace :many
-- Revokes the open invitations of an address.
UPDATE invitations SET revoked_at = now()
WHERE workspace_id = @workspace_id AND email = @email AND accepted_at IS NULL AND revoked_at IS NULL AND expires_at > now()
RETURNING id, email, role;

-- name: InvitationRevokeOf :many
-- Revokes a user's open invitations to these roles.
UPDATE invitations SET revoked_at = now()
WHERE workspace_id = @workspace_id AND invited_by = @invited_by AND role = ANY(@roles::text[])
    AND accepted_at IS NULL AND revoked_at IS NULL AND expires_at > now()
RETURNING id, email, role;

-- name: InvitationCount :one
-- The number of a workspace's open invitations.
SELECT count(*) FROM invitations
WHERE workspace_id = @workspace_id AND accepted_at IS NULL AND revoked_at IS NULL AND expires_at > now();

-- name: InvitationInsert :one
INSERT INTO invitations (workspace_id, id, email, role, token_hash, mailed_hash, invited_by, expires_at)
VALUES (@workspace_id, @id, @email, @role, @token_hash, @mailed_hash, @invited_by, now() + @life::interval)
RETURNING created_at, expires_at;

-- name: InvitationList :many
-- Newest first, after the cursor, optionally only the open ones.
SELECT i.id, i.email, i.role, i.created_at, i.expires_at, i.accepted_at, i.revoked_at, i.invited_by, u.email AS by_email, u.name AS by_name
FROM invitations i LEFT JOIN users u ON u.id = i.invited_by
WHERE i.workspace_id = @workspace_id AND i.id < @before
    AND (NOT @only_open::boolean OR (i.accepted_at IS NULL AND i.revoked_at IS NULL AND i.expires_at > now()))
ORDER BY i.id DESC LIMIT @max_rows;

-- name: InvitationGetForUpdate :one
SELECT i.id, i.email, i.role, i.created_at, i.expires_at, i.accepted_at, i.revoked_at, i.invited_by, u.email AS by_email, u.name AS by_name
FROM invitations i LEFT JOIN users u ON u.id = i.invited_by
WHERE i.workspace_id = @workspace_id AND i.id = @id FOR UPDATE OF i;

-- name: InvitationRevoke :one
UPDATE invitations SET revoked_at = COALESCE(revoked_at, now()) WHERE workspace_id = @workspace_id AND id = @id
RETURNING revoked_at;

-- name: InvitationGetByToken :one
-- The open invitation of a token, in any workspace. mailed reports whether the token was sent by
-- mail.
SELECT i.workspace_id, i.id, i.email, i.role, i.expires_at, i.invited_by, w.name AS workspace_name, u.email AS by_email, u.name AS by_name,
    COALESCE(i.mailed_hash = @token_hash, false)::boolean AS mailed
FROM invitations i JOIN workspaces w ON w.id = i.workspace_id LEFT JOIN users u ON u.id = i.invited_by
WHERE (i.token_hash = @token_hash OR i.mailed_hash = @token_hash) AND i.accepted_at IS NULL AND i.revoked_at IS NULL AND i.expires_at > now();

-- name: InvitationAccept :execrows
-- Accepts an open invitation. It changes 0 rows if the invitation is no longer open.
UPDATE invitations SET accepted_at = now()
WHERE workspace_id = @workspace_id AND id = @id AND accepted_at IS NULL AND revoked_at IS NULL AND expires_at > now();
