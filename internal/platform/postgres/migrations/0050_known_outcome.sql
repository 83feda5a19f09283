-- expand
-- outcome_known says of an execution that pauses that each attempt that was sent was answered. False
-- where that is not known.
ALTER TABLE component_executions ADD COLUMN outcome_known boolean NOT NULL DEFAULT false;
