-- The callback that a schedule or a hook has for its runs: what the API shows of it, and its sealed
-- secrets. Earlier binaries must not run next to this: they would start runs without the callback.
ALTER TABLE schedules ADD COLUMN callback jsonb, ADD COLUMN sealed_callback bytea;
ALTER TABLE hooks ADD COLUMN callback jsonb, ADD COLUMN sealed_callback bytea;
