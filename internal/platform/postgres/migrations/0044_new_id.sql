-- expand
-- Returns a UUIDv7 by PostgreSQL's clock: milliseconds, 12 bits for the rest of the
-- microseconds, and random bits. It is for rows whose order by ID something depends on,
-- such as the checkpoints of the ledger: the clock of a client may be wrong.
CREATE FUNCTION new_id() RETURNS uuid LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    us bigint := extract(epoch FROM clock_timestamp()) * 1000000;
BEGIN
    RETURN (lpad(to_hex(us / 1000), 12, '0') || '7' || lpad(to_hex(us % 1000 * 4096 / 1000), 3, '0') || right(gen_random_uuid()::text, 17))::uuid;
END
$$;
