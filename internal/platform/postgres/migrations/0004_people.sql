-- People belong to no workspace; members say which they may enter. Addresses are
-- kept in lower case. Of passwords there is only the argon2id hash.
CREATE TABLE users (
    id            uuid        PRIMARY KEY,
    email         text        NOT NULL UNIQUE CHECK (email = lower(email) AND length(email) BETWEEN 3 AND 254),
    name          text        NOT NULL CHECK (name <> '' AND length(name) <= 200),
    password_hash text        NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    disabled_at   timestamptz
);

-- A session is known by the SHA-256 of its token.
CREATE TABLE sessions (
    token_hash bytea       PRIMARY KEY CHECK (length(token_hash) = 32),
    user_id    uuid        NOT NULL REFERENCES users (id),
    created_at timestamptz NOT NULL DEFAULT now(),
    seen_at    timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
);
CREATE INDEX sessions_of_user ON sessions (user_id);
CREATE INDEX sessions_expiry ON sessions (expires_at);

CREATE TABLE members (
    workspace_id uuid        NOT NULL REFERENCES workspaces (id),
    user_id      uuid        NOT NULL REFERENCES users (id),
    role         text        NOT NULL CHECK (role IN ('owner', 'admin', 'editor', 'viewer')),
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, user_id)
);
CREATE INDEX members_of_user ON members (user_id);

-- An invitation is used once, by whoever has its token.
CREATE TABLE invitations (
    workspace_id uuid        NOT NULL REFERENCES workspaces (id),
    id           uuid        NOT NULL,
    email        text        NOT NULL CHECK (email = lower(email) AND length(email) BETWEEN 3 AND 254),
    role         text        NOT NULL CHECK (role IN ('owner', 'admin', 'editor', 'viewer')),
    token_hash   bytea       NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    invited_by   uuid        REFERENCES users (id),
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL,
    accepted_at  timestamptz,
    revoked_at   timestamptz,
    PRIMARY KEY (workspace_id, id)
);

-- A rotated key goes on until expires_at beside its successor.
ALTER TABLE api_keys
    ADD COLUMN expires_at  timestamptz,
    ADD COLUMN replaced_by uuid,
    ADD COLUMN created_by  uuid REFERENCES users (id);
