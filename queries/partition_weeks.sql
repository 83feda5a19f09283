-- name: PartitionsCreateAhead :one
-- Creates the partitions of the week that is the given number of days ahead, and reports whether any
-- was missing. It waits for each lock for at most the given time. Idempotent.
SELECT make_partitions(week_of(now() + make_interval(days => @days::integer)), @patience::interval)::boolean AS made;

-- name: PartitionsCreate :exec
-- Creates the partitions of a week and moves its rows there from the default partitions.
SELECT make_partitions(@week::timestamptz);

-- name: PartitionsRecordFinal :exec
-- Records since when all rows of a past week have been final.
SELECT note_final_partitions();

-- name: PartitionsListFinal :many
-- The weeks that have been final for at least the time kept, oldest first.
SELECT week FROM partition_weeks WHERE final_since <= now() - @kept::interval ORDER BY week;

-- name: PartitionsDrop :one
-- Drops the partitions of a week. It returns false if the week has live rows again.
SELECT drop_partitions(@week::timestamptz, @kept::interval)::boolean AS dropped;

-- name: PartitionsDefaultRows :one
SELECT default_partition_rows()::bigint AS found;

-- name: PartitionsDefaultWeeks :many
SELECT unnest(default_partition_weeks())::timestamptz AS week;
