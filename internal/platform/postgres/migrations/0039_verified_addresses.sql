-- expand
-- When it was proven that an account belongs to the owner of its address. Older binaries
-- leave it null, which is the safe side.
ALTER TABLE users ADD COLUMN verified_at timestamptz;
-- Members see of each other whether it was.
GRANT SELECT (verified_at) ON users TO weft_api;
-- Invitations are never deleted. So an account whose address accepted none was created by the
-- operator, who vouched for the address. All others keep their workspaces and stay unverified.
UPDATE users SET verified_at = created_at
WHERE NOT EXISTS (SELECT FROM invitations i WHERE i.email = users.email AND i.accepted_at IS NOT NULL);
