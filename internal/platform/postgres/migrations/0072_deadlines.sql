-- When an execution or a run must have finished, and requests to cancel an execution. Earlier binaries must not run
-- next to this: they would not stop an attempt at its deadline.
ALTER TABLE component_executions ADD COLUMN deadline timestamptz, ADD COLUMN cancel_reason text;
CREATE INDEX deadline_component_executions ON ONLY component_executions (deadline) WHERE finished_at IS NULL AND deadline IS NOT NULL;

-- Whether deadline is that of a request or a workflow, not the longest time that a run may take.
ALTER TABLE workflow_runs ADD COLUMN limited boolean NOT NULL DEFAULT false;

ALTER TABLE schedules ADD COLUMN deadline_ms bigint;
ALTER TABLE hooks ADD COLUMN deadline_ms bigint;
