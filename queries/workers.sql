-- name: WorkerInsert :one
INSERT INTO workers (host, slots) VALUES (@host, @slots) RETURNING id;

-- name: WorkerListDead :many
-- Workers whose session no longer holds its advisory lock. If another session can acquire the
-- lock, the owner is gone. The row of a worker becomes visible only when its lock is held, so a
-- worker that is starting is never considered dead. Do not run it on the session that holds a
-- worker's lock.
SELECT w.id FROM workers w WHERE pg_try_advisory_xact_lock(@lock_class::integer, w.id) ORDER BY w.id;

-- name: WorkerDelete :exec
-- Deletes dead workers that no live execution refers to.
DELETE FROM workers w
WHERE w.id = ANY(@ids::integer[])
  AND NOT EXISTS (SELECT 1 FROM component_executions e WHERE e.finished_at IS NULL AND NOT e.parked AND e.worker_id = w.id);

-- name: WorkerListUnregistered :many
-- Numbers that live executions refer to although no worker has them. A process that had lost its
-- session without noticing started work under a number that the sweep had already deleted.
SELECT DISTINCT e.worker_id::integer FROM component_executions e
WHERE e.finished_at IS NULL AND NOT e.parked AND e.worker_id IS NOT NULL
  AND NOT EXISTS (SELECT FROM workers w WHERE w.id = e.worker_id);

-- name: WorkerLockMany :exec
-- Locks workers: none of them is marked as survived until the transaction ends.
SELECT w.id FROM workers w WHERE w.id = ANY (@ids::integer[]) ORDER BY w.id FOR SHARE;

-- name: WorkerSurvive :exec
-- Records that the process of a lost worker is still running.
UPDATE workers SET survived = true WHERE id = @id;

-- name: ExecutionUncountCrash :exec
-- Reverts the crashes that were counted for the loss of a worker. It uses the index of executions
-- that are neither final nor parked. Locked ones have already continued.
UPDATE component_executions e SET crashes = GREATEST(e.crashes - 1, 0), lost_worker = NULL
FROM (SELECT l.workspace_id, l.id FROM component_executions l
      WHERE l.finished_at IS NULL AND NOT l.parked AND l.lost_worker = @worker_id::integer
      ORDER BY l.id FOR UPDATE SKIP LOCKED) AS counted
WHERE e.workspace_id = counted.workspace_id AND e.id = counted.id;
