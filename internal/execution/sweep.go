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
	parkedEvery    = 10 * time.Second // stranded ones that are parked are in no hurry
	renewEvery     = 30 * time.Second // who uses a workspace renews it at once
	unparkEvery    = 2 * time.Second
	countEvery     = 30 * time.Second
	tidyEvery      = time.Hour
	tidyFor        = time.Second // at most, in one sweep
	walkFor        = time.Second // at most, in one round
	parkedBatch    = 1000        // parked executions in one look
	failedWait     = 10 * time.Second
	auditEvery     = time.Hour
	// auditAfter is how long a process leads before its first audit.
	auditAfter = time.Minute

	// strandedAfter is how long a live execution may be without anybody who
	// could bring it on before the reconciler does.
	strandedAfter = 10 * time.Second
)

// Sweeper brings back what lost processes left. One process sweeps at a time.
type Sweeper struct {
	runner   *Runner
	due      map[string]time.Time // when the next round of each kind is
	unparked uuid.UUID            // the workspace that unpark came to last
	walked   notify.Key           // the execution that reconcileParked came to last
	auditing sync.Mutex
}

// NewSweeper makes a sweeper that acts through the runner.
func NewSweeper(r *Runner) *Sweeper {
	return &Sweeper{runner: r, due: map[string]time.Time{audits: r.now().Add(auditAfter)}}
}

const (
	audits = "credit_audit"
	keys   = "idempotency_keys"
)

// Sweep frees the executions of dead workers; every few seconds it also looks
// for executions that nothing would bring on, and does the upkeep that is due.
// Failures are logged: each kind has its next round.
func (s *Sweeper) Sweep(ctx context.Context) {
	if s.runner.identity.deaths.Load() {
		s.round(ctx, "lost_workers", 0, s.sweepDead)
	}
	s.round(ctx, "stranded", reconcileEvery, s.reconcile)
	s.round(ctx, "stranded_parked", parkedEvery, s.reconcileParked)
	s.round(ctx, "parked", unparkEvery, s.unpark)
	s.round(ctx, "credit_periods", renewEvery, s.renew)
	s.round(ctx, "backlog", countEvery, s.backlog)
	s.round(ctx, keys, tidyEvery, s.tidy)
	s.audit(ctx)
}

// audit proves the credits of all workspaces every hour, beside the sweep: it may
// take long.
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
			r.log.ErrorContext(ctx, "THE CREDITS WERE NOT AUDITED AS A WHOLE: weft_credit_audit_age_seconds grows until an audit is complete", "error", err)
		}
		r.Metrics.Audited(len(broken), err == nil)
		for _, drift := range broken[:min(len(broken), 20)] {
			r.log.ErrorContext(ctx, "the credits are wrong", "workspace_id", drift.WorkspaceID.String(), "row", drift.Row, "problem", drift.Problem)
		}
		s.heed(ctx, broken)
	}()
}

// heed stops the billing of the workspaces whose books are wrong, and lets those go
// on whose books are right again.
func (s *Sweeper) heed(ctx context.Context, broken []billing.Drift) {
	r := s.runner
	stopped, err := billing.Stop(ctx, r.DB, broken)
	resumed, failed := billing.Resume(ctx, r.DB, uuid.Nil)
	for _, id := range stopped {
		r.log.ErrorContext(ctx, "THE BILLING OF A WORKSPACE IS STOPPED: what costs something is refused until an audit finds its credits right", "workspace_id", id.String())
	}
	for _, id := range resumed {
		r.log.WarnContext(ctx, "the billing of a workspace goes on", "workspace_id", id.String())
	}
	if err := errors.Join(err, failed); err != nil && ctx.Err() == nil {
		r.log.WarnContext(ctx, "the billing of workspaces was not stopped or resumed", "error", err)
	}
}

// round does one kind of upkeep if it is time, within ten seconds: what is
// behind it in the sweep must not wait. One that failed comes again soon.
func (s *Sweeper) round(ctx context.Context, kind string, every time.Duration, work func(context.Context) (int, error)) {
	if s.runner.now().Before(s.due[kind]) {
		return
	}
	s.due[kind] = s.runner.now().Add(every)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	done, err := work(ctx)
	if err != nil {
		s.due[kind] = s.runner.now().Add(min(every, failedWait))
	}
	s.runner.Metrics.Swept(kind, done, err)
	if err != nil && ctx.Err() == nil {
		s.runner.log.WarnContext(ctx, "upkeep failed", "kind", kind, "error", err)
	}
}

// tidy forgets idempotency keys, and deliveries to hooks, that no longer count, for a while in each sweep
// until none is left.
func (s *Sweeper) tidy(ctx context.Context) (gone int, err error) {
	began := s.runner.now()
	for s.runner.now().Sub(began) < tidyFor {
		n, err := db.New().IdempotencyDeleteExpired(ctx, s.runner.DB)
		gone += int(n)
		if err != nil {
			return gone, err
		}
		deliveries, err := db.New().HookDeliveryDeleteExpired(ctx, s.runner.DB)
		gone += int(deliveries)
		if err != nil || n+deliveries == 0 {
			return gone, err
		}
	}
	s.due[keys] = s.runner.now()
	return gone, nil
}

// renew releases the plan credits of workspaces that nobody uses.
func (s *Sweeper) renew(ctx context.Context) (int, error) {
	return s.runner.Ledger.RenewDue(ctx, s.runner.DB)
}

// backlog shows how much is unfinished.
func (s *Sweeper) backlog(ctx context.Context) (int, error) {
	live, err := db.New().ExecutionCountLive(ctx, s.runner.DB)
	if err != nil {
		return 0, fmt.Errorf("count live executions: %w", err)
	}
	oldest := time.Duration(live.OldestSeconds * float64(time.Second))
	s.runner.Metrics.Backlog("executions", live.Created+live.Executing, oldest)
	return 0, nil
}

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
		r.log.InfoContext(ctx, "executions of lost workers freed", "count", freed, "workers", dead)
	}
	return freed, q.WorkerDelete(ctx, r.DB, dead)
}

// reconcile finds live executions without anything that would bring them on,
// whatever the cause: a worker that nobody knows any more; a job that was
// deleted, discarded, or fetched by a process that died before the start.
func (s *Sweeper) reconcile(ctx context.Context) (brought int, err error) {
	r := s.runner
	forgotten, err := db.New().WorkerListForgotten(ctx, r.DB)
	if err != nil {
		return 0, fmt.Errorf("list forgotten workers: %w", err)
	}
	if len(forgotten) > 0 {
		if brought, err = r.rescueOf(ctx, forgotten, 0, r.rescue); err != nil {
			return brought, err
		}
	}
	rows, err := db.New().ExecutionListStranded(ctx, r.DB, db.ExecutionListStrandedParams{Grace: strandedAfter, MaxRows: rescueBatch})
	if err != nil {
		return brought, fmt.Errorf("list stranded executions: %w", err)
	}
	stranded := make([]requeue, len(rows))
	for i, row := range rows {
		stranded[i] = requeue{key: notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}, epoch: row.Epoch, job: row.JobID}
	}
	n, err := s.bringBack(ctx, stranded)
	return brought + n, err
}

// reconcileParked does the same for what is parked: for a while in each round, and
// the next goes on behind.
func (s *Sweeper) reconcileParked(ctx context.Context) (brought int, err error) {
	began := s.runner.now()
	for s.runner.now().Sub(began) < walkFor {
		page, listed := db.New().ExecutionListParked(ctx, s.runner.DB, db.ExecutionListParkedParams{
			AfterWorkspaceID: s.walked.WorkspaceID, After: s.walked.ID, Grace: strandedAfter, MaxRows: parkedBatch,
		})
		if listed != nil {
			return brought, fmt.Errorf("list parked executions: %w", listed)
		}
		var stranded []requeue
		for _, row := range page {
			s.walked = notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}
			if row.Stranded {
				stranded = append(stranded, requeue{key: s.walked, epoch: row.Epoch, job: row.JobID, parked: true})
			}
		}
		n, failure := s.bringBack(ctx, stranded)
		brought += n
		if failure != nil {
			err = failure
		}
		if len(page) < parkedBatch {
			s.walked = notify.Key{}
			break
		}
	}
	return brought, err
}

// bringBack gives stranded executions new jobs. What fails is logged once and left to
// its next turn.
func (s *Sweeper) bringBack(ctx context.Context, stranded []requeue) (brought int, err error) {
	log := s.runner.log
	ids, err := together(stranded, func(p requeue) (uuid.UUID, error) { return p.key.ID, s.runner.requeue(ctx, p) })
	if err != nil {
		log.WarnContext(ctx, "stranded executions could not be brought back", "count", len(stranded)-len(ids), "error", err)
	}
	if len(ids) > 0 {
		log.WarnContext(ctx, "stranded executions brought back", "count", len(ids), "first", ids[:min(len(ids), 8)])
	}
	return len(ids), err
}
