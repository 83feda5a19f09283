-- expand
-- The partitions of a week can be made under load: the caller says how long the function may wait
-- for a lock. Statements that start later wait behind it, so callers begin with a short time.

-- Makes the partitions of one week that are missing, and moves into them the rows that the default
-- partitions hold of the week. It returns whether any was missing. Idempotent; concurrent calls
-- wait for each other. It locks the tables as a whole before rows move: a statement that was planned
-- while the default partition was the place of a row, and then waited for the default alone, would
-- not find the row.
CREATE FUNCTION make_partitions(week timestamptz, patience interval) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET lock_timeout = '25ms' AS $$
DECLARE
    suffix text := to_char(week AT TIME ZONE 'UTC', '"_"IYYY"w"IW');
    lo uuid := least_id(week);
    hi uuid := least_id(week + interval '7 days');
    missing text[];
    t record;
BEGIN
    IF week <> week_of(week) THEN
        RAISE EXCEPTION '% is not the beginning of a week', week;
    END IF;
    PERFORM set_config('lock_timeout', GREATEST(ceil(extract(epoch FROM patience) * 1000), 1)::integer::text, true); -- until the function returns
    LOCK TABLE partition_weeks IN SHARE ROW EXCLUSIVE MODE;
    missing := ARRAY(SELECT w.name FROM weekly_tables() w WHERE to_regclass(w.name || suffix) IS NULL ORDER BY w.place);
    IF missing = '{}' THEN
        RETURN false;
    END IF;
    FOR t IN SELECT * FROM weekly_tables() w WHERE w.name = ANY (missing) ORDER BY w.place LOOP
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES) WITH (fillfactor = %s)',
            t.name || suffix, t.name, t.fill);
    END LOOP;
    PERFORM refer_partitions(suffix);
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE',
        (SELECT string_agg(format('ONLY %I, %I', n, n || '_default'), ', ') FROM unnest(missing) AS n));
    FOR t IN SELECT * FROM weekly_tables() w WHERE w.name = ANY (missing) ORDER BY w.place LOOP
        EXECUTE format('INSERT INTO %I SELECT * FROM %I WHERE %I >= %L AND %3$I < %5$L',
            t.name || suffix, t.name || '_default', t.id, lo, hi);
    END LOOP;
    FOR t IN SELECT * FROM weekly_tables() w WHERE w.name = ANY (missing) ORDER BY w.place DESC LOOP
        EXECUTE format('DELETE FROM %I WHERE %I >= %L AND %2$I < %4$L', t.name || '_default', t.id, lo, hi);
    END LOOP;
    FOR t IN SELECT * FROM weekly_tables() w WHERE w.name = ANY (missing) ORDER BY w.place LOOP
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', t.name, t.name || suffix, lo, hi);
    END LOOP;
    INSERT INTO partition_weeks (week) VALUES (make_partitions.week) ON CONFLICT DO NOTHING;
    RETURN true;
END
$$;
REVOKE EXECUTE ON FUNCTION make_partitions(timestamptz, interval) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION make_partitions(timestamptz, interval) TO weft_system;

DO $$ BEGIN
    EXECUTE format('ALTER FUNCTION make_partitions(timestamptz, interval) SET search_path = %I, pg_temp', current_schema());
END $$;

-- As before, for earlier binaries and for weeks that can wait.
DROP FUNCTION make_partitions(timestamptz);
CREATE FUNCTION make_partitions(week timestamptz) RETURNS void LANGUAGE sql AS $$
    SELECT make_partitions(week, interval '25 milliseconds')
$$;
REVOKE EXECUTE ON FUNCTION make_partitions(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION make_partitions(timestamptz) TO weft_system;
