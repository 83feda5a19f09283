-- A variable may be an access token, which Weft fetches. Earlier binaries must not run next to this: they
-- would send the placeholder of a token as it stands.
ALTER TABLE environment_variables
    ADD COLUMN kind text NOT NULL DEFAULT 'value' CHECK (kind IN ('value', 'oauth2')),
    ADD COLUMN sealed_token     bytea,       -- the last token that was fetched, with earlier ones; null: none
    ADD COLUMN token_number     bigint NOT NULL DEFAULT 0, -- counts the tokens
    ADD COLUMN token_at         timestamptz, -- when the token was stored
    ADD COLUMN token_refresh_at timestamptz, -- from when on the next one is fetched
    ADD COLUMN token_expires_at timestamptz,
    ADD COLUMN fetch_id         uuid,        -- the fetch that is in progress; null: none
    ADD COLUMN fetching_until   timestamptz, -- after that, another process may fetch
    ADD COLUMN last_fetch_id    uuid,        -- the last fetch that ended
    ADD COLUMN fetch_error      jsonb,       -- why it failed; null: it did not
    ADD COLUMN failed_until     timestamptz; -- until then, its failure counts for those who come later
-- The rotation of the master key reads the tokens in this order.
CREATE INDEX environment_variables_with_token ON environment_variables (id) WHERE sealed_token IS NOT NULL;
