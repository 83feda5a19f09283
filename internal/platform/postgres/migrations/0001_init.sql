-- Tables of Weft. Keys begin with the workspace, ids are UUIDv7 made in Go:
-- rows of one workspace lie together and newest-first lists need no index of
-- their own. No foreign key crosses workspaces.

CREATE TABLE workspaces (
    id         uuid        PRIMARY KEY,
    name       text        NOT NULL UNIQUE CHECK (name <> '' AND length(name) <= 200),
    plan       text        NOT NULL CHECK (plan IN ('starter', 'growth', 'professional', 'enterprise')),
    created_at timestamptz NOT NULL DEFAULT now()
);

-- A key is known by the SHA-256 of its text; neither the text nor the private
-- key is stored.
CREATE TABLE api_keys (
    workspace_id         uuid        NOT NULL REFERENCES workspaces (id),
    id                   uuid        NOT NULL,
    label                text        NOT NULL CHECK (label <> '' AND length(label) <= 200),
    key_hash             bytea       NOT NULL UNIQUE CHECK (length(key_hash) = 32),
    key_hint             text        NOT NULL,
    public_key           bytea       NOT NULL CHECK (length(public_key) = 32),
    allowed_workflow_ids uuid[]      NOT NULL DEFAULT '{}',
    created_at           timestamptz NOT NULL DEFAULT now(),
    revoked_at           timestamptz,
    PRIMARY KEY (workspace_id, id)
);

-- One row for each process that runs components. It is alive while its session
-- holds the advisory lock (worker_lock_class, id); the row itself proves nothing.
CREATE TABLE workers (
    id         integer     PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    host       text        NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now()
);

-- fillfactor leaves room for the two updates of a life to stay on the page; the
-- start of an attempt touches no indexed column, so it is a HOT update.
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
    has_callback       boolean     NOT NULL DEFAULT false,
    traceparent        text,
    output             json,
    error              json,
    usage              bigint      NOT NULL DEFAULT 0 CHECK (usage >= 0),
    created_at         timestamptz NOT NULL,
    updated_at         timestamptz NOT NULL,
    finished_at        timestamptz,
    PRIMARY KEY (workspace_id, id),
    CHECK ((finished_at IS NOT NULL) = (status IN ('COMPLETED', 'FAILED'))),
    CHECK ((error IS NOT NULL) = (status = 'FAILED')),
    CHECK (output IS NULL OR status = 'COMPLETED'),
    CHECK (usage = 0 OR finished_at IS NOT NULL),
    CHECK (finished_at IS NULL OR worker_id IS NULL)
) WITH (fillfactor = 75);

-- What the sweep and the reconciler walk: only what is still alive.
CREATE INDEX component_executions_live ON component_executions (id) WHERE finished_at IS NULL;

-- A final row never changes (invariant I5), whoever writes.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are final', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER component_executions_final BEFORE UPDATE ON component_executions
    FOR EACH ROW WHEN (OLD.finished_at IS NOT NULL) EXECUTE FUNCTION refuse_change();

-- The completion callback of an execution. body is frozen when the execution
-- becomes final: every attempt and replay sends these bytes.
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
    FOREIGN KEY (workspace_id, execution_id) REFERENCES component_executions (workspace_id, id),
    CHECK (state = 'PENDING' OR body IS NOT NULL),
    CHECK (state <> 'QUEUED' OR job_id IS NOT NULL)
) WITH (fillfactor = 75);

CREATE INDEX callbacks_queued ON callbacks (execution_id) WHERE state = 'QUEUED';
-- What the erasure of secrets walks, oldest first.
CREATE INDEX callbacks_sealed ON callbacks (execution_id) WHERE sealed IS NOT NULL;

CREATE TABLE callback_attempts (
    workspace_id uuid        NOT NULL,
    execution_id uuid        NOT NULL,
    attempt      integer     NOT NULL CHECK (attempt > 0),
    started_at   timestamptz NOT NULL,
    duration_ms  integer     NOT NULL,
    http_status  smallint,
    error        json,
    delivered    boolean     NOT NULL,
    PRIMARY KEY (workspace_id, execution_id, attempt),
    FOREIGN KEY (workspace_id, execution_id) REFERENCES callbacks (workspace_id, execution_id)
);

-- What was used, one row for each execution: the bill. Append-only.
CREATE TABLE usage_postings (
    workspace_id uuid        NOT NULL,
    kind         text        NOT NULL CHECK (kind IN ('execution')),
    reference_id uuid        NOT NULL,
    amount       bigint      NOT NULL CHECK (amount >= 0),
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, kind, reference_id)
);
CREATE TRIGGER usage_postings_append_only BEFORE UPDATE OR DELETE ON usage_postings
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- Commits with the thing it made, so that a repeat finds either both or neither.
CREATE TABLE idempotency_keys (
    workspace_id uuid        NOT NULL,
    operation    text        NOT NULL,
    path         text        NOT NULL,
    key          text        NOT NULL,
    body_hash    bytea       NOT NULL,
    resource_id  uuid        NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, operation, path, key)
);
CREATE INDEX idempotency_keys_created_at ON idempotency_keys (created_at);
