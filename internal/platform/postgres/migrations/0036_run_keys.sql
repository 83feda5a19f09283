-- expand
-- The root of the key that triggered a run, or the first run above it. Null: a schedule or a
-- hook did, or the run is older than this. A migration of its own, because one that locks
-- two busy tables can deadlock with the engine.
ALTER TABLE workflow_runs ADD COLUMN key_root_id uuid;
