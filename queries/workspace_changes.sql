-- name: WorkspaceListChanges :many
-- The status of the named runs and executions of a workspace, and of those that are newer than the
-- ID after. Stages of runs are left out. Of the newer ones, at most max_rows runs and max_rows
-- executions are read. The last of these has truncated set, and the kind stage if it is one.
SELECT 'run'::text AS kind, r.id, r.status, r.updated_at, false::boolean AS truncated
FROM workflow_runs r WHERE r.workspace_id = @workspace_id AND r.id = ANY (@ids::uuid[])
UNION ALL
SELECT 'execution'::text, e.id, e.status, e.updated_at, false::boolean
FROM component_executions e WHERE e.workspace_id = @workspace_id AND e.id = ANY (@ids::uuid[]) AND e.run_id IS NULL
UNION ALL
SELECT 'run'::text, n.id, n.status, n.updated_at, (n.place = @max_rows::bigint)::boolean
FROM (SELECT r.id, r.status, r.updated_at, row_number() OVER (ORDER BY r.id DESC) AS place
      FROM workflow_runs r WHERE r.workspace_id = @workspace_id AND r.id > @after ORDER BY r.id DESC LIMIT @max_rows::bigint) AS n
UNION ALL
SELECT CASE WHEN n.run_id IS NULL THEN 'execution' ELSE 'stage' END::text, n.id, n.status, n.updated_at, (n.place = @max_rows::bigint)::boolean
FROM (SELECT e.id, e.run_id, e.status, e.updated_at, row_number() OVER (ORDER BY e.id DESC) AS place
      FROM component_executions e WHERE e.workspace_id = @workspace_id AND e.id > @after ORDER BY e.id DESC LIMIT @max_rows::bigint) AS n
WHERE n.run_id IS NULL OR n.place = @max_rows::bigint;
