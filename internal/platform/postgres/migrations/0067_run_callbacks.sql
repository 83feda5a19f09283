-- The callback of a run is a row of callbacks whose execution_id is the ID of the run. Earlier
-- binaries must not use this schema: a run that they finish would never call back.

ALTER TABLE callbacks
    ADD COLUMN of_run       boolean NOT NULL DEFAULT false,
    ADD COLUMN webhook_type text, -- frozen with the body; null: an execution's, frozen before this migration
    ADD COLUMN traceparent  text; -- of a run; that of an execution is in its own row
ALTER TABLE workflow_runs ADD COLUMN has_callback boolean NOT NULL DEFAULT false;

-- A callback may belong to a run, so its partitions no longer refer to those of executions.
DO $$
DECLARE
    k record;
BEGIN
    FOR k IN SELECT conrelid::regclass AS partition, conname AS name FROM pg_constraint
        WHERE contype = 'f' AND conparentid = 0
          AND conrelid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'callbacks'::regclass)
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', k.partition, k.name);
    END LOOP;
END
$$;
CREATE OR REPLACE FUNCTION weekly_tables() RETURNS TABLE (place integer, name text, id text, parent text, parent_id text, fill integer)
LANGUAGE sql IMMUTABLE AS $$
    VALUES (1, 'component_executions', 'id',           NULL,            NULL,           75),
           (2, 'callbacks',            'execution_id', NULL,            NULL,           75),
           (3, 'callback_attempts',    'execution_id', 'callbacks',     'execution_id', 75),
           (4, 'workflow_runs',        'id',           NULL,            NULL,           75),
           (5, 'run_stages',           'run_id',       'workflow_runs', 'id',           75),
           (6, 'run_events',           'run_id',       'workflow_runs', 'id',           100),
           (7, 'run_signals',          'run_id',       'workflow_runs', 'id',           100)
$$;
