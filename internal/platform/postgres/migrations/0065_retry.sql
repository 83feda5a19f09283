-- An execution with a retry policy has up to 5,000 attempts. Older binaries would retry it by their own
-- delays, so they must not run next to this version.
ALTER TABLE component_executions DROP CONSTRAINT component_executions_attempts_check1;
ALTER TABLE component_executions ADD CONSTRAINT component_executions_attempts_check CHECK (attempts BETWEEN 1 AND 5000) NOT VALID;
-- The start of the first attempt, from which the time of a retry policy counts. Null before the first retry.
ALTER TABLE component_executions ADD COLUMN first_attempt_at timestamptz;
