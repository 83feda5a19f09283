package execution

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/platform/notify"
)

const (
	reconcileEvery = 5 * time.Second
	parkedEvery    = 10 * time.Second // parked executions are not urgent
	renewEvery     = 30 * time.Second // only for unused workspaces: every use renews immediately
	unparkEvery    = 5 * time.Second
	countEvery     = 30 * time.Second
	tidyEvery      = time.Hour
	tidyFor        = time.Second // time limit per sweep
	walkFor        = time.Second // time limit per round
	parkedBatch    = 1000        // parked executions per page
	failedWait     = 10 * time.Second
	auditEvery     = time.Hour
	// auditAfter is how long a process sweeps before its first audit.
	auditAfter = time.Minute

	// strandedAfter is how long a live execution may have neither a worker nor a job before the
	// reconciler requeues it.
	strandedAfter = 10 * time.Second
)

// Sweeper recovers the executions of lost processes and does periodic upkeep. One process sweeps
// at a time.
type Sweeper struct {
	runner       *Runner
	due          map[string]time.Time // when the next round of each kind is due
	unparkCursor uuid.UUID            // the last workspace that unpark visited
	parkedCursor notify.Key           // the last execution that reconcileParked visited
	auditing     sync.Mutex
}

// NewSweeper returns a Sweeper that changes executions through r.
func NewSweeper(r *Runner) *Sweeper {
	return &Sweeper{runner: r, due: map[string]time.Time{audits: r.now().Add(auditAfter)}}
}

const (
	audits = "credit_audit"
	keys   = "idempotency_keys"
)

// Sweep frees the executions of dead workers. Every few seconds it also requeues executions that
// have neither a worker nor a job, and does the upkeep that is due. Failures are logged and left
// to the next round.
func (s *Sweeper) Sweep(ctx context.Context) {
	if s.runner.identity.deaths.Load() {
		s.round(ctx, "lost_workers", 0, s.sweepDead)
	}
	s.round(ctx, "overdue", 0, s.runner.endOverdue)
	s.round(ctx, "stranded", reconcileEvery, s.reconcile)
	s.round(ctx, "stranded_parked", parkedEvery, s.reconcileParked)
	s.round(ctx, "final_jobs", reconcileEvery, s.deleteFinalJobs)
	s.round(ctx, "parked", unparkEvery, s.unpark)
	s.round(ctx, "credit_periods", renewEvery, func(ctx context.Context) (int, error) { return billing.Books{}.RenewDue(ctx, s.runner.DB) })
	s.round(ctx, "backlog", countEvery, s.backlog)
	s.round(ctx, keys, tidyEvery, s.tidy)
	s.audit(ctx)
}

// audit checks the credits of all workspaces every hour. It runs in the background, because it
// may take long.
func (s *Sweeper) audit(ctx context.Context) {
	if s.runner.now().Before(s.due[audits]) || !s.auditing.TryLock() {
		return
	}
	s.due[audits] = s.runner.now().Add(auditEvery)
	go func() {
		defer s.auditing.Unlock()
		r := s.runner
		broken, _, err := billing.AuditRecent(ctx, r.DB)
		r.Metrics.Swept(audits, 0, err)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			r.log.ErrorContext(ctx, "THE CREDIT AUDIT IS INCOMPLETE: weft_credit_audit_age_seconds grows until an audit completes", "error", err)
		}
		r.Metrics.Audited(len(broken), err == nil)
		for _, drift := range broken[:min(len(broken), 20)] {
			r.log.ErrorContext(ctx, "the credit audit found a mismatch", "workspace_id", drift.WorkspaceID.String(), "row", drift.Row, "problem", drift.Problem)
		}
		s.stopBilling(ctx, broken)
	}()
}

// stopBilling stops the billing of workspaces whose credits do not balance. It resumes the billing
// of stopped workspaces whose credits balance again.
func (s *Sweeper) stopBilling(ctx context.Context, broken []billing.Drift) {
	r := s.runner
	stopped, err := billing.Stop(ctx, r.DB, broken)
	resumed, failed := billing.Resume(ctx, r.DB, uuid.Nil)
	for _, id := range stopped {
		r.log.ErrorContext(ctx, "THE BILLING OF A WORKSPACE IS STOPPED: it can't start anything that costs credits until an audit finds its credits correct", "workspace_id", id.String())
	}
	for _, id := range resumed {
		r.log.WarnContext(ctx, "the billing of a workspace is resumed", "workspace_id", id.String())
	}
	if err := errors.Join(err, failed); err != nil && ctx.Err() == nil {
		r.log.WarnContext(ctx, "could not stop or resume the billing of workspaces", "error", err)
	}
}

// round does one kind of upkeep if it is due. It stops after ten seconds, because the rest of the
// sweep must not wait. After a failure, the next round comes sooner.
func (s *Sweeper) round(ctx context.Context, kind string, every time.Duration, upkeep func(context.Context) (int, error)) {
	if s.runner.now().Before(s.due[kind]) {
		return
	}
	s.due[kind] = s.runner.now().Add(every)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	done, err := upkeep(ctx)
	if err != nil {
		s.due[kind] = s.runner.now().Add(min(every, failedWait))
	}
	s.runner.Metrics.Swept(kind, done, err)
	if err != nil && ctx.Err() == nil {
		s.runner.log.WarnContext(ctx, "upkeep failed", "kind", kind, "error", err)
	}
}

// tidy deletes expired idempotency keys and hook deliveries, for up to tidyFor per sweep.
func (s *Sweeper) tidy(ctx context.Context) (deleted int, err error) {
	start := s.runner.now()
	for s.runner.now().Sub(start) < tidyFor {
		n, err := db.New().IdempotencyDeleteExpired(ctx, s.runner.DB)
		deleted += int(n)
		if err != nil {
			return deleted, err
		}
		deliveries, err := db.New().HookDeliveryDeleteExpired(ctx, s.runner.DB)
		deleted += int(deliveries)
		if err != nil || n+deliveries == 0 {
			return deleted, err
		}
	}
	s.due[keys] = s.runner.now()
	return deleted, nil
}

// backlog updates the metric of unfinished executions.
func (s *Sweeper) backlog(ctx context.Context) (int, error) {
	live, err := db.New().ExecutionCountLive(ctx, s.runner.DB)
	if err != nil {
		return 0, fmt.Errorf("count live executions: %w", err)
	}
	oldest := time.Duration(live.OldestSeconds * float64(time.Second))
	s.runner.Metrics.Backlog("executions", live.Created+live.Executing, oldest)
	return 0, nil
}

// sweepDead frees the executions of dead workers and deletes the workers.
func (s *Sweeper) sweepDead(ctx context.Context) (freed int, err error) {
	r, q := s.runner, db.New()
	dead, err := q.WorkerListDead(ctx, r.DB, workerLockClass)
	if err != nil || len(dead) == 0 {
		return 0, err
	}
	if freed, err = r.rescueOf(ctx, dead, 0, r.rescue); err != nil {
		return freed, err
	}
	if freed > 0 {
		r.log.InfoContext(ctx, "freed executions of lost workers", "count", freed, "workers", dead)
	}
	return freed, q.WorkerDelete(ctx, r.DB, dead)
}

// reconcile requeues live executions that would otherwise never continue. Either their worker is
// no longer registered, or their job was deleted, discarded, or fetched by a process that died
// before the start.
func (s *Sweeper) reconcile(ctx context.Context) (requeued int, err error) {
	r := s.runner
	unregistered, err := db.New().WorkerListUnregistered(ctx, r.DB)
	if err != nil {
		return 0, fmt.Errorf("list unregistered workers: %w", err)
	}
	if len(unregistered) > 0 {
		if requeued, err = r.rescueOf(ctx, unregistered, 0, r.rescue); err != nil {
			return requeued, err
		}
	}
	rows, err := db.New().ExecutionListStranded(ctx, r.DB, db.ExecutionListStrandedParams{Grace: strandedAfter, MaxRows: rescueBatch})
	if err != nil {
		return requeued, fmt.Errorf("list stranded executions: %w", err)
	}
	stranded := make([]requeue, len(rows))
	for i, row := range rows {
		stranded[i] = requeue{key: notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}, epoch: row.Epoch, job: row.JobID}
	}
	n, err := s.requeueStranded(ctx, stranded)
	return requeued + n, err
}

// reconcileParked requeues parked executions without a job. It works for up to walkFor per round.
// The next round continues after the last execution that it visited.
func (s *Sweeper) reconcileParked(ctx context.Context) (requeued int, err error) {
	start := s.runner.now()
	for s.runner.now().Sub(start) < walkFor {
		page, listed := db.New().ExecutionListParked(ctx, s.runner.DB, db.ExecutionListParkedParams{
			AfterWorkspaceID: s.parkedCursor.WorkspaceID, After: s.parkedCursor.ID, Grace: strandedAfter, MaxRows: parkedBatch,
		})
		if listed != nil {
			return requeued, fmt.Errorf("list parked executions: %w", listed)
		}
		var stranded []requeue
		for _, row := range page {
			s.parkedCursor = notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}
			if row.Stranded {
				stranded = append(stranded, requeue{key: s.parkedCursor, epoch: row.Epoch, job: row.JobID, parked: true})
			}
		}
		n, failure := s.requeueStranded(ctx, stranded)
		requeued += n
		if failure != nil {
			err = failure
		}
		if len(page) < parkedBatch {
			s.parkedCursor = notify.Key{}
			break
		}
	}
	return requeued, err
}

// deleteFinalJobs deletes jobs of final executions and runs that a dead process had fetched.
func (s *Sweeper) deleteFinalJobs(ctx context.Context) (int, error) {
	n, err := db.New().RiverJobDeleteFinal(ctx, s.runner.DB, db.RiverJobDeleteFinalParams{Queue: Queue, Grace: strandedAfter, MaxRows: rescueBatch})
	if err != nil {
		return 0, fmt.Errorf("delete the jobs of final executions and runs: %w", err)
	}
	return int(n), nil
}

// requeueStranded binds stranded executions to new jobs. Failures are logged once and left to the
// next round.
func (s *Sweeper) requeueStranded(ctx context.Context, stranded []requeue) (requeued int, err error) {
	log := s.runner.log
	ids, err := concurrently(stranded, func(p requeue) (uuid.UUID, error) { return p.key.ID, s.runner.requeue(ctx, p) })
	if err != nil {
		log.WarnContext(ctx, "could not requeue stranded executions", "count", len(stranded)-len(ids), "error", err)
	}
	if len(ids) > 0 {
		log.WarnContext(ctx, "requeued stranded executions", "count", len(ids), "first", ids[:min(len(ids), 8)])
	}
	return len(ids), err
}
