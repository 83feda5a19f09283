package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/cron"
	"github.com/weft-automation/weft/internal/kit/failpoint"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
	"github.com/weft-automation/weft/internal/workflow/run"
)

const (
	// maxConcurrent limits the schedules that advance at the same time. Each advance holds a
	// connection.
	maxConcurrent  = 4
	advanceTimeout = 30 * time.Second
	// retryDelay is the delay after a failure. The cause of a failure usually affects the other
	// schedules of the workspace too.
	retryDelay = 5 * time.Second
)

// Enqueue causes a call of Advance for a schedule that may be due. It returns immediately. Any
// process may call it at any time.
func (s *Service) Enqueue(key notify.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.inFlight[key] {
		return
	}
	s.inFlight[key] = true
	s.running.Go(func() {
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.inFlight, key)
		}()
		if err := s.advanceInSlot(key); err != nil {
			_ = wait.For(s.ctx, retryDelay)
		}
	})
}

// advanceInSlot waits for a slot and calls Advance. It logs errors, except errors that a retry
// usually resolves.
func (s *Service) advanceInSlot(key notify.Key) error {
	if s.slots.Acquire(s.ctx, key.WorkspaceID) != nil {
		return nil // the service closes
	}
	defer s.slots.Release(key.WorkspaceID)
	ctx, cancel := context.WithTimeout(s.ctx, advanceTimeout)
	defer cancel()
	err := s.Advance(ctx, key)
	if err != nil && ctx.Err() == nil && !postgres.Unavailable(err) && fault.CodeOf(err) != fault.Unavailable {
		s.Log.WarnContext(ctx, "failed to advance a schedule; the next sweep retries", "schedule_id", key.ID.String(), "error", err)
	}
	return err
}

// Close accepts no more schedules and returns when all calls of Advance in flight have finished.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.running.Wait()
}

// errChanged means that a different transaction has advanced or changed the schedule.
var errChanged = errors.New("the schedule was changed by another transaction")

// Advance starts the run that is due, if any, or records why the run is skipped. Concurrent calls
// start only one run. If Advance returns an error, the schedule is unchanged.
func (s *Service) Advance(ctx context.Context, key notify.Key) error {
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
		return fmt.Errorf("parse the times of a schedule: %w", err)
	}
	f := stepClaim{key: key, row: row, step: decide(times, state{
		overlap: row.Overlap, next: row.NextAt, waiting: row.Waiting, running: row.Running, now: row.Now,
	})}
	if f.start != nil {
		err := s.run(ctx, f)
		reason, refused := refusal(err)
		if !refused {
			return err
		}
		f.skip(*f.start, reason)
	} else if same(f.next, row.NextAt) && len(f.waiting) == len(row.Waiting) {
		return nil
	}
	return s.Turns.Do(ctx, key.WorkspaceID, func() error { return f.advanceTx(ctx, s.API, nil) })
}

// same reports whether two optional times are equal.
func same(a, b *time.Time) bool { return a == nil && b == nil || a != nil && b != nil && a.Equal(*b) }

// run starts the run for a time of the schedule.
func (s *Service) run(ctx context.Context, f stepClaim) error {
	input, err := s.openInput(ctx, f.key, f.row.SealedInput)
	if err != nil {
		return err
	}
	previous, err := orchestrator.OpenPrevious(ctx, s.Vault, f.key.WorkspaceID, f.key.ID, f.row.SealedPrevious)
	if err != nil {
		return err
	}
	callback, err := s.Runs.OpenCallback(ctx, callbackPlace(f.key), run.StoredCallback{Shown: f.row.Callback, Sealed: f.row.SealedCallback})
	if err != nil {
		return err
	}
	_, err = s.Runs.Trigger(ctx, run.TriggerParams{
		WorkspaceID: f.key.WorkspaceID, WorkflowID: f.row.WorkflowID,
		By: run.Cause{Trigger: trigger, ID: f.key.ID}, Once: f, Deadline: run.Deadline(f.row.DeadlineMs), Callback: callback,
		Scheduled: &run.Scheduled{At: *f.start, Input: input.Input, Hidden: input.Hidden, Previous: previous},
	})
	if errors.Is(err, errChanged) {
		return nil
	}
	return err
}

// refusal reports whether a retry cannot resolve err. If so, refusal also returns the reason.
func refusal(err error) (reason string, refused bool) {
	failure, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return "", false
	}
	switch failure.Code {
	case fault.Conflict, fault.Forbidden: // FORBIDDEN: the workspace is suspended
		return failure.Reason, true
	case fault.InsufficientCredits:
		return "insufficient_credits", true
	case fault.InvalidInput:
		if errors.Is(err, run.ErrInput) {
			return skipInput, true
		}
		return "workflow_invalid", true
	}
	return "", false
}

// stepClaim is the claim of a step's run. The schedule advances in the transaction that accepts
// the run.
type stepClaim struct {
	key notify.Key
	row db.ScheduleGetForRunRow
	step
}

// Find returns no run, because a time that has a run is no longer due.
func (f stepClaim) Find(context.Context, postgres.DB) (uuid.UUID, bool, error) {
	return uuid.Nil, false, nil
}

// ClaimTx locks the schedule. It returns errChanged if the schedule has changed since it was read.
func (f stepClaim) ClaimTx(ctx context.Context, tx pgx.Tx) (uuid.UUID, bool, error) {
	present, err := lockTx(ctx, tx, f.key)
	if errors.Is(err, errNotFound) || err == nil && present.Revision != f.row.Revision {
		err = errChanged
	}
	return uuid.Nil, false, err
}

// KeepTx advances the schedule, which ClaimTx has locked.
func (f stepClaim) KeepTx(ctx context.Context, conn db.DBTX, made uuid.UUID) error {
	failpoint.Reached(failpoint.InSchedule)
	return f.advanceTx(ctx, conn, &made)
}

// advanceTx writes the next state of the schedule, with the ID of the run that was started, if
// any. It writes nothing if the schedule has changed since it was read.
func (f stepClaim) advanceTx(ctx context.Context, conn db.DBTX, made *uuid.UUID) error {
	p := db.ScheduleAdvanceParams{
		WorkspaceID: f.key.WorkspaceID, ID: f.key.ID, Revision: f.row.Revision, NextAt: f.next, Waiting: f.waiting,
		LastRunID: made, LastSkippedAt: f.skipped,
	}
	if made != nil {
		p.LastAt = f.start
	}
	if f.skipped != nil {
		p.LastSkipReason = &f.reason
	}
	if err := db.New().ScheduleAdvance(ctx, conn, p); err != nil {
		return fmt.Errorf("advance schedule: %w", err)
	}
	return nil
}

// SkipDue skips the times of all schedules that are due or queued, for a database that was restored: the
// runs of these times may have started after the backup. It returns the number of schedules.
func SkipDue(ctx context.Context, conn postgres.DB) (skipped int, err error) {
	rows, err := db.New().ScheduleListUnstarted(ctx, conn)
	if err != nil {
		return 0, fmt.Errorf("list due schedules: %w", err)
	}
	for _, row := range rows {
		times, err := cron.Parse(row.Cron, row.TimeZone)
		if err != nil {
			return skipped, fmt.Errorf("parse the times of a schedule: %w", err)
		}
		p := db.ScheduleAdvanceParams{
			WorkspaceID: row.WorkspaceID, ID: row.ID, Revision: row.Revision, NextAt: row.NextAt, Waiting: []time.Time{},
			LastSkipReason: new(skipRestored),
		}
		if n := len(row.Waiting); n > 0 {
			p.LastSkippedAt = &row.Waiting[n-1]
		}
		if row.NextAt != nil && !row.NextAt.After(row.Now) {
			p.LastSkippedAt, p.NextAt = row.NextAt, first(times, row.Now)
		}
		if err := db.New().ScheduleAdvance(ctx, conn, p); err != nil {
			return skipped, fmt.Errorf("skip the times of a schedule: %w", err)
		}
		skipped++
	}
	return skipped, nil
}
