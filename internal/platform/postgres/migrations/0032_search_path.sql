-- expand
-- Functions with the owner's rights look up names in PostgreSQL's schema, then in Weft's,
-- and last among temporary tables. Before, their search path was that of whoever migrated,
-- and a temporary table came before everything.
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT oid FROM pg_proc WHERE prosecdef AND pronamespace = current_schema()::regnamespace LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', f, current_schema());
    END LOOP;
END
$$;
