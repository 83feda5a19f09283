package execution

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

const (
	// knownFor is how long a process relies on the number of slots that it last counted, and on a
	// workspace's counts that it last read.
	knownFor = 2 * time.Second
	// presumedSlots is the number of slots that is assumed until the first worker has registered.
	presumedSlots = 100
)

// shareOf returns how many executions one workspace may have executing or ready: nine tenths of
// all slots, so that other workspaces find a free slot however many executions this workspace
// submits. Further executions are parked.
func shareOf(slots int) int {
	if slots == 0 {
		slots = presumedSlots
	}
	return max(1, slots-max(1, slots/10))
}

// fairShare caches the number of slots, and which workspaces have parked executions. The cache may
// be stale. If that admits too many executions, these finish and are not replaced.
type fairShare struct {
	mu        sync.Mutex
	size      int
	countedAt time.Time
	parked    map[uuid.UUID]struct{} // workspaces that had parked executions when last seen
}

// limit returns how many executions one workspace may have executing or ready.
func (w *fairShare) limit(ctx context.Context, conn postgres.DB) (int, error) {
	w.mu.Lock()
	size, fresh := w.size, time.Since(w.countedAt) < knownFor
	w.mu.Unlock()
	if fresh {
		return size, nil
	}
	slots, err := db.New().WorkerSumSlots(ctx, conn)
	if err != nil {
		return 0, fmt.Errorf("count the workers' slots: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.size, w.countedAt = shareOf(int(slots)), time.Now()
	return w.size, nil
}

// setParked records which workspaces have parked executions, and returns them.
func (w *fairShare) setParked(loads map[uuid.UUID]billing.Load) (parked []uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.parked == nil {
		w.parked = map[uuid.UUID]struct{}{}
	}
	for id, load := range loads {
		delete(w.parked, id)
		if load.Parked > 0 {
			w.parked[id] = struct{}{}
			parked = append(parked, id)
		}
	}
	return parked
}

// anyParked reports whether one of the charged workspaces had parked executions when last seen.
func (w *fairShare) anyParked(charges []billing.Charge) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(charges, func(c billing.Charge) bool {
		_, parked := w.parked[c.WorkspaceID]
		return parked
	})
}

// chargeTx settles the charges with the commit, so that the accounts are locked only during the
// commit. If a workspace had parked executions when last checked, chargeTx settles the charges
// before the commit, and releases some of these executions.
func (r *Runner) chargeTx(ctx context.Context, tx *postgres.Tx, charges []billing.Charge, shared bool, made *followUp) (err error) {
	release := r.share.anyParked(charges)
	batch := tx.AtCommit()
	if release {
		batch = &postgres.Batch{}
	}
	if shared {
		billing.QueueLockShared(ctx, batch, ownersOf(charges, func(c billing.Charge) uuid.UUID { return c.WorkspaceID }))
	}
	settled := billing.Books{}.QueueSettle(batch, charges)
	if !release {
		made.settled = settled
		return nil
	}
	if err := tx.Send(ctx, batch); err != nil {
		return err
	}
	loads := billing.LoadsOf(settled.All())
	r.share.setParked(loads)
	made.next, err = r.releaseTx(ctx, tx, loads, made.freed)
	return err
}

// ownersOf returns the workspaces of items, without duplicates.
func ownersOf[T any](items []T, owner func(T) uuid.UUID) []uuid.UUID {
	ids := make([]uuid.UUID, len(items))
	for i, item := range items {
		ids[i] = owner(item)
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(ids)
}

// successors are parked executions that start in this process because other executions finished.
type successors struct {
	runner *Runner
	rows   []db.ExecutionStartManyRow
	waited []time.Duration
	worker int32
	ending int // slots that the commit frees
}

// releaseTx releases as many parked executions as their workspaces have room for. tx has locked
// the accounts. Executions that find a free slot in this process start here without going through
// the queue. ending is the number of slots that the commit of tx frees.
func (r *Runner) releaseTx(ctx context.Context, tx pgx.Tx, loads map[uuid.UUID]billing.Load, ending int) (*successors, error) {
	next := &successors{runner: r, ending: ending}
	queued := false
	for id, load := range loads {
		if load.Parked == 0 {
			continue
		}
		size, err := r.share.limit(ctx, tx)
		if err != nil {
			return next, err
		}
		n := min(size-load.Active(), load.Parked)
		if n <= 0 {
			continue
		}
		elsewhere, err := next.releaseOfTx(ctx, tx, id, n)
		if err != nil {
			return next, err
		}
		queued = queued || elsewhere
	}
	if queued {
		if err := db.New().RiverJobNotify(ctx, tx, Queue); err != nil {
			return next, fmt.Errorf("wake the queue: %w", err)
		}
	}
	return next, nil
}

// releaseOfTx releases n executions of a workspace and reports whether any of them go through the
// queue.
func (s *successors) releaseOfTx(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, n int) (elsewhere bool, err error) {
	slots := 0
	for ; slots < n; slots++ {
		worker := s.runner.reserveNext(s.ending)
		if worker == 0 || s.worker != 0 && worker != s.worker {
			if worker != 0 {
				s.runner.releaseSlot()
			}
			break
		}
		s.worker = worker
	}
	rows, err := db.New().ExecutionRelease(ctx, tx, db.ExecutionReleaseParams{
		WorkspaceID: workspaceID, Here: int32(slots), MaxRows: int32(n), WorkerID: s.worker, SafetyNet: safetyNet,
	})
	for _, row := range rows {
		if !row.Here {
			elsewhere = true
			continue
		}
		slots--
		s.runner.inflight.add(row.ID)
		s.rows = append(s.rows, db.ExecutionStartManyRow{
			WorkspaceID: workspaceID, ID: row.ID, Module: row.Module, Call: row.Call,
			Attempts: row.Attempts, Attempt: 1, Epoch: row.Epoch, JobID: row.JobID, Traceparent: row.Traceparent,
			RunID: row.RunID, TimeoutMs: row.TimeoutMs, RepeatRule: row.RepeatRule, OutcomeKnown: true,
		})
		s.waited = append(s.waited, row.Waited)
	}
	for range slots {
		s.runner.releaseSlot()
	}
	if err != nil {
		return false, fmt.Errorf("release parked executions: %w", err)
	}
	return elsewhere, nil
}

// drop releases the slots after a commit that failed or may have failed.
func (s *successors) drop(err error) {
	if s == nil {
		return
	}
	for _, row := range s.rows {
		s.runner.unreserve(s.worker, row.ID, err)
	}
	s.rows = nil
}

// start runs the successors. Call it after the commit.
func (s *successors) start(ctx context.Context) {
	if s == nil {
		return
	}
	changes := make([]notify.Change, len(s.rows))
	for i, row := range s.rows {
		changes[i].Key = notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}
		s.runner.Metrics.Started(row.Module, s.waited[i])
		s.runner.start(context.WithoutCancel(ctx), row, true)
	}
	if len(changes) > 0 {
		s.runner.Hub.Publish(changes...)
	}
}

// parkedPage is the number of workspaces listed at once.
const parkedPage = 200

// unpark releases parked executions of workspaces that have room although none of their executions
// finishes: a worker was added, or running executions are paused. A round continues after the
// workspace where the previous round stopped, so that no workspace starves. Failures are logged
// and left to the next round.
func (s *Sweeper) unpark(ctx context.Context) (released int, err error) {
	r := s.runner
	for {
		crowded, listed := db.New().AccountListWithParked(ctx, r.DB, db.AccountListWithParkedParams{After: s.unparkCursor, MaxRows: parkedPage})
		if listed != nil {
			return released, fmt.Errorf("list workspaces with parked executions: %w", listed)
		}
		for _, id := range crowded {
			s.unparkCursor = id
			n, failure := r.unpark(ctx, id)
			released += n
			if failure != nil {
				r.log.WarnContext(ctx, "could not release parked executions", "workspace_id", id.String(), "error", failure)
				err = failure
			}
			if ctx.Err() != nil {
				return released, err
			}
		}
		if len(crowded) < parkedPage {
			s.unparkCursor = uuid.Nil
			return released, err
		}
	}
}

// unparkLater releases parked executions that a commit left parked. Failures are left to the
// sweep.
func (r *Runner) unparkLater(ctx context.Context, ids []uuid.UUID) {
	for _, id := range ids {
		if _, err := r.unpark(ctx, id); err != nil {
			r.log.WarnContext(ctx, "could not release parked executions", "workspace_id", id.String(), "error", err)
		}
	}
}

// unpark releases parked executions of one workspace.
func (r *Runner) unpark(ctx context.Context, id uuid.UUID) (released int, err error) {
	var next *successors
	err = pgx.BeginFunc(ctx, r.DB, func(tx pgx.Tx) error {
		row, err := db.New().AccountUpdateWaiting(ctx, tx, id)
		if err != nil {
			return fmt.Errorf("count paused executions: %w", err)
		}
		next, err = r.releaseTx(ctx, tx, map[uuid.UUID]billing.Load{
			id: {Live: int(row.Live), Parked: int(row.Parked), Waiting: int(row.Waiting)},
		}, 0)
		return err
	})
	if err != nil {
		next.drop(err)
		return 0, err
	}
	released = len(next.rows)
	next.start(ctx)
	return released, nil
}
