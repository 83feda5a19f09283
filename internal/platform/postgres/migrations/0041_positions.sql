-- expand
-- How far the log of this server is stored, in bytes: all commits that were acknowledged
-- lie before. 0: it cannot be told, which is so while a server still recovers.
CREATE FUNCTION flushed_position() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0');
EXCEPTION WHEN OTHERS THEN
    RETURN 0;
END
$$;

-- How much of the log this server had when its last recovery ended: a crash, a restore, or
-- the promotion of a standby. It stays until the next one. 0: there was none since it was
-- started, or it cannot be told.
CREATE FUNCTION recovered_position() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN COALESCE(pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0'), 0);
EXCEPTION WHEN OTHERS THEN
    RETURN 0;
END
$$;
