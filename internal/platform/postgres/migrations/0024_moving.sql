-- expand
-- Rows that move from a default partition into a week of their own are found all the while.

-- Makes the partitions of one week that there are not yet, named after it, and moves into
-- them what the default partitions hold of it. Again is the same, also at the same time:
-- one goes after the other. It waits for locks so briefly that whoever waits behind it
-- notices nothing; the caller comes again.
-- The tables are locked as a whole before rows move. A statement that was planned while
-- the default was the place for such a row, and then waited for the default alone, would
-- find it nowhere.
CREATE OR REPLACE FUNCTION make_partitions(week timestamptz) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
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
    LOCK TABLE partition_weeks IN SHARE ROW EXCLUSIVE MODE;
    missing := ARRAY(SELECT w.name FROM weekly_tables() w WHERE to_regclass(w.name || suffix) IS NULL ORDER BY w.place);
    IF missing = '{}' THEN
        RETURN;
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
END
$$;
