-- expand
-- How many rows the last audit of all credits found wrong.
ALTER TABLE installation ADD COLUMN audit_faults integer NOT NULL DEFAULT 0;
