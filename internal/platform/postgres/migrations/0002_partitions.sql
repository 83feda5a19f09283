-- Executions and what hangs on them are partitioned by their UUIDv7 id, and so by
-- time: old weeks go as a whole, never row by row (decisions 9.5). Partitions of
-- the three tables have the same bounds, so each refers to its own sibling only.

ALTER TABLE callback_attempts RENAME TO unpartitioned_callback_attempts;
ALTER TABLE callbacks RENAME TO unpartitioned_callbacks;
ALTER TABLE component_executions RENAME TO unpartitioned_component_executions;

CREATE TABLE component_executions (
    workspace_id       uuid        NOT NULL,
    id                 uuid        NOT NULL,
    module             text        NOT NULL,
    -- What may happen after a crash: the rule of this very call.
    repeat_rule        text        NOT NULL DEFAULT 'unsafe' CHECK (repeat_rule IN ('pure', 'idempotent', 'unsafe')),
    status             text        NOT NULL CHECK (status IN ('CREATED', 'EXECUTING', 'COMPLETED', 'FAILED')),
    call               bytea       NOT NULL,
    attempts           smallint    NOT NULL CHECK (attempts BETWEEN 1 AND 3),
    attempt            smallint    NOT NULL DEFAULT 0 CHECK (attempt BETWEEN 0 AND attempts),
    attempt_started_at timestamptz,
    -- continuing: the next start goes on with the present attempt (after a wait
    -- or a lost worker) instead of beginning another.
    continuing         boolean     NOT NULL DEFAULT false,
    wait_state         json,
    not_before         timestamptz,
    crashes            smallint    NOT NULL DEFAULT 0,
    -- epoch fences: it rises with each start, and every later write names it.
    epoch              integer     NOT NULL DEFAULT 0,
    worker_id          integer,
    job_id             bigint      NOT NULL,
    -- parked: its workspace has as much under way as one workspace may; its job
    -- waits (state pending) until another of the workspace's ends.
    parked             boolean     NOT NULL DEFAULT false,
    has_callback       boolean     NOT NULL DEFAULT false,
    traceparent        text,
    output             json,
    error              json,
    -- reserved: what is kept back for it from the workspace's credits until it is
    -- final; usage: what it has cost.
    reserved           bigint      NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    usage              bigint      NOT NULL DEFAULT 0 CHECK (usage >= 0),
    created_at         timestamptz NOT NULL,
    updated_at         timestamptz NOT NULL,
    finished_at        timestamptz,
    PRIMARY KEY (workspace_id, id),
    CHECK ((finished_at IS NOT NULL) = (status IN ('COMPLETED', 'FAILED'))),
    CHECK ((error IS NOT NULL) = (status = 'FAILED')),
    CHECK (output IS NULL OR status = 'COMPLETED'),
    CHECK (usage = 0 OR finished_at IS NOT NULL),
    CHECK (reserved = 0 OR finished_at IS NULL),
    CHECK (finished_at IS NULL OR worker_id IS NULL),
    CHECK (NOT parked OR status = 'CREATED')
) PARTITION BY RANGE (id);

-- What the sweep and the reconciler walk: only what is still alive.
CREATE INDEX live_component_executions ON component_executions (id) WHERE finished_at IS NULL;
-- What is released when one of a workspace's ends, oldest first.
CREATE INDEX parked_component_executions ON component_executions (workspace_id, id) WHERE parked;

CREATE TRIGGER component_executions_final BEFORE UPDATE ON component_executions
    FOR EACH ROW WHEN (OLD.finished_at IS NOT NULL) EXECUTE FUNCTION refuse_change();

CREATE TABLE callbacks (
    workspace_id    uuid        NOT NULL,
    execution_id    uuid        NOT NULL,
    url             text        NOT NULL,
    sealed          bytea,
    signed          boolean     NOT NULL,
    header_names    text[]      NOT NULL DEFAULT '{}',
    body            bytea,
    state           text        NOT NULL DEFAULT 'PENDING'
                    CHECK (state IN ('PENDING', 'QUEUED', 'DELIVERED', 'EXHAUSTED')),
    -- round counts from 1 and rises with each replay; tries counts the attempts
    -- within the round, attempt_count those of all rounds.
    round           integer     NOT NULL DEFAULT 1,
    tries           integer     NOT NULL DEFAULT 0,
    attempt_count   integer     NOT NULL DEFAULT 0,
    job_id          bigint,
    due_at          timestamptz, -- of the next attempt, when one has failed
    last_attempt_at timestamptz,
    delivered_at    timestamptz,
    last_error      json,
    created_at      timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, execution_id),
    CHECK (state = 'PENDING' OR body IS NOT NULL),
    CHECK (state <> 'QUEUED' OR job_id IS NOT NULL)
) PARTITION BY RANGE (execution_id);

CREATE INDEX queued_callbacks ON callbacks (execution_id) WHERE state = 'QUEUED';
-- What the erasure of secrets walks, oldest first.
CREATE INDEX sealed_callbacks ON callbacks (execution_id) WHERE sealed IS NOT NULL;

CREATE TABLE callback_attempts (
    workspace_id uuid        NOT NULL,
    execution_id uuid        NOT NULL,
    attempt      integer     NOT NULL CHECK (attempt > 0),
    started_at   timestamptz NOT NULL,
    duration_ms  integer     NOT NULL,
    http_status  smallint,
    error        json,
    delivered    boolean     NOT NULL,
    PRIMARY KEY (workspace_id, execution_id, attempt)
) PARTITION BY RANGE (execution_id);

-- The first moment of a week (Monday, UTC), and the least UUIDv7 of a moment.
CREATE FUNCTION week_of(at timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT date_trunc('week', at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'
$$;
CREATE FUNCTION least_id(at timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT rpad(lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0'), 32, '0')::uuid
$$;

-- Makes the three partitions of one week, named after it, and moves into them
-- what the default partitions hold of it. Again is the same.
CREATE FUNCTION make_partitions(week timestamptz) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    suffix text := to_char(week AT TIME ZONE 'UTC', '"_"IYYY"w"IW');
    lo uuid := least_id(week);
    hi uuid := least_id(week + interval '7 days');
    t text;
BEGIN
    IF week <> week_of(week) THEN
        RAISE EXCEPTION '% is not the beginning of a week', week;
    END IF;
    IF to_regclass('component_executions' || suffix) IS NOT NULL THEN
        RETURN;
    END IF;
    FOREACH t IN ARRAY ARRAY['callback_attempts', 'callbacks', 'component_executions'] LOOP
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS) WITH (fillfactor = 75)', t || suffix, t);
        EXECUTE format('WITH moved AS (DELETE FROM %1$I WHERE %2$I >= %3$L AND %2$I < %4$L RETURNING *) INSERT INTO %5$I SELECT * FROM moved',
            t || '_default', CASE t WHEN 'component_executions' THEN 'id' ELSE 'execution_id' END, lo, hi, t || suffix);
    END LOOP;
    FOREACH t IN ARRAY ARRAY['component_executions', 'callbacks', 'callback_attempts'] LOOP
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', t, t || suffix, lo, hi);
    END LOOP;
    PERFORM refer_partitions(suffix);
END
$$;

-- Gives the partitions of one suffix their foreign keys, each to its sibling.
CREATE FUNCTION refer_partitions(suffix text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %I ADD FOREIGN KEY (workspace_id, execution_id) REFERENCES %I (workspace_id, id)',
        'callbacks' || suffix, 'component_executions' || suffix);
    EXECUTE format('ALTER TABLE %I ADD FOREIGN KEY (workspace_id, execution_id) REFERENCES %I (workspace_id, execution_id)',
        'callback_attempts' || suffix, 'callbacks' || suffix);
END
$$;

-- Drops the partitions of one week if all that is in them has been final for as
-- long as kept says, and says whether it did. What is younger than the week
-- before last, and the defaults, it leaves alone whatever it is told.
CREATE FUNCTION drop_partitions(week timestamptz, kept interval) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    suffix text := to_char(week AT TIME ZONE 'UTC', '"_"IYYY"w"IW');
    needed boolean;
BEGIN
    IF week <> week_of(week) OR week + interval '7 days' + GREATEST(kept, interval '7 days') > now() THEN
        RETURN false;
    END IF;
    IF to_regclass('component_executions' || suffix) IS NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT FROM %1$I WHERE finished_at IS NULL) OR EXISTS (SELECT FROM %2$I WHERE state IN (''PENDING'', ''QUEUED''))'
        || ' OR EXISTS (SELECT FROM %1$I WHERE finished_at > now() - %3$L::interval)',
        'component_executions' || suffix, 'callbacks' || suffix, kept) INTO needed;
    IF needed THEN
        RETURN false;
    END IF;
    EXECUTE format('DROP TABLE %I', 'callback_attempts' || suffix);
    EXECUTE format('DROP TABLE %I', 'callbacks' || suffix);
    EXECUTE format('DROP TABLE %I', 'component_executions' || suffix);
    RETURN true;
END
$$;

-- Where ids go whose week has no partitions yet.
CREATE TABLE component_executions_default PARTITION OF component_executions DEFAULT WITH (fillfactor = 75);
CREATE TABLE callbacks_default PARTITION OF callbacks DEFAULT WITH (fillfactor = 75);
CREATE TABLE callback_attempts_default PARTITION OF callback_attempts DEFAULT;
SELECT refer_partitions('_default');
SELECT make_partitions(week_of(now()) + n * interval '7 days') FROM generate_series(-5, 3) AS n;

INSERT INTO component_executions
    (workspace_id, id, module, repeat_rule, status, call, attempts, attempt, attempt_started_at, continuing, wait_state,
     not_before, crashes, epoch, worker_id, job_id, has_callback, traceparent, output, error, usage, created_at, updated_at,
     finished_at)
SELECT workspace_id, id, module, repeat_rule, status, call, attempts, attempt, attempt_started_at, continuing, wait_state,
     not_before, crashes, epoch, worker_id, job_id, has_callback, traceparent, output, error, usage, created_at, updated_at,
     finished_at
FROM unpartitioned_component_executions;
INSERT INTO callbacks SELECT * FROM unpartitioned_callbacks;
INSERT INTO callback_attempts SELECT * FROM unpartitioned_callback_attempts;
DROP TABLE unpartitioned_callback_attempts;
DROP TABLE unpartitioned_callbacks;
DROP TABLE unpartitioned_component_executions;
