-- name: InstallationInsert :exec
-- Records where the database runs, unless that is recorded.
INSERT INTO installation (place, timeline) VALUES (place_of_database(), timeline_of_database()) ON CONFLICT DO NOTHING;

-- name: InstallationGet :one
-- Where the database was recorded to run and where it runs now. With synchronous replication a
-- read does not prove a position, so flushed is 0.
SELECT place, timeline, beat, quarantined_at, reason, released_at,
       place_of_database()::text AS place_now, timeline_of_database()::integer AS timeline_now,
       clock_timestamp()::timestamptz AS now,
       CASE WHEN current_setting('synchronous_standby_names') = '' THEN flushed_position() ELSE 0 END::bigint AS flushed, recovered_position() AS recovered
FROM installation WHERE one;

-- name: InstallationBeat :one
-- Counts a heartbeat and returns the same, if the database runs where it was recorded to.
-- Otherwise it returns no row.
UPDATE installation SET beat = beat + 1
WHERE one AND quarantined_at IS NULL AND place = place_of_database() AND timeline = timeline_of_database()
RETURNING place, timeline, beat, quarantined_at, reason, released_at,
       place_of_database()::text AS place_now, timeline_of_database()::integer AS timeline_now,
       clock_timestamp()::timestamptz AS now, flushed_position() AS flushed, recovered_position() AS recovered;

-- name: InstallationPosition :one
-- The position up to which the server's log is durable, synchronous standbys included, and the
-- server's timeline.
SELECT timeline_of_database()::integer AS timeline_now, confirmed_position() AS flushed, recovered_position() AS recovered;

-- name: InstallationQuarantine :execrows
-- Starts a quarantine unless there is one. The recorded place and timeline are kept, because they
-- show what happened.
UPDATE installation SET quarantined_at = now(), reason = @reason WHERE one AND quarantined_at IS NULL;

-- name: InstallationQuarantineUnchanged :execrows
-- Starts a quarantine if the row is unchanged since it was read: an operator may have released
-- the database since.
UPDATE installation SET quarantined_at = now(), reason = @reason
WHERE one AND quarantined_at IS NULL AND place = @place AND timeline = @timeline
  AND released_at IS NOT DISTINCT FROM sqlc.narg('released_at')::timestamptz;

-- name: InstallationSetTimeline :execrows
-- Records the new timeline of a standby that was promoted and that has every heartbeat the caller
-- has seen.
UPDATE installation SET timeline = timeline_of_database()
WHERE one AND quarantined_at IS NULL AND place = place_of_database() AND timeline = @timeline AND beat >= @beat;

-- name: InstallationRelease :execrows
-- Ends a quarantine, or prevents the one that would start, and records where the database runs
-- now.
UPDATE installation SET quarantined_at = NULL, reason = NULL, released_at = now(),
       place = place_of_database(), timeline = timeline_of_database()
WHERE one AND (quarantined_at IS NOT NULL OR place <> place_of_database() OR timeline <> timeline_of_database());

-- name: InstallationCountUnfinished :many
-- The number of unfinished executions by repeat rule. held is the number of those that a worker
-- has.
SELECT e.repeat_rule, count(*) FILTER (WHERE e.status = 'CREATED') AS created,
       count(*) FILTER (WHERE e.status = 'EXECUTING') AS executing,
       count(*) FILTER (WHERE e.status = 'EXECUTING' AND e.worker_id IS NOT NULL) AS held
FROM component_executions e WHERE e.finished_at IS NULL GROUP BY e.repeat_rule ORDER BY e.repeat_rule;

-- name: InstallationCountPending :one
-- The number of unfinished runs, of callbacks of unfinished executions and runs, and of queued callbacks.
SELECT (SELECT count(*) FROM workflow_runs r WHERE r.finished_at IS NULL) AS runs,
       ((SELECT count(*) FROM component_executions e WHERE e.finished_at IS NULL AND e.has_callback)
           + (SELECT count(*) FROM workflow_runs u WHERE u.finished_at IS NULL AND u.has_callback))::bigint AS unfrozen,
       (SELECT count(*) FROM callbacks c WHERE c.state = 'QUEUED') AS queued;

-- name: InstallationListUnfinished :many
-- A page of the work that continues after a release, in order of the ids within each kind:
-- unfinished executions, unfinished runs, queued callbacks.
SELECT page.kind::text AS kind, page.workspace_id, page.id, page.status::text AS status, page.what::text AS what, page.rule::text AS rule
FROM ((SELECT 'execution' AS kind, e.workspace_id, e.id, e.status, e.module AS what, e.repeat_rule AS rule FROM component_executions e
       WHERE @kind::text = 'execution' AND e.finished_at IS NULL AND e.id > @after ORDER BY e.id LIMIT @max_rows)
      UNION ALL
      (SELECT 'run', r.workspace_id, r.id, r.status, r.workflow_id::text, '' FROM workflow_runs r
       WHERE @kind::text = 'run' AND r.finished_at IS NULL AND r.id > @after ORDER BY r.id LIMIT @max_rows)
      UNION ALL
      (SELECT 'callback', c.workspace_id, c.execution_id, c.state, '', '' FROM callbacks c
       WHERE @kind::text = 'callback' AND c.state = 'QUEUED' AND c.execution_id > @after ORDER BY c.execution_id LIMIT @max_rows)) AS page
ORDER BY page.id;

-- name: InstallationIsQuarantined :one
-- Whether the database is in quarantine. That does not change until the transaction ends.
SELECT (quarantined_at IS NOT NULL)::boolean AS held FROM installation WHERE one FOR SHARE;

-- name: CallbackCountRestore :execrows
-- Records that a restore causes the records of unfinished executions and runs to be computed again.
UPDATE callbacks c SET restores = c.restores + 1
FROM (SELECT e.workspace_id, e.id FROM component_executions e WHERE e.finished_at IS NULL AND e.has_callback
      UNION ALL
      SELECT r.workspace_id, r.id FROM workflow_runs r WHERE r.finished_at IS NULL AND r.has_callback) AS unfinished
WHERE c.workspace_id = unfinished.workspace_id AND c.execution_id = unfinished.id AND c.state = 'PENDING';

-- name: RunCancelUnfinished :execrows
-- Requests the cancellation of some of the unfinished runs.
UPDATE workflow_runs r SET
    cancel_requested_at = COALESCE(r.cancel_requested_at, now()),
    cancel_reason       = CASE WHEN r.cancel_requested_at IS NULL THEN @reason::text ELSE r.cancel_reason END,
    cancel_mode         = 'immediate',
    wake_at             = LEAST(r.wake_at, now()),
    updated_at          = GREATEST(r.updated_at, now())
FROM (SELECT l.workspace_id, l.id FROM workflow_runs l
      WHERE l.finished_at IS NULL AND (l.cancel_requested_at IS NULL OR l.cancel_mode <> 'immediate')
      ORDER BY l.id LIMIT @max_rows FOR NO KEY UPDATE) AS chosen
WHERE r.workspace_id = chosen.workspace_id AND r.id = chosen.id;

-- name: InstallationGetKeyCheck :one
-- A value sealed under the installation's master key, to check that key. It is null until a
-- process has written it.
SELECT key_check FROM installation WHERE one;

-- name: InstallationSetKeyCheck :exec
-- Sets the value for the first time.
UPDATE installation SET key_check = @sealed WHERE one AND key_check IS NULL;

-- name: InstallationReplaceKeyCheck :exec
-- Replaces the value after a rotation of the master key.
UPDATE installation SET key_check = @sealed WHERE one;
