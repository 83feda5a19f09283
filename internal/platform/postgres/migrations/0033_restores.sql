-- expand
-- How often a restore made the record of a callback be computed again before it was frozen.
-- Receivers may know the execution with another body, so each restore changes webhook-id.
ALTER TABLE callbacks ADD COLUMN restores integer NOT NULL DEFAULT 0;
