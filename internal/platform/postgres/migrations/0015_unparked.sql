-- expand
-- Since when each worker that had it could not run it: its module is not known
-- there, or the key of its input is missing.
ALTER TABLE component_executions ADD COLUMN unrunnable_since timestamptz;

-- What upkeep walks every few seconds: not what is parked, which has no bound and
-- an index of its own. Declared here, which takes no time; the partitions that are
-- there get theirs after the migration, beside the traffic.
CREATE INDEX unparked_component_executions ON ONLY component_executions (id) WHERE finished_at IS NULL AND NOT parked;
