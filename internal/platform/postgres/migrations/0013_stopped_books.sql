-- expand
-- Whether workspaces.billing_stopped_at is set, in the row that acceptance reads
-- anyway.
ALTER TABLE credit_accounts ADD COLUMN stopped boolean NOT NULL DEFAULT false;
CREATE INDEX stopped_workspaces ON workspaces (id) WHERE billing_stopped_at IS NOT NULL;
