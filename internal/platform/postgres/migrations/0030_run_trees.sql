-- expand
-- A root run shares the limits of runs with the runs below it. Child runs that an older
-- binary starts have no root_run_id; each of them is a root of its own.
ALTER TABLE workflow_runs ADD COLUMN root_run_id uuid;

-- What a root run and the runs below it have in common. The row exists from the first child
-- run until the root finishes. It is not part of the root's row: each run below writes it, and
-- a fold of the root locks that row for seconds.
CREATE TABLE run_trees (
    workspace_id uuid    NOT NULL,
    root_run_id  uuid    NOT NULL,
    live         integer NOT NULL DEFAULT 0 CHECK (live >= 0), -- unfinished runs below the root
    stages       bigint  NOT NULL DEFAULT 0,                   -- of all runs, as is the next
    bytes        bigint  NOT NULL DEFAULT 0,                   -- of their outputs
    PRIMARY KEY (workspace_id, root_run_id)
) WITH (fillfactor = 50);

ALTER TABLE run_trees ENABLE ROW LEVEL SECURITY;
ALTER TABLE run_trees FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON run_trees TO weft_api USING (workspace_id = ANY ((SELECT current_workspaces())::uuid[]));
CREATE POLICY of_system ON run_trees TO weft_system USING (true);
DO $$ BEGIN EXECUTE format('CREATE POLICY of_owner ON run_trees TO %I USING (true)', current_user); END $$;
-- A request starts a run with its first stages, child runs included.
GRANT SELECT, INSERT, UPDATE ON run_trees TO weft_api, weft_system;
GRANT DELETE ON run_trees TO weft_system;
