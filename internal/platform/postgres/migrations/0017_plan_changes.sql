-- expand
-- What was used of the month's plan credits when the present period began, and that
-- period: a change of plan within a period gives the new plan's quarter less what
-- was used in it. A binary of before renews an account without them; they then name
-- another period, and the postings are asked.
ALTER TABLE credit_accounts
    ADD COLUMN plan_used_before bigint NOT NULL DEFAULT 0 CHECK (plan_used_before >= 0),
    ADD COLUMN period           date   NOT NULL DEFAULT '1970-01-01';
