-- expand
-- Headers that a hook outputs although their names suggest a secret.
ALTER TABLE hooks ADD COLUMN headers text[] NOT NULL DEFAULT '{}';
-- The sealed previous secret, which deliveries may still use. Null: the hook has none.
ALTER TABLE hooks ADD COLUMN sealed_previous bytea;
-- The last rejections with {at, reason, count}, newest first.
ALTER TABLE hooks ADD COLUMN refusals jsonb NOT NULL DEFAULT '[]';
-- The rotation of the master key reads the previous secrets in this order.
CREATE INDEX hooks_with_previous ON hooks (id) WHERE sealed_previous IS NOT NULL;
