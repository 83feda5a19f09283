-- name: InstallationEnter :exec
-- The first process says where the database lives.
INSERT INTO installation (place, timeline) VALUES (place_of_database(), timeline_of_database()) ON CONFLICT DO NOTHING;

-- name: InstallationGet :one
-- Where the database was known to live, and where it does.
SELECT place, timeline, beat, quarantined_at, reason, released_at,
       place_of_database()::text AS place_now, timeline_of_database()::integer AS timeline_now
FROM installation WHERE one;

-- name: InstallationBeat :one
-- The same with a beat counted, where the database lives as it was known to; else
-- nothing.
UPDATE installation SET beat = beat + 1
WHERE one AND quarantined_at IS NULL AND place = place_of_database() AND timeline = timeline_of_database()
RETURNING place, timeline, beat, quarantined_at, reason, released_at,
       place_of_database()::text AS place_now, timeline_of_database()::integer AS timeline_now;

-- name: InstallationQuarantine :execrows
-- Begins a quarantine unless there is one. Known place and timeline stay: they say
-- what happened.
UPDATE installation SET quarantined_at = now(), reason = @reason WHERE one AND quarantined_at IS NULL;

-- name: InstallationSuspect :execrows
-- Begins a quarantine on the strength of what was read, unless that holds no more: an
-- operator may have released the database since.
UPDATE installation SET quarantined_at = now(), reason = @reason
WHERE one AND quarantined_at IS NULL AND place = @place AND timeline = @timeline
  AND released_at IS NOT DISTINCT FROM sqlc.narg('released_at')::timestamptz;

-- name: InstallationFollow :execrows
-- Takes a new timeline for that of a standby which was promoted and has all of the
-- past that the caller has seen.
UPDATE installation SET timeline = timeline_of_database()
WHERE one AND quarantined_at IS NULL AND place = place_of_database() AND timeline = @timeline AND beat >= @beat;

-- name: InstallationRelease :execrows
-- Ends a quarantine, or prevents the one that would begin: from now on the database
-- lives where it is.
UPDATE installation SET quarantined_at = NULL, reason = NULL, released_at = now(),
       place = place_of_database(), timeline = timeline_of_database()
WHERE one AND (quarantined_at IS NOT NULL OR place <> place_of_database() OR timeline <> timeline_of_database());

-- name: InstallationUndone :one
-- What would go on after a release: executions that are not final, those of them
-- that had been started and may not be repeated, and callbacks to be delivered.
SELECT (SELECT count(*) FROM component_executions e WHERE e.finished_at IS NULL) AS executions,
       (SELECT count(*) FROM component_executions e
        WHERE e.finished_at IS NULL AND e.status = 'EXECUTING' AND e.repeat_rule = 'unsafe') AS doubtful,
       (SELECT count(*) FROM callbacks c WHERE c.state = 'QUEUED') AS callbacks;
