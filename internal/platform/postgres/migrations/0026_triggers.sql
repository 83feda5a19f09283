-- expand
-- What begins runs beside requests: schedules, and hooks that other services call.

-- The schedule or the hook of a run. First of all here: it waits for whoever makes
-- partitions just now.
ALTER TABLE workflow_runs ADD COLUMN trigger_id uuid;
-- Whether a run of a schedule is under way.
CREATE INDEX workflow_runs_triggered ON workflow_runs (trigger_id) WHERE trigger_id IS NOT NULL AND finished_at IS NULL;

CREATE TABLE schedules (
    workspace_id     uuid          NOT NULL,
    id               uuid          NOT NULL,
    workflow_id      uuid          NOT NULL,
    name             text          NOT NULL CHECK (length(name) <= 200),
    cron             text          NOT NULL,
    time_zone        text          NOT NULL,
    overlap          text          NOT NULL CHECK (overlap IN ('skip', 'queue', 'allow')),
    status           text          NOT NULL CHECK (status IN ('ACTIVE', 'PAUSED')),
    revision         integer       NOT NULL DEFAULT 1, -- changes with whatever is changed: who begins a run names it
    next_at          timestamptz,  -- null: paused, or it never comes again
    waiting          timestamptz[] NOT NULL DEFAULT '{}', -- times whose runs wait for those before to end
    last_at          timestamptz,
    last_run_id      uuid,
    last_skipped_at  timestamptz,
    last_skip_reason text,
    created_at       timestamptz   NOT NULL DEFAULT now(),
    updated_at       timestamptz   NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, id),
    FOREIGN KEY (workspace_id, workflow_id) REFERENCES workflows (workspace_id, id),
    CHECK (status = 'ACTIVE' OR next_at IS NULL AND waiting = '{}'),
    CHECK (overlap = 'queue' OR waiting = '{}'),
    CHECK ((last_skipped_at IS NULL) = (last_skip_reason IS NULL))
);
CREATE INDEX schedules_of_workflow ON schedules (workspace_id, workflow_id, id);
-- The sweep looks for both each second.
CREATE INDEX schedules_due ON schedules (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX schedules_waiting ON schedules (id) WHERE waiting <> '{}';

CREATE TABLE hooks (
    workspace_id    uuid        NOT NULL,
    id              uuid        NOT NULL,
    workflow_id     uuid        NOT NULL,
    name            text        NOT NULL CHECK (length(name) <= 200),
    status          text        NOT NULL CHECK (status IN ('ACTIVE', 'PAUSED')),
    verification    json        NOT NULL, -- but for the secret
    sealed          bytea       NOT NULL, -- the secret
    last_at         timestamptz,
    last_run_id     uuid,
    last_refused_at timestamptz,
    last_refusal    text,
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, id),
    FOREIGN KEY (workspace_id, workflow_id) REFERENCES workflows (workspace_id, id),
    CHECK ((last_refused_at IS NULL) = (last_refusal IS NULL))
);
CREATE INDEX hooks_of_workflow ON hooks (workspace_id, workflow_id, id);
-- Who calls a hook names no workspace. Those who seal anew walk them in this order.
CREATE UNIQUE INDEX hooks_by_id ON hooks (id);

-- What was delivered to hooks, by the digest of the id that its sender gave it.
CREATE TABLE hook_deliveries (
    workspace_id uuid        NOT NULL,
    hook_id      uuid        NOT NULL,
    delivery     bytea       NOT NULL,
    run_id       uuid        NOT NULL,
    received_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, hook_id, delivery)
);
-- They are forgotten in this order.
CREATE INDEX hook_deliveries_by_age ON hook_deliveries (received_at);

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['schedules', 'hooks', 'hook_deliveries'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY of_workspace ON %I TO weft_api USING (workspace_id = ANY ((SELECT current_workspaces())::uuid[]))', t);
        EXECUTE format('CREATE POLICY of_system ON %I TO weft_system USING (true)', t);
        EXECUTE format('CREATE POLICY of_owner ON %I TO %I USING (true)', t, current_user);
        EXECUTE format('GRANT SELECT, INSERT ON %I TO weft_api, weft_system', t);
    END LOOP;
END
$$;
GRANT UPDATE, DELETE ON schedules, hooks TO weft_api, weft_system;
GRANT DELETE ON hook_deliveries TO weft_system;
