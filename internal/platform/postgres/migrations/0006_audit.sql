-- Who did what to rights, money and secrets. Append-only; no secrets.
CREATE TABLE audit_events (
    workspace_id uuid        NOT NULL,
    id           uuid        NOT NULL,
    action       text        NOT NULL CHECK (action ~ '^[a-z_]+\.[a-z_]+$'),
    actor_kind   text        NOT NULL CHECK (actor_kind IN ('user', 'api_key', 'operator', 'system')),
    actor_id     uuid,
    actor_name   text        CHECK (length(actor_name) <= 300),
    subject_kind text        CHECK (length(subject_kind) <= 50),
    subject_id   text        CHECK (length(subject_id) <= 300),
    details      jsonb       NOT NULL DEFAULT '{}',
    request_id   text        CHECK (length(request_id) <= 128),
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, id)
);
CREATE TRIGGER audit_events_append_only BEFORE UPDATE OR DELETE ON audit_events
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
