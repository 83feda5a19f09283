-- expand
-- Indexes for the filters of lists. As in 0015, they are declared only here: the existing partitions
-- get them after the migration, without blocking writes.
--
-- No index depends on the status: PostgreSQL would have to write all indexes of a row whenever its
-- status changes. The conditions use columns that change only when the row becomes final, which
-- writes all indexes anyway.

-- Executions that are not stages of runs, which no list shows.
CREATE INDEX own_component_executions ON ONLY component_executions (workspace_id, id) WHERE run_id IS NULL;
CREATE INDEX module_component_executions ON ONLY component_executions (workspace_id, module, id) WHERE run_id IS NULL;
CREATE INDEX failed_component_executions ON ONLY component_executions (workspace_id, id) WHERE run_id IS NULL AND error IS NOT NULL;

-- A run may have an error before it is final, and may complete although it was to be canceled.
CREATE INDEX failed_workflow_runs ON ONLY workflow_runs (workspace_id, id) WHERE finished_at IS NOT NULL AND error IS NOT NULL;
CREATE INDEX canceled_workflow_runs ON ONLY workflow_runs (workspace_id, id) WHERE finished_at IS NOT NULL AND cancel_requested_at IS NOT NULL;
-- Most runs are started by a request, and need no index.
CREATE INDEX triggered_workflow_runs ON ONLY workflow_runs (workspace_id, trigger, id) WHERE trigger <> 'API';
