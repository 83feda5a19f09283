-- name: LockName :exec
-- Holds a name until the transaction ends; who asks for one that is held waits. Names
-- begin with what they are of.
SELECT pg_advisory_xact_lock(hashtextextended(@name::text, 0));
