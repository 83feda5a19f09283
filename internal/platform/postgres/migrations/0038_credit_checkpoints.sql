-- expand
-- What the postings of a workspace with after < id <= upto summed up to when they were
-- audited. The ranges of a workspace follow each other without a gap, so an audit reads
-- only the postings behind the last one. It verifies the others in turns: a posting that
-- was changed, added or deleted afterwards changes their sums.
CREATE TABLE credit_checkpoints (
    workspace_id   uuid        NOT NULL,
    after          uuid        NOT NULL,
    upto           uuid        NOT NULL,
    postings       bigint      NOT NULL,
    plan           bigint      NOT NULL,
    paid           bigint      NOT NULL,
    month          date        NOT NULL, -- of the last posting; the next two sum the postings of this month
    plan_used      bigint      NOT NULL,
    allowance_used bigint      NOT NULL,
    checksum       text        NOT NULL, -- the sum of a hash of each posting
    made_at        timestamptz NOT NULL DEFAULT now(),
    verified_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, after),
    CHECK (after < upto)
);
CREATE INDEX credit_checkpoints_verified ON credit_checkpoints (verified_at);

ALTER TABLE credit_checkpoints ENABLE ROW LEVEL SECURITY;
ALTER TABLE credit_checkpoints FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON credit_checkpoints TO weft_api USING (workspace_id = ANY ((SELECT current_workspaces())::uuid[]));
CREATE POLICY of_system ON credit_checkpoints TO weft_system USING (true);
DO $$ BEGIN EXECUTE format('CREATE POLICY of_owner ON credit_checkpoints TO %I USING (true)', current_user); END $$;
GRANT SELECT, INSERT, UPDATE, DELETE ON credit_checkpoints TO weft_system;

-- When the last audit of all credits began that came to its end. An installation that was
-- never audited counts from here.
ALTER TABLE installation ADD COLUMN audited_at timestamptz NOT NULL DEFAULT now();
