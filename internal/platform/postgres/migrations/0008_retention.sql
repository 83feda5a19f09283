-- Retention (decisions 9.5). Which weeks have partitions, and since when all that
-- is in them is final: a week that nothing has been seen alive in for the
-- retention time goes, without a look at its rows.
CREATE TABLE partition_weeks (
    week        timestamptz PRIMARY KEY,
    final_since timestamptz
);
INSERT INTO partition_weeks (week)
SELECT to_date(substring(c.relname FROM '\d{4}w\d\d$'), 'IYYY"w"IW')::timestamp AT TIME ZONE 'UTC'
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'component_executions'::regclass AND c.relname ~ '\d{4}w\d\d$';

-- Makes the three partitions of one week, named after it, and moves into them
-- what the default partitions hold of it. Again is the same. It waits for locks so
-- briefly that whoever waits behind it notices nothing; the caller comes again.
-- The defaults are locked before rows move: whoever would change one of them
-- meanwhile would find it nowhere.
CREATE OR REPLACE FUNCTION make_partitions(week timestamptz) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET lock_timeout = '25ms' AS $$
DECLARE
    tables CONSTANT text[] := ARRAY['component_executions', 'callbacks', 'callback_attempts'];
    ids CONSTANT text[] := ARRAY['id', 'execution_id', 'execution_id'];
    suffix text := to_char(week AT TIME ZONE 'UTC', '"_"IYYY"w"IW');
    lo uuid := least_id(week);
    hi uuid := least_id(week + interval '7 days');
BEGIN
    IF week <> week_of(week) THEN
        RAISE EXCEPTION '% is not the beginning of a week', week;
    END IF;
    IF to_regclass('component_executions' || suffix) IS NOT NULL THEN
        RETURN;
    END IF;
    FOR n IN 1..3 LOOP
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES) WITH (fillfactor = 75)',
            tables[n] || suffix, tables[n]);
    END LOOP;
    PERFORM refer_partitions(suffix);
    LOCK TABLE component_executions_default, callbacks_default, callback_attempts_default IN ACCESS EXCLUSIVE MODE;
    FOR n IN 1..3 LOOP
        EXECUTE format('INSERT INTO %I SELECT * FROM %I WHERE %I >= %L AND %3$I < %5$L',
            tables[n] || suffix, tables[n] || '_default', ids[n], lo, hi);
    END LOOP;
    FOR n IN REVERSE 3..1 LOOP
        EXECUTE format('DELETE FROM %I WHERE %I >= %L AND %2$I < %4$L', tables[n] || '_default', ids[n], lo, hi);
    END LOOP;
    FOR n IN 1..3 LOOP
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', tables[n], tables[n] || suffix, lo, hi);
    END LOOP;
    INSERT INTO partition_weeks (week) VALUES (make_partitions.week);
END
$$;

-- Whether something of a week is still to be done: an execution that is not
-- final, a callback that is to be delivered. Two indices answer it.
CREATE FUNCTION partitions_live(suffix text) RETURNS boolean LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    live boolean;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE finished_at IS NULL) OR EXISTS (SELECT FROM %I WHERE state = ''QUEUED'')',
        'component_executions' || suffix, 'callbacks' || suffix) INTO live;
    RETURN live;
END
$$;

-- Notes since when past weeks have been final as a whole.
CREATE FUNCTION note_final_partitions() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    past record;
    live boolean;
BEGIN
    FOR past IN SELECT w.week, w.final_since FROM partition_weeks w WHERE w.week + interval '7 days' < now() LOOP
        live := partitions_live(to_char(past.week AT TIME ZONE 'UTC', '"_"IYYY"w"IW'));
        IF live = (past.final_since IS NOT NULL) THEN
            UPDATE partition_weeks w SET final_since = CASE WHEN live THEN NULL ELSE now() END WHERE w.week = past.week;
        END IF;
    END LOOP;
END
$$;

-- Drops the partitions of one week if all that is in them has been final for as
-- long as kept says, and says whether it did. What is younger than the week
-- before last, and the defaults, it leaves alone whatever it is told. A callback
-- may be replayed until the tables are locked, so it looks again then.
CREATE OR REPLACE FUNCTION drop_partitions(week timestamptz, kept interval) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET lock_timeout = '25ms' AS $$
DECLARE
    suffix text := to_char(week AT TIME ZONE 'UTC', '"_"IYYY"w"IW');
BEGIN
    IF week <> week_of(week) OR week + interval '7 days' + GREATEST(kept, interval '7 days') > now() THEN
        RETURN false;
    END IF;
    PERFORM FROM partition_weeks w WHERE w.week = drop_partitions.week AND w.final_since <= now() - kept FOR UPDATE;
    IF NOT FOUND OR partitions_live(suffix) THEN
        RETURN false;
    END IF;
    LOCK TABLE ONLY component_executions, ONLY callbacks, ONLY callback_attempts IN ACCESS EXCLUSIVE MODE;
    IF partitions_live(suffix) THEN
        RETURN false;
    END IF;
    EXECUTE format('DROP TABLE %I, %I, %I', 'callback_attempts' || suffix, 'callbacks' || suffix, 'component_executions' || suffix);
    DELETE FROM partition_weeks w WHERE w.week = drop_partitions.week;
    RETURN true;
END
$$;

-- What ought to be nothing: rows in the default partitions, and the weeks of them
-- that could have partitions of their own.
CREATE FUNCTION default_partition_rows() RETURNS bigint LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT count(*) FROM component_executions_default
$$;
CREATE FUNCTION default_partition_weeks() RETURNS timestamptz[] LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT COALESCE(array_agg(DISTINCT week_of(to_timestamp(('x' || substr(replace(id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0))), '{}')
    FROM component_executions_default
$$;

GRANT SELECT ON partition_weeks TO weft_system;
REVOKE EXECUTE ON FUNCTION partitions_live(text), note_final_partitions(), default_partition_rows(), default_partition_weeks() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION note_final_partitions(), default_partition_rows(), default_partition_weeks() TO weft_system;
