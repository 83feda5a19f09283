-- expand
-- The root of the key that submitted an execution. Null: a stage of a run, or older than this.
ALTER TABLE component_executions ADD COLUMN key_root_id uuid;
