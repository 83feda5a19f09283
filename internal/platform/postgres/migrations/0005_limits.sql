-- The state of each workspace's rate limits, shared by every node. Unlogged: after
-- a crash of the database everybody begins with full buckets.
CREATE UNLOGGED TABLE rate_limits (
    workspace_id uuid        PRIMARY KEY,
    state        bytea       NOT NULL,
    updated_at   timestamptz NOT NULL
) WITH (fillfactor = 50);

-- How many inline waits and streams each node has open for a workspace. A row
-- that its node does not renew in time counts no more.
CREATE UNLOGGED TABLE open_calls (
    workspace_id uuid        NOT NULL,
    node         uuid        NOT NULL,
    waits        integer     NOT NULL DEFAULT 0 CHECK (waits >= 0),
    streams      integer     NOT NULL DEFAULT 0 CHECK (streams >= 0),
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, node)
) WITH (fillfactor = 50);

-- How much a worker process runs at once: what fairness divides.
ALTER TABLE workers ADD COLUMN slots integer NOT NULL DEFAULT 0;
