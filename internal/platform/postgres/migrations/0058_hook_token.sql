-- expand
-- The sealed token with which a sender verifies the address of a hook. Null: the hook has none.
ALTER TABLE hooks ADD COLUMN sealed_token bytea;
-- The rotation of the master key reads the tokens in this order.
CREATE INDEX hooks_with_token ON hooks (id) WHERE sealed_token IS NOT NULL;
