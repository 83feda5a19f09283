-- Terms of a workspace that differ from its plan's; null = as the plan has them.
ALTER TABLE workspaces
    ADD COLUMN custom_rps         integer CHECK (custom_rps > 0),
    ADD COLUMN custom_rph         integer CHECK (custom_rph > 0),
    ADD COLUMN custom_credits     bigint  CHECK (custom_credits >= 0),
    ADD COLUMN custom_usage_limit bigint  CHECK (custom_usage_limit >= 0),
    ADD COLUMN billing_stopped_at timestamptz; -- an audit found its books wrong

-- The sum of a workspace's postings, kept with them in the same transactions: what
-- admission asks. Amounts are micro-credits. weft audit proves that it is the sum.
CREATE TABLE credit_accounts (
    workspace_id   uuid        PRIMARY KEY REFERENCES workspaces (id),
    -- Terms: plan credits of a month, and the usage of a month that paid credits
    -- need not pay.
    monthly        bigint      NOT NULL CHECK (monthly >= 0),
    usage_limit    bigint      NOT NULL CHECK (usage_limit >= 0),
    -- Pots.
    plan           bigint      NOT NULL DEFAULT 0 CHECK (plan >= 0),
    paid           bigint      NOT NULL DEFAULT 0 CHECK (paid >= 0),
    -- Kept back for what is accepted and not final.
    reserved       bigint      NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    -- Of this month: usage that plan credits paid, and usage that no pot paid.
    plan_used      bigint      NOT NULL DEFAULT 0 CHECK (plan_used >= 0),
    allowance_used bigint      NOT NULL DEFAULT 0 CHECK (allowance_used >= 0),
    -- The month and the week (Monday) of the last release; valid_until is when the
    -- next one is due: from then on nothing is admitted or settled before it.
    month          date        NOT NULL,
    week           date        NOT NULL,
    valid_until    timestamptz NOT NULL,
    -- Accepted and not final: what fairness looks at. parked counts those of them
    -- that wait for another of the workspace's to end.
    live           integer     NOT NULL DEFAULT 0 CHECK (live >= 0),
    parked         integer     NOT NULL DEFAULT 0 CHECK (parked >= 0)
) WITH (fillfactor = 50);

-- The ledger. A posting is a row, its entries are the columns, each an account,
-- and they sum to zero: what a pot gains or loses, another account gives or takes.
-- Append-only.
CREATE TABLE credit_postings (
    workspace_id uuid        NOT NULL,
    id           uuid        NOT NULL,
    kind         text        NOT NULL CHECK (kind IN ('EXECUTION', 'RUN', 'GRANT', 'RELEASE', 'EXPIRY')),
    -- What it is for: the id of the execution or run, the period of a release or
    -- an expiry, the operator's own word for a grant. Once for each kind.
    reference    text        NOT NULL CHECK (reference <> '' AND length(reference) <= 200),
    plan         bigint      NOT NULL DEFAULT 0,
    paid         bigint      NOT NULL DEFAULT 0,
    allowance    bigint      NOT NULL DEFAULT 0 CHECK (allowance <= 0), -- usage that no pot paid
    usage        bigint      NOT NULL DEFAULT 0 CHECK (usage >= 0),
    granted      bigint      NOT NULL DEFAULT 0, -- where paid credits come from
    released     bigint      NOT NULL DEFAULT 0, -- where plan credits come from
    expired      bigint      NOT NULL DEFAULT 0 CHECK (expired >= 0),
    note         text        CHECK (length(note) <= 500),
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, id),
    UNIQUE (workspace_id, kind, reference),
    CHECK (plan + paid + allowance + usage + granted + released + expired = 0)
);
CREATE TRIGGER credit_postings_append_only BEFORE UPDATE OR DELETE ON credit_postings
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- What there is already: accounts of the present month without credits, and the
-- usage so far, which nobody was asked to pay.
INSERT INTO credit_accounts (workspace_id, monthly, usage_limit, month, week, valid_until, live)
SELECT w.id, 0, 0, '1970-01-01', '1970-01-01', 'epoch',
       (SELECT count(*) FROM component_executions e WHERE e.workspace_id = w.id AND e.finished_at IS NULL)
FROM workspaces w;
INSERT INTO credit_postings (workspace_id, id, kind, reference, allowance, usage, created_at)
SELECT workspace_id, reference_id, 'EXECUTION', reference_id::text, -amount, amount, created_at FROM usage_postings;
DROP TABLE usage_postings;
