-- When the next item of each FOR_EACH with perSecond may start, by component. Earlier binaries must not
-- run next to this: they would start items faster.
ALTER TABLE workflow_runs ADD COLUMN paces json;
