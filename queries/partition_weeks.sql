-- name: PartitionsMakeAhead :exec
-- Makes the partitions of the week that is so many days ahead; again is the same.
SELECT make_partitions(week_of(now() + make_interval(days => @days::integer)));

-- name: PartitionsMake :exec
-- Makes the partitions of a week and moves what the defaults hold of it.
SELECT make_partitions(@week::timestamptz);

-- name: PartitionsNoteFinal :exec
-- Notes since when past weeks have been final as a whole.
SELECT note_final_partitions();

-- name: PartitionsListFinal :many
-- The weeks that have been final for long enough, oldest first.
SELECT week FROM partition_weeks WHERE final_since <= now() - @kept::interval ORDER BY week;

-- name: PartitionsDrop :one
-- Drops a week whole; false when something in it is alive again.
SELECT drop_partitions(@week::timestamptz, @kept::interval)::boolean AS dropped;

-- name: PartitionsDefaultRows :one
SELECT default_partition_rows()::bigint AS found;

-- name: PartitionsDefaultWeeks :many
SELECT unnest(default_partition_weeks())::timestamptz AS week;
