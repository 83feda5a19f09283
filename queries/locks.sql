-- name: LockName :exec
-- Locks a name until the transaction ends. Names start with the kind of what they lock.
SELECT pg_advisory_xact_lock(hashtextextended(@name::text, 0));
