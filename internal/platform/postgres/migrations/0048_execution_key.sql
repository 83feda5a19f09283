-- expand
-- The key that submitted an execution: that key and its successors by rotation see it. Null: a
-- stage of a run, or accepted by a version that recorded key_root_id, which is not written any
-- more.
ALTER TABLE component_executions ADD COLUMN key_id uuid;
