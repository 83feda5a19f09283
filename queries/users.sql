-- name: UserInsert :execrows
-- Nothing is written when the address has an account already.
INSERT INTO users (id, email, name, password_hash, verified_at)
VALUES (@id, @email, @name, @password_hash, CASE WHEN @verified::boolean THEN now() END)
ON CONFLICT (email) DO NOTHING;

-- name: UserGetByEmail :one
SELECT id, email, name, password_hash, disabled_at, verified_at FROM users WHERE email = @email;

-- name: UserLock :one
-- Locks an account: nobody else changes its password, its verification or, in a workspace that
-- it joins, its memberships until the transaction ends.
SELECT id, email, name, password_hash, disabled_at, verified_at FROM users WHERE email = @email FOR NO KEY UPDATE;

-- name: UserBelongsElsewhere :one
SELECT EXISTS (SELECT FROM members WHERE user_id = @user_id AND workspace_id <> @workspace_id) AS found;

-- name: UserSetPassword :exec
-- Whoever gets a new password may sign in with it.
UPDATE users SET password_hash = @password_hash, disabled_at = NULL,
    verified_at = CASE WHEN @verified::boolean THEN COALESCE(verified_at, now()) ELSE verified_at END
WHERE id = @id;

-- name: UserVerify :exec
-- The password and name of an account whose address is proven now. An account that is disabled stays so.
UPDATE users SET password_hash = @password_hash, name = @name, verified_at = now() WHERE id = @id;
