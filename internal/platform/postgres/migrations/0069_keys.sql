-- Keys of workflows. Earlier binaries must not run next to this: they would insert workflows without a key,
-- and fail components that name a workflow by its key.
ALTER TABLE workflows ADD COLUMN key text;

-- A key from the name, like those of new workflows. The second workflow with the same key gets the suffix -2.
-- If that is the key of another workflow, the ID takes the place of the number.
WITH named AS (
    SELECT workspace_id, id, status = 'ARCHIVED' AS archived,
           substr(trim(BOTH '-' FROM regexp_replace(regexp_replace(
               lower(regexp_replace(normalize(name, NFKD), U&'[\0300-\036F\0483-\0489\1AB0-\1AFF\1DC0-\1DFF\20D0-\20FF\FE20-\FE2F]', '', 'g') COLLATE "C"),
               '[^a-z0-9]+', '-', 'g'), '^[^a-z]+', '')), 1, 63) AS base
    FROM workflows
), based AS (
    SELECT workspace_id, id, archived,
           CASE WHEN base = '' THEN 'workflow-' || left(md5(id::text), 8) ELSE rtrim(base, '-') END AS base,
           base IN ('executions', 'validate') OR base ~ '^([0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$' AS reserved
    FROM named
), numbered AS (
    SELECT *, row_number() OVER (PARTITION BY workspace_id, archived, base ORDER BY id) + reserved::integer AS number FROM based
), suffixed AS (
    SELECT *, CASE WHEN number = 1 THEN base ELSE rtrim(left(base, 62 - length(number::text)), '-') || '-' || number END AS candidate FROM numbered
), counted AS (
    SELECT *, count(*) OVER (PARTITION BY workspace_id, archived, candidate) AS alike FROM suffixed
)
UPDATE workflows w
SET key = CASE WHEN c.number > 1 AND c.alike > 1 THEN rtrim(left(c.base, 30), '-') || '-' || replace(c.id::text, '-', '') ELSE c.candidate END
FROM counted c
WHERE w.workspace_id = c.workspace_id AND w.id = c.id;

ALTER TABLE workflows
    ALTER COLUMN key SET NOT NULL,
    ADD CONSTRAINT workflows_key_check CHECK (key ~ '^[a-z][a-z0-9-]{0,62}$');
CREATE UNIQUE INDEX workflows_key ON workflows (workspace_id, key) WHERE status <> 'ARCHIVED';
