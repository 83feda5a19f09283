-- expand
-- Caps on calls that stay open, where they differ from the plan's; null = as the
-- plan has them.
ALTER TABLE workspaces
    ADD COLUMN custom_waits   integer CHECK (custom_waits > 0),
    ADD COLUMN custom_streams integer CHECK (custom_streams > 0);

-- When the first of the inline waits that a node has open ends at the latest: what
-- who is refused for them is told to wait. Null where a node has none, or is of
-- before and does not say.
ALTER TABLE open_calls ADD COLUMN waits_end_at timestamptz;

-- What is append-only is not emptied either. Neither table has partitions that go
-- with their time.
CREATE TRIGGER credit_postings_kept BEFORE TRUNCATE ON credit_postings
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_events_kept BEFORE TRUNCATE ON audit_events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
