-- expand
-- flushed_position, returned once the synchronous standbys have stored it too. The commit of
-- the message waits for them, as every acknowledged commit does. What only the primary has
-- stored was acknowledged to nobody, so a standby may take over without it.
CREATE FUNCTION confirmed_position() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    flushed bigint := flushed_position();
BEGIN
    IF flushed > 0 AND current_setting('synchronous_standby_names') <> '' THEN
        PERFORM pg_logical_emit_message(true, 'weft', ''::text);
    END IF;
    RETURN flushed;
END
$$;
