package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/cron"
	"github.com/weft-automation/weft/internal/kit/failpoint"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow/run"
)

const (
	// dueAtOnce bounds what begins beside each other: each holds a connection.
	dueAtOnce = 4
	dueWithin = 30 * time.Second
	// failedWait is when a schedule that was not followed is looked at again: what keeps
	// one of them keeps the others of its workspace too.
	failedWait = 5 * time.Second
)

// Due has a schedule looked at soon: it is time for a run of it, or one that waits may
// begin. It returns at once. Whoever thinks that it is time may tell so, in any process.
func (s *Service) Due(key notify.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.underWay[key] {
		return
	}
	s.underWay[key] = true
	s.running.Go(func() {
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.underWay, key)
		}()
		if err := s.follow(key); err != nil {
			_ = wait.For(s.ctx, failedWait)
		}
	})
}

// follow is Begin when it is its turn. The log hears what it fails with, but for what says
// itself that it passes.
func (s *Service) follow(key notify.Key) error {
	select {
	case s.slots <- struct{}{}:
	case <-s.ctx.Done():
		return nil
	}
	defer func() { <-s.slots }()
	ctx, cancel := context.WithTimeout(s.ctx, dueWithin)
	defer cancel()
	err := s.Begin(ctx, key)
	if err != nil && ctx.Err() == nil && !postgres.Unavailable(err) && fault.CodeOf(err) != fault.Unavailable {
		s.Log.WarnContext(ctx, "a schedule was not followed; it is tried again", "schedule_id", key.ID.String(), "error", err)
	}
	return err
}

// Close returns when nothing is being begun any more, and begins nothing from now on.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.running.Wait()
}

// errMoved says that somebody else has followed or changed the schedule meanwhile.
var errMoved = errors.New("the schedule is at another revision")

// Begin follows a schedule: it begins the run that is due, if there is one, or notes why it
// does not. Beside others it does so once. An error leaves the schedule where it is.
func (s *Service) Begin(ctx context.Context, key notify.Key) error {
	ctx = postgres.Scope(ctx, key.WorkspaceID)
	row, err := db.New().ScheduleGetForRun(ctx, s.API, db.ScheduleGetForRunParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
	if postgres.NotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read schedule: %w", err)
	}
	times, err := cron.Parse(row.Cron, row.TimeZone)
	if err != nil {
		return fmt.Errorf("read the times of a schedule: %w", err)
	}
	f := following{key: key, row: row, step: decide(times, state{
		overlap: row.Overlap, next: row.NextAt, waiting: row.Waiting, running: row.Running, now: row.Now,
	})}
	if f.begin != nil {
		err := s.run(ctx, f)
		reason, refused := refusal(err)
		if !refused {
			return err
		}
		f.skip(*f.begin, reason)
	} else if same(f.next, row.NextAt) && len(f.waiting) == len(row.Waiting) {
		return nil
	}
	if err := f.advanceTx(ctx, s.API, nil); err != nil && !errors.Is(err, errMoved) {
		return err
	}
	return nil
}

// same reports whether two times that may be missing are one.
func same(a, b *time.Time) bool { return a == nil && b == nil || a != nil && b != nil && a.Equal(*b) }

// run begins the run of a time.
func (s *Service) run(ctx context.Context, f following) error {
	input, err := json.Marshal(map[string]timestamp.Time{"scheduledAt": timestamp.Of(*f.begin)})
	if err != nil {
		return fmt.Errorf("write the time of a run: %w", err)
	}
	_, err = s.Runs.Trigger(ctx, run.TriggerParams{
		WorkspaceID: f.key.WorkspaceID, WorkflowID: f.row.WorkflowID,
		By: run.Cause{Trigger: trigger, ID: f.key.ID}, Input: input, Once: f,
	})
	if errors.Is(err, errMoved) {
		return nil
	}
	return err
}

// refusal is why a run does not begin, whoever tries it again. What passes by itself is
// none.
func refusal(err error) (reason string, refused bool) {
	failure, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return "", false
	}
	switch failure.Code {
	case fault.Conflict:
		return failure.Reason, true
	case fault.InsufficientCredits:
		return "insufficient_credits", true
	case fault.InvalidInput:
		return "workflow_invalid", true
	}
	return "", false
}

// following is a schedule that goes on by a step. It is the claim of the step's run: the
// schedule goes on with the run, or neither does.
type following struct {
	key notify.Key
	row db.ScheduleGetForRunRow
	step
}

// Find finds nothing: what was begun is not due any more.
func (f following) Find(context.Context, postgres.DB) (uuid.UUID, bool, error) {
	return uuid.Nil, false, nil
}

// ClaimTx holds the schedule, if it is as it was looked at.
func (f following) ClaimTx(ctx context.Context, tx pgx.Tx) (uuid.UUID, bool, error) {
	present, err := lockTx(ctx, tx, f.key)
	if errors.Is(err, errNone) || err == nil && present.Revision != f.row.Revision {
		err = errMoved
	}
	return uuid.Nil, false, err
}

// KeepTx lets the schedule go on.
func (f following) KeepTx(ctx context.Context, tx pgx.Tx, made uuid.UUID) error {
	failpoint.Reached(failpoint.InSchedule)
	return f.advanceTx(ctx, tx, &made)
}

func (f following) advanceTx(ctx context.Context, conn db.DBTX, made *uuid.UUID) error {
	p := db.ScheduleAdvanceParams{
		WorkspaceID: f.key.WorkspaceID, ID: f.key.ID, Revision: f.row.Revision, NextAt: f.next, Waiting: f.waiting,
		LastRunID: made, LastSkippedAt: f.skipped,
	}
	if made != nil {
		p.LastAt = f.begin
	}
	if f.skipped != nil {
		p.LastSkipReason = &f.reason
	}
	switch n, err := db.New().ScheduleAdvance(ctx, conn, p); {
	case err != nil:
		return fmt.Errorf("advance schedule: %w", err)
	case n == 0:
		return errMoved
	}
	return nil
}
