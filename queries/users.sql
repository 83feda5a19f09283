-- name: UserInsert :execrows
-- Nothing is written when the address has an account already.
INSERT INTO users (id, email, name, password_hash) VALUES (@id, @email, @name, @password_hash)
ON CONFLICT (email) DO NOTHING;

-- name: UserGetByEmail :one
SELECT id, email, name, password_hash, disabled_at FROM users WHERE email = @email;

-- name: UserSetPassword :exec
-- Whoever gets a new password may sign in with it.
UPDATE users SET password_hash = @password_hash, disabled_at = NULL WHERE id = @id;
