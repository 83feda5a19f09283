-- For sqlc only: the part of River's table that our queries name. River's own
-- migrations make the table.
CREATE SCHEMA IF NOT EXISTS river;
CREATE TABLE river.river_job (
    id           bigserial   PRIMARY KEY,
    state        text        NOT NULL,
    attempt      smallint    NOT NULL,
    attempted_at timestamptz,
    attempted_by text[],
    created_at   timestamptz NOT NULL,
    finalized_at timestamptz,
    scheduled_at timestamptz NOT NULL,
    priority     smallint    NOT NULL,
    args         jsonb       NOT NULL,
    kind         text        NOT NULL,
    queue        text        NOT NULL
);
