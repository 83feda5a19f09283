-- What was reserved for an execution stays in its row when it is final: the end
-- gives it back to the account, and needs no second look at the row for it.
DO $$
DECLARE
    c record;
BEGIN
    -- The parent first: what its partitions inherit goes with it, what is their own
    -- stays behind.
    FOR c IN
        SELECT conrelid::regclass AS tab, conname FROM pg_constraint
        WHERE contype = 'c' AND pg_get_constraintdef(oid) LIKE '%reserved = 0%finished_at%'
        ORDER BY conrelid <> 'component_executions'::regclass
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS %I', c.tab, c.conname);
    END LOOP;
END
$$;

-- Accounts whose next release is due.
CREATE INDEX due_credit_accounts ON credit_accounts (valid_until);

-- When a UUIDv7 was made.
CREATE FUNCTION time_of(id uuid) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT to_timestamp(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0)
$$;

-- What was used this month before there were accounts is this month's all the same.
UPDATE credit_accounts a SET
    month = date_trunc('month', now() AT TIME ZONE 'UTC'), allowance_used = p.used
FROM (SELECT workspace_id, sum(usage)::bigint AS used FROM credit_postings
      WHERE created_at >= date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' GROUP BY workspace_id) AS p
WHERE a.workspace_id = p.workspace_id;
