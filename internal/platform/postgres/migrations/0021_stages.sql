-- expand
-- Of an execution that is a stage of a run: the time that each attempt has where it is
-- less than the module's, and whether the attempt under way is to end because the run is
-- canceled at once.
ALTER TABLE component_executions ADD COLUMN timeout_ms integer, ADD COLUMN canceling boolean NOT NULL DEFAULT false;
