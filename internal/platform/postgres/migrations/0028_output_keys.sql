-- expand
-- What outputs that hold a secret are sealed under: a key of each workspace's, itself sealed
-- under the master key. Rows of what has ended never change, so a change of the master key
-- seals these keys anew and none of those rows. A new master key begins a new one, so what
-- is sealed from then on was never within reach of the old.
CREATE TABLE output_keys (
    workspace_id uuid        NOT NULL REFERENCES workspaces (id),
    id           uuid        NOT NULL,
    master       text        NOT NULL, -- the fingerprint of the master key that it was made under
    sealed       bytea       NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, id),
    UNIQUE (workspace_id, master)
);
-- Those who seal anew walk them in this order.
CREATE INDEX output_keys_by_id ON output_keys (id);

ALTER TABLE output_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE output_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON output_keys TO weft_api USING (workspace_id = ANY ((SELECT current_workspaces())::uuid[]));
CREATE POLICY of_system ON output_keys TO weft_system USING (true);
DO $$ BEGIN EXECUTE format('CREATE POLICY of_owner ON output_keys TO %I USING (true)', current_user); END $$;
-- None of them ever goes: what it opens may be kept for as long as anybody likes.
GRANT SELECT ON output_keys TO weft_api;
GRANT SELECT, INSERT ON output_keys TO weft_system;
GRANT UPDATE (sealed) ON output_keys TO weft_system;
