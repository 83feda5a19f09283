package callback

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/cursor"
)

const (
	reconcileEvery = 5 * time.Second
	reconcileBatch = 500
	eraseEvery     = time.Hour
	eraseBatch     = 5000

	// Secrets are kept for this long, so that deliveries can be replayed.
	secretsAfterDelivery = 72 * time.Hour
	secretsAfterEnd      = 30 * 24 * time.Hour
)

// reconciler holds the times of the last rounds.
type reconciler struct {
	stranded time.Time
	erased   time.Time
}

// Sweep requeues deliveries without a working job, and erases secrets that no delivery needs any
// more. Call it about once a second from one goroutine of the process that sweeps. It does nothing
// if no round is due.
func (d *Deliverer) Sweep(ctx context.Context) {
	now := time.Now()
	if now.Sub(d.reconciler.stranded) >= reconcileEvery {
		d.reconciler.stranded = now
		if err := d.reconcile(ctx, d.maxDuration()); err != nil && ctx.Err() == nil {
			d.Log.WarnContext(ctx, "could not reconcile callbacks", "error", err)
		}
	}
	if now.Sub(d.reconciler.erased) >= eraseEvery {
		d.reconciler.erased = now
		if err := d.erase(ctx, d.Clock.Now()); err != nil && ctx.Err() == nil {
			d.Log.WarnContext(ctx, "could not erase callback secrets", "error", err)
		}
	}
}

// reconcile requeues stranded callbacks. grace is how long a process may hold a job.
func (d *Deliverer) reconcile(ctx context.Context, grace time.Duration) error {
	rows, err := db.New().CallbackListStranded(ctx, d.DB, db.CallbackListStrandedParams{Grace: grace, MaxRows: reconcileBatch})
	if err != nil {
		return fmt.Errorf("list stranded callbacks: %w", err)
	}
	if len(rows) == 0 {
		return nil
	}
	if err := d.requeue(ctx, rows); err != nil {
		return err
	}
	d.Log.WarnContext(ctx, "requeued stranded callbacks", "count", len(rows))
	return nil
}

// requeue binds callbacks to new jobs in one transaction. Each job becomes due when the next
// attempt is due.
func (d *Deliverer) requeue(ctx context.Context, rows []db.CallbackListStrandedRow) error {
	var p db.CallbackRequeueManyParams
	jobs := make([]river.InsertManyParams, len(rows))
	for i, row := range rows {
		var due time.Time
		if row.DueAt != nil {
			due = *row.DueAt
		}
		jobs[i] = job(Args{WorkspaceID: row.WorkspaceID, ExecutionID: row.ExecutionID}, due)
		p.WorkspaceIds, p.ExecutionIds = append(p.WorkspaceIds, row.WorkspaceID), append(p.ExecutionIds, row.ExecutionID)
		p.OldJobIds = append(p.OldJobIds, *row.JobID)
	}
	err := pgx.BeginFunc(ctx, d.DB, func(tx pgx.Tx) (err error) {
		if p.NewJobIds, err = insertTx(ctx, tx, d.Jobs, jobs); err != nil {
			return err
		}
		bound, err := db.New().CallbackRequeueMany(ctx, tx, p)
		if err != nil {
			return err
		}
		unneeded := slices.Clone(p.NewJobIds) // the old job, or the new one if the callback changed meanwhile
		for i, fresh := range p.NewJobIds {
			if slices.Contains(bound, fresh) {
				unneeded[i] = p.OldJobIds[i]
			}
		}
		return db.New().RiverJobDeleteMany(ctx, tx, unneeded)
	})
	if err != nil {
		return fmt.Errorf("requeue callbacks: %w", err)
	}
	return nil
}

// erase erases the secrets that have expired.
func (d *Deliverer) erase(ctx context.Context, now time.Time) error {
	for {
		n, err := db.New().CallbackEraseSecrets(ctx, d.DB, db.CallbackEraseSecretsParams{
			Recent: cursor.LeastID(now.Add(-secretsAfterDelivery)), Old: cursor.LeastID(now.Add(-secretsAfterEnd)),
			AfterDelivery: secretsAfterDelivery, MaxRows: eraseBatch,
		})
		if err != nil {
			return fmt.Errorf("erase callback secrets: %w", err)
		}
		if n < eraseBatch {
			return nil
		}
	}
}
