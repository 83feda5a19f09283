-- name: VariableList :many
-- A page of the variables, newest first.
SELECT id, name, description, secret, kind, sealed, created_at, updated_at FROM environment_variables
WHERE workspace_id = @workspace_id AND id < @before ORDER BY id DESC LIMIT @max_rows;

-- name: VariableListNamed :many
-- The variables with these names. Unknown names are left out.
SELECT id, name, secret, kind, sealed FROM environment_variables
WHERE workspace_id = @workspace_id AND name = ANY (@names::text[]);

-- name: VariableGet :one
SELECT id, name, description, secret, kind, sealed, created_at, updated_at FROM environment_variables
WHERE workspace_id = @workspace_id AND name = @name;

-- name: VariableCount :one
SELECT count(*) FROM environment_variables WHERE workspace_id = @workspace_id;

-- name: VariableInsert :one
INSERT INTO environment_variables (workspace_id, id, name, description, secret, kind, sealed)
VALUES (@workspace_id, @id, @name, @description, @secret, @kind, @sealed)
RETURNING created_at, updated_at;

-- name: VariableUpdate :one
-- Sets a variable. If its value or what its token is fetched with changes, its token has expired, and the
-- outcome of a fetch that is in progress no longer counts. The token is kept, to be hidden.
UPDATE environment_variables SET description = @description, secret = @secret, kind = @kind, sealed = @sealed, updated_at = GREATEST(updated_at, now()),
       sealed_token = CASE WHEN @kind = 'oauth2' THEN sealed_token END,
       token_refresh_at = CASE WHEN @keeps_token::boolean THEN token_refresh_at END,
       token_expires_at = CASE WHEN @keeps_token::boolean THEN token_expires_at END,
       fetch_id = CASE WHEN @keeps_token::boolean THEN fetch_id END,
       fetching_until = CASE WHEN @keeps_token::boolean THEN fetching_until END,
       last_fetch_id = CASE WHEN @keeps_token::boolean THEN last_fetch_id END,
       fetch_error = NULL, failed_until = NULL
WHERE workspace_id = @workspace_id AND id = @id
RETURNING created_at, updated_at;

-- name: VariableKinds :many
-- Those of the names whose variables are tokens.
SELECT name FROM environment_variables WHERE workspace_id = @workspace_id AND name = ANY (@names::text[]) AND kind = 'oauth2';

-- name: VariableDelete :exec
DELETE FROM environment_variables WHERE workspace_id = @workspace_id AND id = @id;

-- name: VariableListSealed :many
-- A page of variables in order of their ids. stale is set if the value is not sealed under the
-- key of the header.
SELECT page.workspace_id, page.id,
       (CASE WHEN substring(page.sealed FROM 1 FOR octet_length(@header::bytea)) <> @header::bytea THEN page.sealed END)::bytea AS stale
FROM (SELECT v.workspace_id, v.id, v.sealed FROM environment_variables v WHERE v.id > @after ORDER BY v.id LIMIT @max_rows) AS page
ORDER BY page.id;

-- name: VariableListHeaders :many
-- The headers of the oldest and newest values, which name the key.
SELECT substring(seen.sealed FROM 1 FOR 66)::bytea AS header
FROM ((SELECT o.sealed FROM environment_variables o ORDER BY o.id LIMIT @each)
      UNION ALL
      (SELECT n.sealed FROM environment_variables n ORDER BY n.id DESC LIMIT @each)) AS seen;

-- name: VariableReseal :execrows
-- Replaces values by their resealed form. It skips rows that are locked or changed.
UPDATE environment_variables v SET sealed = free.fresh
FROM (SELECT l.workspace_id, l.id, i.fresh FROM environment_variables l
      JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@ids::uuid[]) AS id,
                   unnest(@stale::bytea[]) AS stale, unnest(@fresh::bytea[]) AS fresh) AS i
        ON l.workspace_id = i.workspace_id AND l.id = i.id AND l.sealed = i.stale
      FOR UPDATE OF l SKIP LOCKED) AS free
WHERE v.workspace_id = free.workspace_id AND v.id = free.id;

-- name: VariableTokenListSealed :many
-- A page of variables with a token, in order of their ids. stale is set if the token is not sealed
-- under the key of the header.
SELECT page.workspace_id, page.id,
       (CASE WHEN substring(page.sealed_token FROM 1 FOR octet_length(@header::bytea)) <> @header::bytea THEN page.sealed_token END)::bytea AS stale
FROM (SELECT v.workspace_id, v.id, v.sealed_token FROM environment_variables v WHERE v.id > @after AND v.sealed_token IS NOT NULL ORDER BY v.id LIMIT @max_rows) AS page
ORDER BY page.id;

-- name: VariableTokenListHeaders :many
-- The headers of the oldest and newest tokens, which name the key.
SELECT substring(seen.sealed_token FROM 1 FOR 66)::bytea AS header
FROM ((SELECT o.sealed_token FROM environment_variables o WHERE o.sealed_token IS NOT NULL ORDER BY o.id LIMIT @each)
      UNION ALL
      (SELECT n.sealed_token FROM environment_variables n WHERE n.sealed_token IS NOT NULL ORDER BY n.id DESC LIMIT @each)) AS seen;

-- name: VariableTokenReseal :execrows
-- Replaces tokens by their resealed form. It skips rows that are locked or changed.
UPDATE environment_variables v SET sealed_token = free.fresh
FROM (SELECT l.workspace_id, l.id, i.fresh FROM environment_variables l
      JOIN (SELECT unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@ids::uuid[]) AS id,
                   unnest(@stale::bytea[]) AS stale, unnest(@fresh::bytea[]) AS fresh) AS i
        ON l.workspace_id = i.workspace_id AND l.id = i.id AND l.sealed_token = i.stale
      FOR UPDATE OF l SKIP LOCKED) AS free
WHERE v.workspace_id = free.workspace_id AND v.id = free.id;

-- name: TokenGet :one
-- A variable with its token. fresh means that the token need not be fetched yet, alive that it can be
-- used, fetching that a fetch is in progress, and quiet that the last failure still counts.
SELECT id, kind, sealed, sealed_token, token_number, fetch_id, last_fetch_id, fetch_error,
       COALESCE(token_refresh_at > now(), false)::boolean AS fresh, COALESCE(token_expires_at > now(), false)::boolean AS alive,
       COALESCE(fetching_until > now(), false)::boolean AS fetching, COALESCE(failed_until > now(), false)::boolean AS quiet
FROM environment_variables WHERE workspace_id = @workspace_id AND name = @name;

-- name: TokenClaim :execrows
-- Begins a fetch, unless another one is in progress, or has ended or the variable was set since it was read.
UPDATE environment_variables SET fetch_id = @fetch_id::uuid, fetching_until = now() + @patience::interval
WHERE workspace_id = @workspace_id AND id = @id AND kind = 'oauth2' AND sealed = @sealed AND last_fetch_id IS NOT DISTINCT FROM sqlc.narg('last_fetch_id')::uuid
  AND (fetch_id IS NULL OR fetching_until <= now());

-- name: TokenStore :execrows
-- Ends a fetch with a token, unless the variable was set or another fetch began.
UPDATE environment_variables SET sealed_token = @sealed_token::bytea, token_number = token_number + 1, token_at = now(),
       token_refresh_at = now() + @fresh_for::interval, token_expires_at = now() + @alive_for::interval,
       fetch_id = NULL, fetching_until = NULL, last_fetch_id = @fetch_id::uuid, fetch_error = NULL, failed_until = NULL
WHERE workspace_id = @workspace_id AND id = @id AND fetch_id = @fetch_id::uuid;

-- name: TokenFail :execrows
-- Ends a fetch with a failure, unless the variable was set or another fetch began.
UPDATE environment_variables SET fetch_id = NULL, fetching_until = NULL, last_fetch_id = @fetch_id::uuid,
       fetch_error = @fetch_error::jsonb, failed_until = now() + @quiet::interval
WHERE workspace_id = @workspace_id AND id = @id AND fetch_id = @fetch_id::uuid;

-- name: TokenDrop :execrows
-- Lets the token expire that a server refused, unless there is a newer one or it is younger than the age.
UPDATE environment_variables SET token_refresh_at = now(), token_expires_at = now(), failed_until = NULL
WHERE workspace_id = @workspace_id AND name = @name AND token_number = @token_number AND token_at <= now() - @age::interval AND token_expires_at > now();
