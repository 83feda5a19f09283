-- What the database tells of its sessions it tells to their own user only, which is
-- the owner: the roles of the processes look through this.
CREATE FUNCTION session_health(OUT oldest_snapshot float8, OUT oldest_transaction float8)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT COALESCE(max(age(backend_xmin)), 0)::float8,
           COALESCE(max(extract(epoch FROM now() - xact_start)), 0)::float8
    FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'
$$;
REVOKE EXECUTE ON FUNCTION session_health() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION session_health() TO weft_system;
