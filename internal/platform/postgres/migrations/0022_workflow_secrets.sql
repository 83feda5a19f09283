-- expand
-- The secret values of a version of a workflow, sealed: in the definition a mark stands in
-- their place. Beside it, because a version never changes, and what is sealed is sealed
-- anew under another master key.
CREATE TABLE workflow_secrets (
    workspace_id uuid    NOT NULL,
    id           uuid    NOT NULL, -- what it is sealed for
    workflow_id  uuid    NOT NULL,
    version      integer NOT NULL,
    sealed       bytea   NOT NULL,
    PRIMARY KEY (workspace_id, id),
    UNIQUE (workspace_id, workflow_id, version),
    FOREIGN KEY (workspace_id, workflow_id) REFERENCES workflows (workspace_id, id)
);
-- Those who seal anew walk them in this order.
CREATE INDEX workflow_secrets_by_id ON workflow_secrets (id);

ALTER TABLE workflow_secrets ENABLE ROW LEVEL SECURITY;
ALTER TABLE workflow_secrets FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON workflow_secrets TO weft_api USING (workspace_id = ANY ((SELECT current_workspaces())::uuid[]));
CREATE POLICY of_system ON workflow_secrets TO weft_system USING (true);
DO $$ BEGIN EXECUTE format('CREATE POLICY of_owner ON workflow_secrets TO %I USING (true)', current_user); END $$;
GRANT SELECT, INSERT ON workflow_secrets TO weft_api, weft_system;
GRANT UPDATE (sealed) ON workflow_secrets TO weft_system;
