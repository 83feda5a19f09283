-- expand
-- Finds the key that a key replaced. A key has one predecessor at most.
CREATE UNIQUE INDEX api_keys_by_successor ON api_keys (workspace_id, replaced_by) WHERE replaced_by IS NOT NULL;
