-- expand
-- A worker whose session with the database is lost takes a new number. survived says that
-- the process lives on, so the loss of the old number is not a crash. lost_worker is the
-- worker whose loss the execution counted last, so that the count can be taken back when
-- the process shows later that it lives.
ALTER TABLE workers ADD COLUMN survived boolean NOT NULL DEFAULT false;
ALTER TABLE component_executions ADD COLUMN lost_worker integer;
