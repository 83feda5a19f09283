-- expand
-- Workflows, their runs, and what hangs on a run. What runs are is partitioned by the
-- week of the run's id, like executions: a run goes with its stages, events and signals.

-- The run whose stage an execution is. First of all here: it waits for whoever makes
-- partitions just now.
ALTER TABLE component_executions ADD COLUMN run_id uuid;

CREATE TABLE workflows (
    workspace_id uuid        NOT NULL REFERENCES workspaces (id),
    id           uuid        NOT NULL,
    name         text        NOT NULL CHECK (name <> '' AND length(name) <= 200),
    description  text        NOT NULL DEFAULT '',
    status       text        NOT NULL DEFAULT 'ACTIVE' CHECK (status IN ('ACTIVE', 'PAUSED', 'ARCHIVED')),
    version      integer     NOT NULL DEFAULT 1 CHECK (version > 0), -- the latest
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, id)
);

-- What each save made. A run keeps the version with which it began, so no version ever
-- changes or goes. The definition keeps its text.
CREATE TABLE workflow_versions (
    workspace_id uuid        NOT NULL,
    workflow_id  uuid        NOT NULL,
    version      integer     NOT NULL CHECK (version > 0),
    name         text        NOT NULL CHECK (name <> '' AND length(name) <= 200),
    description  text        NOT NULL DEFAULT '',
    definition   json        NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, workflow_id, version),
    FOREIGN KEY (workspace_id, workflow_id) REFERENCES workflows (workspace_id, id)
);
CREATE TRIGGER workflow_versions_append_only BEFORE UPDATE OR DELETE ON workflow_versions
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER workflow_versions_kept BEFORE TRUNCATE ON workflow_versions
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- No foreign key leads to the version: each trigger of a busy workflow would lock its row,
-- and no version can go.
CREATE TABLE workflow_runs (
    workspace_id        uuid        NOT NULL,
    id                  uuid        NOT NULL,
    workflow_id         uuid        NOT NULL,
    workflow_version    integer     NOT NULL,
    status              text        NOT NULL CHECK (status IN ('CREATED', 'EXECUTING', 'COMPLETED', 'FAILED', 'CANCELED')),
    trigger             text        NOT NULL CHECK (trigger IN ('API', 'SCHEDULE', 'WEBHOOK', 'RUN')),
    input               json        NOT NULL,
    metadata            json,
    output              json,
    -- Set before the end where it is known while stages still finish.
    error               json,
    variables           bytea, -- of the environment when the run began, sealed
    cancel_requested_at timestamptz,
    cancel_reason       text,
    cancel_mode         text        CHECK (cancel_mode IN ('graceful', 'immediate')),
    -- committed: the prices of all stages that were made; reserved: what is kept back for
    -- the run from the workspace's credits until it is final, and stays here then.
    committed           bigint      NOT NULL DEFAULT 0 CHECK (committed >= 0),
    reserved            bigint      NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    max_credits         bigint      CHECK (max_credits >= 0),
    usage               bigint      NOT NULL DEFAULT 0 CHECK (usage >= 0),
    stage_count         integer     NOT NULL DEFAULT 0 CHECK (stage_count >= 0),
    failed_count        integer     NOT NULL DEFAULT 0 CHECK (failed_count >= 0),
    pending_count       integer     NOT NULL DEFAULT 0 CHECK (pending_count >= 0),
    output_bytes        bigint      NOT NULL DEFAULT 0 CHECK (output_bytes >= 0), -- of its stages
    event_seq           bigint      NOT NULL DEFAULT 0 CHECK (event_seq >= 0),    -- of its last event
    -- When it is to be looked at without a stage having finished: its next timer, or at
    -- once, for a signal or a cancel.
    wake_at             timestamptz,
    deadline            timestamptz NOT NULL,
    job_id              bigint      NOT NULL,
    parent_run_id       uuid,
    parent_stage_id     uuid,
    rerun_of            json,
    traceparent         text,
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL,
    finished_at         timestamptz,
    PRIMARY KEY (workspace_id, id),
    CHECK ((finished_at IS NOT NULL) = (status IN ('COMPLETED', 'FAILED', 'CANCELED'))),
    CHECK (status <> 'FAILED' OR error IS NOT NULL),
    CHECK (status <> 'COMPLETED' OR error IS NULL),
    CHECK (status <> 'CANCELED' OR cancel_requested_at IS NOT NULL),
    CHECK ((cancel_requested_at IS NULL) = (cancel_mode IS NULL)),
    CHECK (cancel_reason IS NULL OR cancel_requested_at IS NOT NULL),
    CHECK (failed_count + pending_count <= stage_count),
    CHECK (pending_count = 0 OR finished_at IS NULL),
    CHECK ((parent_run_id IS NULL) = (parent_stage_id IS NULL)),
    CHECK ((parent_run_id IS NOT NULL) = (trigger = 'RUN'))
) PARTITION BY RANGE (id);

-- What upkeep walks: only what is still alive.
CREATE INDEX live_workflow_runs ON workflow_runs (workspace_id, id) WHERE finished_at IS NULL;
CREATE INDEX waking_workflow_runs ON workflow_runs (wake_at) WHERE finished_at IS NULL AND wake_at IS NOT NULL;
-- For lists. Did it begin with the workspace, a young partition that is not analyzed yet
-- would be asked for single runs by it.
CREATE INDEX workflow_runs_of_workflow ON workflow_runs (workflow_id, id);

CREATE TRIGGER workflow_runs_final BEFORE UPDATE ON workflow_runs
    FOR EACH ROW WHEN (OLD.finished_at IS NOT NULL) EXECUTE FUNCTION refuse_change();

CREATE TABLE run_stages (
    workspace_id  uuid        NOT NULL,
    run_id        uuid        NOT NULL,
    id            uuid        NOT NULL,
    component_id  text        NOT NULL CHECK (length(component_id) BETWEEN 1 AND 64),
    module        text        NOT NULL,
    name          text        NOT NULL,
    iteration     integer[]   NOT NULL DEFAULT '{}' CHECK (cardinality(iteration) <= 8), -- indexes of its loops, the outermost first
    -- Of a stage with an execution, as far as it was taken over from there.
    status        text        NOT NULL CHECK (status IN ('CREATED', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELED')),
    port          text, -- that fired
    output        json,
    error         json,
    usage         bigint      NOT NULL DEFAULT 0 CHECK (usage >= 0),
    attempt       integer     NOT NULL DEFAULT 1 CHECK (attempt >= 0),
    execution_id  uuid,
    -- Of a loop: next_item is the first that has not begun.
    items         json,
    item_count    integer     CHECK (item_count >= 0),
    next_item     integer     CHECK (next_item >= 0),
    live_items    integer     CHECK (live_items >= 0),
    failed_items  integer     NOT NULL DEFAULT 0 CHECK (failed_items >= 0),
    wake_at       timestamptz,
    signal        text, -- that it waits for
    child_run_id  uuid,
    dispatched_at timestamptz,
    created_at    timestamptz NOT NULL,
    started_at    timestamptz,
    updated_at    timestamptz NOT NULL,
    finished_at   timestamptz,
    PRIMARY KEY (workspace_id, run_id, id),
    UNIQUE (workspace_id, run_id, component_id, iteration),
    CHECK ((finished_at IS NOT NULL) = (status IN ('COMPLETED', 'FAILED', 'CANCELED'))),
    CHECK (status <> 'FAILED' OR error IS NOT NULL),
    CHECK (status <> 'COMPLETED' OR error IS NULL),
    CHECK (output IS NULL OR status = 'COMPLETED'),
    CHECK (port IS NULL OR status IN ('COMPLETED', 'FAILED')),
    CHECK (usage = 0 OR finished_at IS NOT NULL),
    CHECK ((item_count IS NULL) = (next_item IS NULL) AND (item_count IS NULL) = (live_items IS NULL)),
    CHECK (item_count IS NULL OR next_item <= item_count AND live_items + failed_items <= next_item),
    CHECK (COALESCE(live_items, 0) = 0 OR finished_at IS NULL)
) PARTITION BY RANGE (run_id);

CREATE INDEX live_run_stages ON run_stages (workspace_id, run_id) WHERE finished_at IS NULL;
-- How a finished execution finds the stage that it is.
CREATE INDEX run_stages_of_executions ON run_stages (execution_id) WHERE finished_at IS NULL AND execution_id IS NOT NULL;

CREATE TRIGGER run_stages_final BEFORE UPDATE ON run_stages
    FOR EACH ROW WHEN (OLD.finished_at IS NOT NULL) EXECUTE FUNCTION refuse_change();

-- The ordered log of a run: what its stream tells.
CREATE TABLE run_events (
    workspace_id uuid        NOT NULL,
    run_id       uuid        NOT NULL,
    seq          bigint      NOT NULL CHECK (seq > 0),
    status       text        NOT NULL CHECK (status IN ('CREATED', 'EXECUTING', 'COMPLETED', 'FAILED', 'CANCELED')),
    output       json        NOT NULL,
    error        json,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, run_id, seq),
    CHECK (status <> 'FAILED' OR error IS NOT NULL)
) PARTITION BY RANGE (run_id);

-- What was sent to a run, by name: the first of a name stays.
CREATE TABLE run_signals (
    workspace_id uuid        NOT NULL,
    run_id       uuid        NOT NULL,
    name         text        NOT NULL CHECK (name <> '' AND length(name) <= 200),
    payload      json        NOT NULL,
    received_at  timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, run_id, name)
) PARTITION BY RANGE (run_id);

-- Append-only. Rows go with their week, and move out of the default partition by being
-- deleted there: against deleting stand the rights of the roles.
CREATE TRIGGER run_events_append_only BEFORE UPDATE ON run_events
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER run_events_kept BEFORE TRUNCATE ON run_events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER run_signals_append_only BEFORE UPDATE ON run_signals
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- Where ids go whose week has no partitions yet.
CREATE TABLE workflow_runs_default PARTITION OF workflow_runs DEFAULT WITH (fillfactor = 75);
CREATE TABLE run_stages_default PARTITION OF run_stages DEFAULT WITH (fillfactor = 75);
CREATE TABLE run_events_default PARTITION OF run_events DEFAULT;
CREATE TABLE run_signals_default PARTITION OF run_signals DEFAULT;

-- The tables of which each week has a partition, whatever is referred to before what
-- refers to it: the column that tells the week, whose sibling it refers to, and how full
-- its pages are made.
CREATE FUNCTION weekly_tables() RETURNS TABLE (place integer, name text, id text, parent text, parent_id text, fill integer)
LANGUAGE sql IMMUTABLE AS $$
    VALUES (1, 'component_executions', 'id',           NULL,                   NULL,           75),
           (2, 'callbacks',            'execution_id', 'component_executions', 'id',           75),
           (3, 'callback_attempts',    'execution_id', 'callbacks',            'execution_id', 75),
           (4, 'workflow_runs',        'id',           NULL,                   NULL,           75),
           (5, 'run_stages',           'run_id',       'workflow_runs',        'id',           75),
           (6, 'run_events',           'run_id',       'workflow_runs',        'id',           100),
           (7, 'run_signals',          'run_id',       'workflow_runs',        'id',           100)
$$;

-- Gives the partitions of one suffix the foreign keys that they lack, each to its sibling.
CREATE OR REPLACE FUNCTION refer_partitions(suffix text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    t record;
BEGIN
    FOR t IN SELECT * FROM weekly_tables() w WHERE w.parent IS NOT NULL AND NOT EXISTS (
        SELECT FROM pg_constraint k WHERE k.conrelid = to_regclass(w.name || suffix) AND k.contype = 'f') ORDER BY w.place
    LOOP
        EXECUTE format('ALTER TABLE %I ADD FOREIGN KEY (workspace_id, %I) REFERENCES %I (workspace_id, %I)',
            t.name || suffix, t.id, t.parent || suffix, t.parent_id);
    END LOOP;
END
$$;

-- Makes the partitions of one week that there are not yet, named after it, and moves into
-- them what the default partitions hold of it. Again is the same. It waits for locks so
-- briefly that whoever waits behind it notices nothing; the caller comes again.
-- The defaults are locked before rows move: whoever would change one of them
-- meanwhile would find it nowhere.
CREATE OR REPLACE FUNCTION make_partitions(week timestamptz) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET lock_timeout = '25ms' AS $$
DECLARE
    suffix text := to_char(week AT TIME ZONE 'UTC', '"_"IYYY"w"IW');
    lo uuid := least_id(week);
    hi uuid := least_id(week + interval '7 days');
    missing text[] := ARRAY(SELECT w.name FROM weekly_tables() w WHERE to_regclass(w.name || suffix) IS NULL ORDER BY w.place);
    t record;
BEGIN
    IF week <> week_of(week) THEN
        RAISE EXCEPTION '% is not the beginning of a week', week;
    END IF;
    IF missing = '{}' THEN
        RETURN;
    END IF;
    FOR t IN SELECT * FROM weekly_tables() w WHERE w.name = ANY (missing) ORDER BY w.place LOOP
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES) WITH (fillfactor = %s)',
            t.name || suffix, t.name, t.fill);
    END LOOP;
    PERFORM refer_partitions(suffix);
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', (SELECT string_agg(quote_ident(n || '_default'), ', ') FROM unnest(missing) AS n));
    FOR t IN SELECT * FROM weekly_tables() w WHERE w.name = ANY (missing) ORDER BY w.place LOOP
        EXECUTE format('INSERT INTO %I SELECT * FROM %I WHERE %I >= %L AND %3$I < %5$L',
            t.name || suffix, t.name || '_default', t.id, lo, hi);
    END LOOP;
    FOR t IN SELECT * FROM weekly_tables() w WHERE w.name = ANY (missing) ORDER BY w.place DESC LOOP
        EXECUTE format('DELETE FROM %I WHERE %I >= %L AND %2$I < %4$L', t.name || '_default', t.id, lo, hi);
    END LOOP;
    FOR t IN SELECT * FROM weekly_tables() w WHERE w.name = ANY (missing) ORDER BY w.place LOOP
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', t.name, t.name || suffix, lo, hi);
    END LOOP;
    INSERT INTO partition_weeks (week) VALUES (make_partitions.week) ON CONFLICT DO NOTHING;
END
$$;

-- Whether something of a week is still to be done: an execution or a run that is not
-- final, a callback that is to be delivered. Three indices answer it.
CREATE OR REPLACE FUNCTION partitions_live(suffix text) RETURNS boolean LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    live boolean;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE finished_at IS NULL) OR EXISTS (SELECT FROM %I WHERE finished_at IS NULL)'
        || ' OR EXISTS (SELECT FROM %I WHERE state = ''QUEUED'')',
        'component_executions' || suffix, 'workflow_runs' || suffix, 'callbacks' || suffix) INTO live;
    RETURN live;
END
$$;

-- Drops the partitions of one week if all that is in them has been final for as
-- long as kept says, and says whether it did. What is younger than the week
-- before last, and the defaults, it leaves alone whatever it is told. A callback
-- may be replayed until the tables are locked, so it looks again then.
CREATE OR REPLACE FUNCTION drop_partitions(week timestamptz, kept interval) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET lock_timeout = '25ms' AS $$
DECLARE
    suffix text := to_char(week AT TIME ZONE 'UTC', '"_"IYYY"w"IW');
BEGIN
    IF week <> week_of(week) OR week + interval '7 days' + GREATEST(kept, interval '7 days') > now() THEN
        RETURN false;
    END IF;
    PERFORM FROM partition_weeks w WHERE w.week = drop_partitions.week AND w.final_since <= now() - kept FOR UPDATE;
    IF NOT FOUND OR partitions_live(suffix) THEN
        RETURN false;
    END IF;
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE',
        (SELECT string_agg(format('ONLY %I', w.name), ', ' ORDER BY w.place) FROM weekly_tables() w));
    IF partitions_live(suffix) THEN
        RETURN false;
    END IF;
    EXECUTE format('DROP TABLE %s', (SELECT string_agg(quote_ident(w.name || suffix), ', ' ORDER BY w.place DESC) FROM weekly_tables() w));
    DELETE FROM partition_weeks w WHERE w.week = drop_partitions.week;
    RETURN true;
END
$$;

CREATE OR REPLACE FUNCTION default_partition_rows() RETURNS bigint LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT (SELECT count(*) FROM component_executions_default) + (SELECT count(*) FROM workflow_runs_default)
$$;
CREATE OR REPLACE FUNCTION default_partition_weeks() RETURNS timestamptz[] LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT COALESCE(array_agg(DISTINCT week_of(time_of(d.id))), '{}')
    FROM (SELECT id FROM component_executions_default UNION ALL SELECT id FROM workflow_runs_default) AS d
$$;
REVOKE EXECUTE ON FUNCTION weekly_tables() FROM PUBLIC;

SELECT refer_partitions('_default');
-- The weeks that there are.
SELECT make_partitions(week) FROM partition_weeks ORDER BY week;

-- The second wall (0007), and what each role may. Nobody deletes any of it.
DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['workflows', 'workflow_versions', 'workflow_runs', 'run_stages', 'run_events', 'run_signals'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY of_workspace ON %I TO weft_api USING (workspace_id = ANY ((SELECT current_workspaces())::uuid[]))', t);
        EXECUTE format('CREATE POLICY of_system ON %I TO weft_system USING (true)', t);
        EXECUTE format('CREATE POLICY of_owner ON %I TO %I USING (true)', t, current_user);
        EXECUTE format('GRANT SELECT ON %I TO weft_api', t);
        EXECUTE format('GRANT SELECT, INSERT ON %I TO weft_system', t);
    END LOOP;
END
$$;
GRANT UPDATE ON workflows, workflow_runs, run_stages TO weft_system;
-- Requests save workflows, and begin runs, cancel them and send them signals; the engine
-- does all else.
GRANT INSERT ON workflows, workflow_versions, workflow_runs, run_signals TO weft_api;
GRANT UPDATE ON workflows TO weft_api;
GRANT UPDATE (cancel_requested_at, cancel_reason, cancel_mode, wake_at, updated_at) ON workflow_runs TO weft_api;
