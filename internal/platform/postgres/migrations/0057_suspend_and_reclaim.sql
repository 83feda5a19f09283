-- expand
-- Whether an operator has suspended the workspace: its accepted work continues, and new work is
-- rejected. It is in the account, because the statements that accept work read that row.
ALTER TABLE credit_accounts ADD COLUMN suspended boolean NOT NULL DEFAULT false;

-- A person who proves an address leaves the workspaces that somebody else joined in its name.
GRANT DELETE ON members TO weft_system;
