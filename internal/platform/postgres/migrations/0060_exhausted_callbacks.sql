-- expand
-- Callbacks that are not sent again, for the overview of a workspace. The state is in the condition of
-- another index already, so its change writes all indexes of the row anyway.
CREATE INDEX exhausted_callbacks ON ONLY callbacks (workspace_id, execution_id) WHERE state = 'EXHAUSTED';
