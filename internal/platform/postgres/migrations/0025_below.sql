-- expand
-- What the runs below a run have committed of what it may cost at most, where that is bounded.
ALTER TABLE workflow_runs ADD COLUMN below bigint NOT NULL DEFAULT 0 CHECK (below >= 0);
