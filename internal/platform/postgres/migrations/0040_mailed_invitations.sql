-- expand
-- The SHA-256 of a second token, which is sent to the address only: its holder owns the address.
ALTER TABLE invitations ADD COLUMN mailed_hash bytea CHECK (length(mailed_hash) = 32);
CREATE UNIQUE INDEX invitations_mailed ON invitations (mailed_hash);
