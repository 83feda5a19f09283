-- expand
-- usage_below is what the finished runs below a run used. effect_root_id names what a run does
-- outside: null for a run of its own id; a rerun has that of the run that it repeats, and a
-- child run one that follows from its place in the run above.
ALTER TABLE workflow_runs
    ADD COLUMN usage_below    bigint NOT NULL DEFAULT 0,
    ADD COLUMN effect_root_id uuid,
    -- Not valid: otherwise PostgreSQL reads all runs while the table is locked.
    ADD CONSTRAINT workflow_runs_usage_below CHECK (usage_below >= 0) NOT VALID;
