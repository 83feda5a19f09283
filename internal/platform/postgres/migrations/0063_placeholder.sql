-- expand
-- Placeholder for a migration of another branch.
SELECT 1;
