-- Of a workspace's live executions those that pause, for a wait or before another
-- attempt: they take no slot. Upkeep counts them while something is parked.
ALTER TABLE credit_accounts ADD COLUMN waiting integer NOT NULL DEFAULT 0 CHECK (waiting >= 0);
CREATE INDEX waiting_component_executions ON component_executions (workspace_id) WHERE finished_at IS NULL AND not_before IS NOT NULL;
