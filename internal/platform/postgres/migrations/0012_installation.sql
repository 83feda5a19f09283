-- Where this database is known to live. A database that finds itself elsewhere was
-- restored or copied: it begins in quarantine, because what it takes for undone may
-- have been done (reliability 9). The one row is made by the first process, not
-- here, so that a migrated template may be copied.
CREATE TABLE installation (
    one            boolean     PRIMARY KEY DEFAULT true CHECK (one),
    place          text        NOT NULL,
    timeline       integer     NOT NULL,
    -- Rises each second while somebody works: who has seen it knows how much of the
    -- past is there.
    beat           bigint      NOT NULL DEFAULT 0,
    quarantined_at timestamptz,
    reason         text        CHECK (length(reason) <= 500),
    released_at    timestamptz,
    CHECK ((quarantined_at IS NULL) = (reason IS NULL))
) WITH (fillfactor = 50);

-- The server, the database and the table itself: a dump that is read in has another
-- of at least one of them. A service that shows no system identifier shows none.
CREATE FUNCTION place_of_database() RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    system text := '';
BEGIN
    BEGIN
        SELECT system_identifier::text INTO system FROM pg_control_system();
    EXCEPTION WHEN insufficient_privilege OR undefined_function OR feature_not_supported THEN
        NULL;
    END;
    RETURN concat_ws('/', system, (SELECT oid FROM pg_database WHERE datname = current_database()), 'installation'::regclass::oid);
END
$$;

-- Rises with each recovery from an archive and with each promotion of a standby.
-- 0: it cannot be told, which is so while a server still recovers.
CREATE FUNCTION timeline_of_database() RETURNS integer LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer;
EXCEPTION WHEN OTHERS THEN
    RETURN 0;
END
$$;

GRANT SELECT, INSERT, UPDATE ON installation TO weft_system;
