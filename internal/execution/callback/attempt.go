package callback

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// attempt is the record of one attempt, to be written.
type attempt struct {
	delivery
	outcome
	retryIn time.Duration // delay before the next attempt; negative: no further attempt
	job     time.Duration // delay before the job is due; negative: the worker that holds the job snoozes it
}

// recordPatience is how long recording an attempt is retried while the database is unavailable.
// After that the attempt is repeated: delivery is at least once.
const recordPatience = 10 * time.Second

// record records the attempt. pending reports whether the callback is still to be delivered by
// this job.
func (d *Deliverer) record(ctx context.Context, a attempt) (pending bool, err error) {
	deadline := time.Now().Add(recordPatience)
	var backoff wait.Backoff
	for {
		pending, err = d.records.Do(context.WithoutCancel(ctx), a) // the attempt was made, so record it even if ctx is canceled
		if !postgres.Unavailable(err) || time.Now().After(deadline) {
			break
		}
		if backoff.Wait(ctx) != nil {
			return false, err
		}
	}
	if err != nil {
		return false, fmt.Errorf("record callback attempt: %w", err)
	}
	return pending, nil
}

// flushRecords records attempts with one statement.
func (d *Deliverer) flushRecords(ctx context.Context, items []attempt) ([]bool, error) {
	var p db.CallbackRecordManyParams
	for _, a := range items {
		failure, err := present.CallbackError(failureOf(a.outcome))
		if err != nil {
			return nil, err
		}
		p.WorkspaceIds = append(p.WorkspaceIds, a.WorkspaceID)
		p.ExecutionIds = append(p.ExecutionIds, a.ExecutionID)
		p.JobIds = append(p.JobIds, a.jobID)
		p.StartedAts = append(p.StartedAts, d.Clock.Now().Add(-time.Since(a.started)))
		p.DurationsMs = append(p.DurationsMs, int32(a.took.Milliseconds()))
		p.HTTPStatuses = append(p.HTTPStatuses, int16(a.status))
		p.Errors = append(p.Errors, string(failure))
		p.Delivered = append(p.Delivered, a.delivered())
		p.AgainsUs = append(p.AgainsUs, max(a.retryIn.Microseconds(), -1))
		p.JobsUs = append(p.JobsUs, max(a.job.Microseconds(), -1))
	}
	rows, err := db.New().CallbackRecordMany(ctx, d.DB, p)
	if err != nil {
		return nil, err
	}
	pending := make(map[uuid.UUID]bool, len(rows))
	for _, row := range rows {
		pending[row.ExecutionID] = row.Pending
	}
	answers := make([]bool, len(items))
	for i, a := range items {
		answers[i] = pending[a.ExecutionID]
	}
	return answers, nil
}

func failureOf(out outcome) present.CallbackFailure {
	return present.CallbackFailure{
		Class: out.class, Reason: out.reason, Words: egress.Words(out.reason), Sent: out.sent, Status: out.status,
	}
}

// flushLoads loads deliveries. A result is nil if there is nothing to deliver.
func (d *Deliverer) flushLoads(ctx context.Context, items []Args) ([]*db.CallbackLoadManyRow, error) {
	var p db.CallbackLoadManyParams
	for _, args := range items {
		p.WorkspaceIds = append(p.WorkspaceIds, args.WorkspaceID)
		p.ExecutionIds = append(p.ExecutionIds, args.ExecutionID)
	}
	rows, err := db.New().CallbackLoadMany(ctx, d.DB, p)
	if err != nil {
		return nil, err
	}
	found := make(map[uuid.UUID]*db.CallbackLoadManyRow, len(rows))
	for i := range rows {
		found[rows[i].ExecutionID] = &rows[i]
	}
	answers := make([]*db.CallbackLoadManyRow, len(items))
	for i, args := range items {
		answers[i] = found[args.ExecutionID]
	}
	return answers, nil
}
