-- expand
-- The environment of a workspace: variables that its workflows name. All values are
-- sealed, those that may be shown as well.
CREATE TABLE environment_variables (
    workspace_id uuid        NOT NULL REFERENCES workspaces (id),
    id           uuid        NOT NULL, -- what the value is sealed for
    name         text        NOT NULL CHECK (name ~ '^[A-Z][A-Z0-9_]{0,63}$'),
    description  text        NOT NULL,
    secret       boolean     NOT NULL,
    sealed       bytea       NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, id),
    UNIQUE (workspace_id, name)
);
-- Those who seal anew walk them in this order.
CREATE INDEX environment_variables_by_id ON environment_variables (id);

ALTER TABLE environment_variables ENABLE ROW LEVEL SECURITY;
ALTER TABLE environment_variables FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON environment_variables TO weft_api USING (workspace_id = ANY ((SELECT current_workspaces())::uuid[]));
CREATE POLICY of_system ON environment_variables TO weft_system USING (true);
DO $$ BEGIN EXECUTE format('CREATE POLICY of_owner ON environment_variables TO %I USING (true)', current_user); END $$;
GRANT SELECT, INSERT, UPDATE, DELETE ON environment_variables TO weft_api, weft_system;

-- What a run took of them goes when it ends. Those who seal anew walk what is left.
ALTER TABLE workflow_runs ADD CHECK (variables IS NULL OR finished_at IS NULL);
CREATE INDEX workflow_runs_sealed ON workflow_runs (id) WHERE variables IS NOT NULL;
