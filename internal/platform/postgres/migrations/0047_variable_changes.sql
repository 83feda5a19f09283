-- expand
-- When the value of an environment variable last changed, or when it was deleted. A stored
-- secret of a workflow does not follow an address whose origin contains a variable that
-- changed later. A name that was set only once has no row.
CREATE TABLE variable_changes (
    workspace_id uuid        NOT NULL REFERENCES workspaces (id),
    name         text        NOT NULL,
    changed_at   timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, name)
);

ALTER TABLE variable_changes ENABLE ROW LEVEL SECURITY;
ALTER TABLE variable_changes FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON variable_changes TO weft_api USING (workspace_id = ANY ((SELECT current_workspaces())::uuid[]));
CREATE POLICY of_system ON variable_changes TO weft_system USING (true);
DO $$ BEGIN EXECUTE format('CREATE POLICY of_owner ON variable_changes TO %I USING (true)', current_user); END $$;
GRANT SELECT, INSERT, UPDATE ON variable_changes TO weft_api, weft_system;
