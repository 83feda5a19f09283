-- expand
-- outcome_known_epoch is the epoch in which each attempt of a paused execution so far was answered,
-- apart from one that waits. It says nothing in any other epoch: a process of an earlier version
-- starts attempts without clearing it. It replaces outcome_known, which is not used any more.
ALTER TABLE component_executions ADD COLUMN outcome_known_epoch integer;
