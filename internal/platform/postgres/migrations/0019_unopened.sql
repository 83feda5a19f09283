-- expand
-- Since when each worker that had it lacked the master key of its secrets. A
-- binary of before neither notes nor clears it.
ALTER TABLE callbacks ADD COLUMN unopened_since timestamptz;
