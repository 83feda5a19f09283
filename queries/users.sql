-- name: UserInsert :execrows
-- Inserts a user. It changes 0 rows if the address already has an account.
INSERT INTO users (id, email, name, password_hash, verified_at)
VALUES (@id, @email, @name, @password_hash, CASE WHEN @verified::boolean THEN now() END)
ON CONFLICT (email) DO NOTHING;

-- name: UserGetByEmail :one
SELECT id, email, name, password_hash, disabled_at, verified_at FROM users WHERE email = @email;

-- name: UserLock :one
-- Locks an account until the transaction ends: its password, its verification and, in a workspace
-- that it joins, its memberships do not change meanwhile.
SELECT id, email, name, password_hash, disabled_at, verified_at FROM users WHERE email = @email FOR NO KEY UPDATE;

-- name: UserBelongsElsewhere :one
SELECT EXISTS (SELECT FROM members WHERE user_id = @user_id AND workspace_id <> @workspace_id) AS found;

-- name: UserSetPassword :exec
-- Sets the password and enables the account.
UPDATE users SET password_hash = @password_hash, disabled_at = NULL,
    verified_at = CASE WHEN @verified::boolean THEN COALESCE(verified_at, now()) ELSE verified_at END
WHERE id = @id;

-- name: UserVerify :exec
-- Sets the password and name of an account whose address is now verified. A disabled account
-- stays disabled.
UPDATE users SET password_hash = @password_hash, name = @name, verified_at = now() WHERE id = @id;
