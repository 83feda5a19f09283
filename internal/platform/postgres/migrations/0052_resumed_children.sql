-- expand
-- resumed_children has the child runs that the child runs of a rerun repeat, each with the place
-- of its RUN_WORKFLOW stage. A rerun of that rerun repeats those that it did not reach.
ALTER TABLE workflow_runs ADD COLUMN resumed_children json;
