-- expand
-- The bytes that a workspace stored in the present month, and how many it may; 0: any number.
-- An account gets its limit with the next period that starts.
ALTER TABLE credit_accounts
    ADD COLUMN stored        bigint NOT NULL DEFAULT 0 CHECK (stored >= 0),
    ADD COLUMN storage_limit bigint NOT NULL DEFAULT 0 CHECK (storage_limit >= 0);
-- A limit of its own, instead of the plan's.
ALTER TABLE workspaces ADD COLUMN custom_storage bigint CHECK (custom_storage > 0);
-- storage_fee is the part of usage that pays for stages and bytes. uncounted_bytes are stored
-- and not yet part of the account's stored.
ALTER TABLE workflow_runs
    ADD COLUMN storage_fee     bigint NOT NULL DEFAULT 0,
    ADD COLUMN uncounted_bytes bigint NOT NULL DEFAULT 0,
    -- Not valid: otherwise PostgreSQL reads all runs while the table is locked.
    ADD CONSTRAINT workflow_runs_storage CHECK (storage_fee >= 0 AND uncounted_bytes >= 0) NOT VALID;
