-- expand
-- What requests may read of people: who is a member of their workspaces or invited
-- somebody there, and who asks (weft.person), who may be a member no longer when the
-- audit log takes the name. Signing in works as weft_system. Older binaries do not
-- say who asks; they miss the name of who takes themselves out of a workspace.
CREATE FUNCTION current_person() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT NULLIF(current_setting('weft.person', true), '')::uuid
$$;
ALTER TABLE users ENABLE ROW LEVEL SECURITY;
ALTER TABLE users FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON users FOR SELECT TO weft_api USING (
    id = (SELECT current_person())
    OR EXISTS (SELECT FROM members m
               WHERE m.user_id = users.id AND m.workspace_id = ANY ((SELECT current_workspaces())::uuid[]))
    OR EXISTS (SELECT FROM invitations i
               WHERE i.invited_by = users.id AND i.workspace_id = ANY ((SELECT current_workspaces())::uuid[])));
CREATE POLICY of_system ON users TO weft_system USING (true);
DO $$ BEGIN EXECUTE format('CREATE POLICY of_owner ON users TO %I USING (true)', current_user); END $$;

-- Of the queue, requests have what they use. That is granted by name once the
-- queue's own migrations have made the table.
ALTER DEFAULT PRIVILEGES IN SCHEMA river REVOKE SELECT, INSERT, UPDATE ON TABLES FROM weft_api;
ALTER DEFAULT PRIVILEGES IN SCHEMA river REVOKE USAGE, SELECT ON SEQUENCES FROM weft_api;
