-- expand
-- The place of another branch's migration, which replaces this file when both are merged.
SELECT;
