-- expand
-- Locks the accounts that a commit of several workspaces changes, in order of their ids. It waits
-- only briefly, so that a workspace whose account is held by a long transaction doesn't delay the
-- others. If accounts are still held, it raises WF004 with their ids as the detail.
CREATE FUNCTION lock_accounts(ids uuid[]) RETURNS void LANGUAGE plpgsql SET lock_timeout = '100ms' AS $$
DECLARE
    held text;
BEGIN
    LOOP
        BEGIN
            PERFORM FROM credit_accounts a WHERE a.workspace_id = ANY (ids) ORDER BY a.workspace_id FOR NO KEY UPDATE;
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            -- which of them are held is read below
        END;
        WITH free AS (
            SELECT a.workspace_id FROM credit_accounts a WHERE a.workspace_id = ANY (ids) FOR NO KEY UPDATE SKIP LOCKED
        )
        SELECT string_agg(a.workspace_id::text, ',') INTO held
        FROM credit_accounts a WHERE a.workspace_id = ANY (ids) AND a.workspace_id NOT IN (SELECT f.workspace_id FROM free f);
        IF held IS NOT NULL THEN
            RAISE EXCEPTION 'other transactions hold accounts' USING ERRCODE = 'WF004', DETAIL = held;
        END IF;
    END LOOP;
END
$$;
