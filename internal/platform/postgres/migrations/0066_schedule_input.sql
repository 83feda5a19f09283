-- expand
-- The schedule and the scheduled time of a run that a schedule started, and of its reruns.
ALTER TABLE workflow_runs ADD COLUMN schedule_id uuid, ADD COLUMN scheduled_at timestamptz;

-- What runs of a schedule get from it. sealed_input is null if an earlier release created the schedule.
-- sealed_previous is the result of an earlier run, and previous_at the scheduled time that later results
-- must reach to replace it.
ALTER TABLE schedules
    ADD COLUMN sealed_input bytea,
    ADD COLUMN sealed_previous bytea,
    ADD COLUMN previous_at timestamptz,
    ADD CHECK ((sealed_previous IS NULL) = (previous_at IS NULL));
