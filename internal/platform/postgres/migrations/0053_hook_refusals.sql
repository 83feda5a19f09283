-- expand
-- How many rejected deliveries a hook has recorded, at most one per second.
ALTER TABLE hooks ADD COLUMN refusal_count bigint NOT NULL DEFAULT 0;
