-- name: InvitationLock :exec
-- One at a time for each address in a workspace, until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended(@scope::text, 0));

-- name: InvitationReplace :exec
-- What was open for the address is over.
UPDATE invitations SET revoked_at = now()
WHERE workspace_id = @workspace_id AND email = @email AND accepted_at IS NULL AND revoked_at IS NULL AND expires_at > now();

-- name: InvitationInsert :one
INSERT INTO invitations (workspace_id, id, email, role, token_hash, invited_by, expires_at)
VALUES (@workspace_id, @id, @email, @role, @token_hash, @invited_by, now() + @life::interval)
RETURNING created_at, expires_at;

-- name: InvitationList :many
SELECT id, email, role, created_at, expires_at, accepted_at, revoked_at FROM invitations
WHERE workspace_id = @workspace_id AND id < @before ORDER BY id DESC LIMIT @max_rows;

-- name: InvitationGetForUpdate :one
SELECT id, email, role, created_at, expires_at, accepted_at, revoked_at FROM invitations
WHERE workspace_id = @workspace_id AND id = @id FOR UPDATE;

-- name: InvitationRevoke :one
UPDATE invitations SET revoked_at = COALESCE(revoked_at, now()) WHERE workspace_id = @workspace_id AND id = @id
RETURNING revoked_at;

-- name: InvitationFind :one
-- The open invitation that a token stands for, whatever the workspace.
SELECT workspace_id, id, email, role FROM invitations
WHERE token_hash = @token_hash AND accepted_at IS NULL AND revoked_at IS NULL AND expires_at > now();

-- name: InvitationAccept :execrows
-- Once: whoever comes second changes nothing.
UPDATE invitations SET accepted_at = now()
WHERE workspace_id = @workspace_id AND id = @id AND accepted_at IS NULL AND revoked_at IS NULL AND expires_at > now();
