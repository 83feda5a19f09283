-- The second wall between workspaces. Processes work under one of two roles, which
-- own nothing and bypass nothing:
--   weft_api    serves requests and sees only the workspaces that the setting
--               weft.workspaces names (ids, separated by commas); without it,
--               nothing;
--   weft_system runs the engine and the upkeep, and proves who calls: it serves all
--               workspaces.
-- The owner of the tables may do all, as before; row security is forced on it too,
-- so it has a policy of its own.
DO $$
DECLARE
    r text;
BEGIN
    FOREACH r IN ARRAY ARRAY['weft_api', 'weft_system'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = r) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', r);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL; -- another database of this server is migrated at the same time
            END;
        END IF;
        -- From PostgreSQL 16 on, who makes a role is not yet allowed to become it.
        IF current_setting('server_version_num')::integer >= 160000 THEN
            IF NOT pg_has_role(current_user, r, 'SET') OR NOT pg_has_role(current_user, r, 'USAGE') THEN
                EXECUTE format('GRANT %I TO %I WITH SET TRUE, INHERIT TRUE', r, current_user);
            END IF;
        ELSIF NOT pg_has_role(current_user, r, 'MEMBER') THEN
            EXECUTE format('GRANT %I TO %I', r, current_user);
        END IF;
    END LOOP;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE EXCEPTION '% may not make or take the roles that Weft works under; let an administrator run: CREATE ROLE weft_api; CREATE ROLE weft_system; GRANT weft_api, weft_system TO %',
        quote_ident(current_user), quote_ident(current_user) USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE FUNCTION current_workspaces() RETURNS uuid[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT string_to_array(current_setting('weft.workspaces', true), ',')::uuid[]
$$;

-- Every table whose rows are a workspace's.
DO $$
DECLARE
    t text;
BEGIN
    FOR t IN
        SELECT c.oid::regclass::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
          AND a.attname = 'workspace_id' AND NOT a.attisdropped
    LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY of_workspace ON %s TO weft_api USING (workspace_id = ANY ((SELECT current_workspaces())::uuid[]))', t);
        EXECUTE format('CREATE POLICY of_system ON %s TO weft_system USING (true)', t);
        EXECUTE format('CREATE POLICY of_owner ON %s TO %I USING (true)', t, current_user);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO weft_system', t);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE ON %s TO weft_api', t);
    END LOOP;
END
$$;

ALTER TABLE workspaces ENABLE ROW LEVEL SECURITY;
ALTER TABLE workspaces FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON workspaces TO weft_api USING (id = ANY ((SELECT current_workspaces())::uuid[]));
CREATE POLICY of_system ON workspaces TO weft_system USING (true);
DO $$ BEGIN EXECUTE format('CREATE POLICY of_owner ON workspaces TO %I USING (true)', current_user); END $$;

-- Partitions are reached through their parents only: nothing is granted on them.
GRANT SELECT ON workspaces TO weft_api;
GRANT SELECT, INSERT, UPDATE ON workspaces TO weft_system;
GRANT SELECT, INSERT, UPDATE ON users TO weft_system;
GRANT SELECT (id, email, name) ON users TO weft_api; -- who the members are
GRANT SELECT, INSERT, UPDATE, DELETE ON sessions TO weft_system;
GRANT SELECT, INSERT, UPDATE, DELETE ON workers TO weft_system;
GRANT SELECT ON workers TO weft_api;
GRANT SELECT ON schema_migrations TO weft_api, weft_system;

-- Append-only is a matter of rights too.
REVOKE UPDATE, DELETE ON credit_postings, audit_events FROM weft_api, weft_system;
-- Requests make executions and read them; the engine changes them. Callbacks are
-- replayed by requests.
REVOKE UPDATE ON component_executions, callback_attempts FROM weft_api;
REVOKE DELETE ON component_executions, callbacks, callback_attempts, credit_accounts, members, invitations, api_keys FROM weft_system;
GRANT DELETE ON members, open_calls TO weft_api;

-- The queue's tables, whether they are made already or later.
CREATE SCHEMA IF NOT EXISTS river;
GRANT USAGE ON SCHEMA river TO weft_api, weft_system;
ALTER DEFAULT PRIVILEGES IN SCHEMA river GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO weft_system;
ALTER DEFAULT PRIVILEGES IN SCHEMA river GRANT USAGE, SELECT ON SEQUENCES TO weft_system;
ALTER DEFAULT PRIVILEGES IN SCHEMA river GRANT SELECT, INSERT, UPDATE ON TABLES TO weft_api;
ALTER DEFAULT PRIVILEGES IN SCHEMA river GRANT USAGE, SELECT ON SEQUENCES TO weft_api;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA river TO weft_system;
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA river TO weft_system;
GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA river TO weft_api;
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA river TO weft_api;

REVOKE EXECUTE ON FUNCTION make_partitions(timestamptz), drop_partitions(timestamptz, interval), refer_partitions(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION make_partitions(timestamptz), drop_partitions(timestamptz, interval) TO weft_system;
