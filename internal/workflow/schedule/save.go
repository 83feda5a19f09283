package schedule

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/logic"
	"github.com/weft-automation/weft/internal/kit/cron"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/platform/idempotency"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow/run"
)

const (
	// Rate limits do not count the runs of schedules. The following limits bound the runs per
	// minute.
	maxSchedules   = 500 // per workspace
	maxPerWorkflow = 50

	active = string(api.TriggerStatusACTIVE)
	queue  = string(api.OverlapQueue)
	allow  = string(api.OverlapAllow)
)

// Draft is the content of a save. Empty fields get their defaults.
type Draft struct {
	Name, Cron, TimeZone, Overlap, Status string

	Input      json.RawMessage // of the runs; null: none; empty: that of the replaced schedule
	DeadlineMs json.RawMessage // of the runs; null: that of the workflow; empty: that of the replaced schedule
	Callback   run.CallbackChange
	Previous   json.RawMessage // see api.SchedulePrevious; null: none; empty: that of the replaced schedule
}

// CreateParams are the parameters of Create.
type CreateParams struct {
	WorkspaceID, WorkflowID uuid.UUID
	Draft                   Draft
	Idempotency             *idempotency.Key // nil: each request creates a schedule
}

// Create stores a schedule, or returns the schedule that an earlier request with the same
// Idempotency-Key created. It returns NOT_FOUND for an unknown workflow, INVALID_INPUT for an
// invalid cron expression, time zone or input, and CONFLICT for a workflow that is archived, has only
// other triggers, or has too many schedules.
func (s *Service) Create(ctx context.Context, p CreateParams) (made api.Schedule, replayed bool, err error) {
	id, err := uuid7.New()
	if err != nil {
		return made, false, fmt.Errorf("make schedule id: %w", err)
	}
	key := notify.Key{WorkspaceID: p.WorkspaceID}
	err = s.Turns.Begin(ctx, key.WorkspaceID, s.API, func(tx pgx.Tx) (err error) {
		key.ID, replayed, err = p.Idempotency.OnceTx(ctx, tx, id, func() error { return s.createTx(ctx, tx, id, p) })
		if err != nil {
			return err
		}
		if made, err = s.read(ctx, tx, key); err != nil || replayed {
			return err
		}
		return recordAudit(ctx, tx, p.WorkspaceID, made, "created")
	})
	err = postgres.Resolve(ctx, s.API, err, func(ctx context.Context) error {
		_, err := s.read(ctx, s.API, key)
		return err
	})
	return made, replayed, err
}

func (s *Service) createTx(ctx context.Context, tx pgx.Tx, id uuid.UUID, p CreateParams) error {
	if err := db.New().LockName(ctx, tx, "schedules "+p.WorkspaceID.String()); err != nil {
		return fmt.Errorf("lock schedules: %w", err)
	}
	d := p.Draft
	if d.Cron != "" { // an invalid expression is reported whatever the workflow
		if _, err := d.check(); err != nil {
			return err
		}
	}
	entry, err := s.Runs.Entry(ctx, tx, p.WorkspaceID, p.WorkflowID, trigger)
	if err != nil {
		return err
	}
	if d.Cron == "" {
		if err := d.useConfig(entry.Config); err != nil {
			return err
		}
	}
	times, err := d.check()
	if err != nil {
		return err
	}
	counts, err := db.New().ScheduleCount(ctx, tx, db.ScheduleCountParams{WorkspaceID: p.WorkspaceID, WorkflowID: p.WorkflowID})
	if err != nil {
		return fmt.Errorf("count schedules: %w", err)
	}
	if counts.OfWorkflow >= maxPerWorkflow || counts.OfWorkspace >= maxSchedules {
		return &fault.Error{
			Code: fault.Conflict, Reason: "too_many_schedules",
			Message: fmt.Sprintf("A workflow can have at most %d schedules, and a workspace %d. Delete one first.", maxPerWorkflow, maxSchedules),
		}
	}
	row := db.ScheduleInsertParams{
		WorkspaceID: p.WorkspaceID, ID: id, WorkflowID: p.WorkflowID, Name: d.Name, Cron: d.Cron, TimeZone: d.TimeZone, Overlap: d.Overlap,
		Status: cmp.Or(d.Status, active), DeadlineMs: run.DeadlineMs(d.DeadlineMs, nil),
	}
	if row.Status == active {
		row.NextAt = first(times, counts.Now)
	}
	input := d.Input
	if input == nil {
		input = jsonNull
	}
	if row.SealedInput, err = s.sealInput(ctx, tx, notify.Key{WorkspaceID: p.WorkspaceID, ID: id}, p.WorkflowID, input, nil); err != nil {
		return err
	}
	kept, err := s.Runs.ChangeCallback(ctx, callbackPlace(notify.Key{WorkspaceID: p.WorkspaceID, ID: id}), d.Callback, run.StoredCallback{})
	if err != nil {
		return err
	}
	row.Callback, row.SealedCallback = kept.Shown, kept.Sealed
	if err := db.New().ScheduleInsert(ctx, tx, row); err != nil {
		return fmt.Errorf("insert schedule: %w", err)
	}
	return nil
}

// useConfig copies the cron expression and the time zone from the config of the workflow's
// ON_SCHEDULE.
func (d *Draft) useConfig(config json.RawMessage) error {
	var c struct{ Cron, TimeZone string }
	if len(config) > 0 {
		if err := json.Unmarshal(config, &c); err != nil {
			return fmt.Errorf("decode the config of an ON_SCHEDULE: %w", err)
		}
	}
	switch {
	case c.Cron == "":
		return fault.InvalidAt("/cron", "is required, because the workflow has no ON_SCHEDULE with a default")
	case envref.In(c.Cron) || envref.In(c.TimeZone):
		return fault.InvalidAt("/cron", "is required, because the default in ON_SCHEDULE is an environment variable, which only runs can use")
	}
	d.Cron, d.TimeZone = c.Cron, cmp.Or(d.TimeZone, c.TimeZone)
	return nil
}

// check fills in the defaults and parses the cron expression and the time zone. It returns
// INVALID_INPUT if they are invalid.
func (d *Draft) check() (*cron.Schedule, error) {
	d.TimeZone, d.Overlap = cmp.Or(d.TimeZone, "UTC"), cmp.Or(d.Overlap, string(api.OverlapSkip))
	raw, err := json.Marshal(map[string]string{"cron": d.Cron, "timeZone": d.TimeZone})
	if err != nil {
		return nil, fmt.Errorf("encode a schedule: %w", err)
	}
	for _, problem := range logic.CheckConfig(component.OnSchedule, raw) {
		return nil, fault.InvalidAt(problem.Pointer, "%s", problem.Message)
	}
	if envref.In(d.Cron) || envref.In(d.TimeZone) {
		return nil, fault.InvalidAt("/cron", "must not contain an environment variable, which only runs can use")
	}
	return cron.Parse(d.Cron, d.TimeZone)
}

// first returns the first time of the schedule later than after, or nil if the schedule has no
// more times.
func first(times *cron.Schedule, after time.Time) *time.Time {
	if at := times.Next(after); !at.IsZero() {
		return &at
	}
	return nil
}

// Replace replaces the content of a schedule. It returns NOT_FOUND, and INVALID_INPUT for an
// invalid cron expression, time zone or input.
func (s *Service) Replace(ctx context.Context, key notify.Key, d Draft) (replaced api.Schedule, err error) {
	times, err := d.check()
	if err != nil {
		if _, missing := s.read(ctx, s.API, key); missing != nil {
			return replaced, missing
		}
		return replaced, err
	}
	err = s.Turns.Begin(ctx, key.WorkspaceID, s.API, func(tx pgx.Tx) (err error) {
		if err := s.replaceTx(ctx, tx, key, d, times); err != nil {
			return err
		}
		if replaced, err = s.read(ctx, tx, key); err != nil {
			return err
		}
		return recordAudit(ctx, tx, key.WorkspaceID, replaced, "updated")
	})
	return replaced, err
}

func (s *Service) replaceTx(ctx context.Context, tx pgx.Tx, key notify.Key, d Draft, times *cron.Schedule) error {
	present, err := lockTx(ctx, tx, key)
	if err != nil {
		return err
	}
	row := db.ScheduleUpdateParams{
		WorkspaceID: key.WorkspaceID, ID: key.ID, Name: d.Name, Cron: d.Cron, TimeZone: d.TimeZone, Overlap: d.Overlap,
		Status: cmp.Or(d.Status, present.Status), Waiting: []time.Time{}, SealedPrevious: present.SealedPrevious, PreviousAt: present.PreviousAt,
		DeadlineMs: run.DeadlineMs(d.DeadlineMs, present.DeadlineMs),
	}
	if row.SealedInput, err = s.sealInput(ctx, tx, key, present.WorkflowID, d.Input, present.SealedInput); err != nil {
		return err
	}
	kept, err := s.Runs.ChangeCallback(ctx, callbackPlace(key), d.Callback, run.StoredCallback{Shown: present.Callback, Sealed: present.SealedCallback})
	if err != nil {
		return err
	}
	row.Callback, row.SealedCallback = kept.Shown, kept.Sealed
	if err := s.setPrevious(ctx, key, &row, present.Now, d.Previous); err != nil {
		return err
	}
	if row.Status == active {
		row.NextAt = first(times, present.Now)
		if present.Status == active && present.Cron == d.Cron && present.TimeZone == d.TimeZone {
			row.NextAt = present.NextAt // the schedule may be due already
		}
		if d.Overlap == queue {
			row.Waiting = present.Waiting
		}
	}
	if err := db.New().ScheduleUpdate(ctx, tx, row); err != nil {
		return fmt.Errorf("update schedule: %w", err)
	}
	return nil
}

// Delete deletes a schedule and returns its last state. It returns NOT_FOUND if the schedule does
// not exist.
func (s *Service) Delete(ctx context.Context, key notify.Key) (deleted api.Schedule, err error) {
	err = s.Turns.Begin(ctx, key.WorkspaceID, s.API, func(tx pgx.Tx) (err error) {
		if _, err := lockTx(ctx, tx, key); err != nil {
			return err
		}
		if deleted, err = s.read(ctx, tx, key); err != nil {
			return err
		}
		if err := db.New().ScheduleDelete(ctx, tx, db.ScheduleDeleteParams{WorkspaceID: key.WorkspaceID, ID: key.ID}); err != nil {
			return fmt.Errorf("delete schedule: %w", err)
		}
		return recordAudit(ctx, tx, key.WorkspaceID, deleted, "deleted")
	})
	return deleted, err
}

// lockTx locks a schedule until tx ends. It returns NOT_FOUND if the schedule does not exist.
func lockTx(ctx context.Context, tx pgx.Tx, key notify.Key) (db.ScheduleLockRow, error) {
	present, err := db.New().ScheduleLock(ctx, tx, db.ScheduleLockParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
	if postgres.NotFound(err) {
		return present, errNotFound
	}
	if err != nil {
		return present, fmt.Errorf("lock schedule: %w", err)
	}
	return present, nil
}
