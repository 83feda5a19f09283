package execution

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// vacancy is the room that an execution leaves when it becomes final.
type vacancy struct {
	workspaceID uuid.UUID
	slot        bool // it held a slot of this process, which is released after the commit
	ran         bool // in this process, where a parked execution may start in its place
}

// release is the start of parked executions in the commit that makes room for them.
type release struct {
	acquired map[uuid.UUID]int // slots of this process that were acquired for them
	rows     *postgres.Rows[db.ExecutionReleaseRow]
}

// queueRelease releases parked executions of the workspaces of vacancies. It must follow the
// statement that settles their accounts. Released executions that take over a slot of this process,
// or find a free one, start here. The others become available in the queue. Call startReleased
// after the commit, or dropReleased if it failed.
func (r *Runner) queueRelease(batch *postgres.Batch, left []vacancy) *release {
	worker, starts := r.mayStart()
	next := &release{acquired: map[uuid.UUID]int{}}
	here := map[uuid.UUID]int32{}
	for _, v := range left {
		n := here[v.workspaceID]
		switch {
		case !starts || !v.ran || r.slots.isClosed():
		case v.slot:
			n++
		case r.slots.acquire(v.workspaceID, true):
			n++
			next.acquired[v.workspaceID]++
		}
		here[v.workspaceID] = n
	}
	p := db.ExecutionReleaseParams{WorkerID: worker, SafetyNet: safetyNet}
	for id, n := range here {
		p.WorkspaceIds, p.Here = append(p.WorkspaceIds, id), append(p.Here, n)
	}
	next.rows = postgres.Returning[db.ExecutionReleaseRow](batch, db.ExecutionRelease, p)
	return next
}

// dropReleased releases the slots after a commit that failed with err, or may have failed.
func (r *Runner) dropReleased(next *release, err error) {
	if next == nil {
		return
	}
	r.inflight.unsure(err)
	for id, n := range next.acquired {
		for range n {
			r.slots.release(id)
		}
	}
}

// startReleased runs the released executions.
func (r *Runner) startReleased(ctx context.Context, next *release) {
	if next == nil {
		return
	}
	var changes []notify.Change
	queued := false
	for _, row := range next.rows.All() {
		if !row.Here {
			queued = true
			continue
		}
		if next.acquired[row.WorkspaceID] > 0 {
			next.acquired[row.WorkspaceID]--
		} else {
			r.slots.pass(row.WorkspaceID)
		}
		r.inflight.add(row.ID)
		changes = append(changes, notify.Change{Key: notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}})
		r.Metrics.Started(row.Module, row.Waited)
		r.start(context.WithoutCancel(ctx), db.ExecutionStartManyRow{
			WorkspaceID: row.WorkspaceID, ID: row.ID, Module: row.Module, Call: row.Call,
			Attempts: row.Attempts, Attempt: 1, Epoch: row.Epoch, JobID: row.JobID, Traceparent: row.Traceparent,
			RunID: row.RunID, TimeoutMs: row.TimeoutMs, RepeatRule: row.RepeatRule, OutcomeKnown: true, Remaining: row.Remaining,
		}, true)
	}
	r.dropReleased(next, nil) // the slots that were not needed
	if len(changes) > 0 {
		r.Hub.Publish(changes...)
	}
	if queued {
		r.slots.running.Go(func() { r.wakeQueue(context.WithoutCancel(ctx)) })
	}
}

// wakeQueue notifies the workers of all processes that jobs are available. It ignores errors,
// because workers also poll.
func (r *Runner) wakeQueue(ctx context.Context) {
	_ = withTimeout(ctx, lastWriteTimeout, func(ctx context.Context) error { return db.New().RiverJobNotify(ctx, r.DB, Queue) })
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

// parkedPage is the number of workspaces listed at once.
const parkedPage = 200

// unpark releases parked executions of workspaces that have room although none of their executions
// finishes: a worker was added, or running executions are paused. A round continues after the
// workspace where the previous round stopped, so that no workspace starves. Failures are logged
// and left to the next round.
func (s *Sweeper) unpark(ctx context.Context) (released int, err error) {
	r := s.runner
	for {
		parked, listed := db.New().AccountListWithParked(ctx, r.DB, db.AccountListWithParkedParams{After: s.unparkCursor, MaxRows: parkedPage})
		if listed != nil {
			return released, fmt.Errorf("list workspaces with parked executions: %w", listed)
		}
		for _, id := range parked {
			s.unparkCursor = id
			n, failure := r.unpark(ctx, id)
			released += n
			if failure != nil {
				r.log.WarnContext(ctx, "could not release parked executions", "workspace_id", id.String(), "error", failure)
				err = errors.Join(err, failure)
			}
			if ctx.Err() != nil {
				return released, err
			}
		}
		if len(parked) < parkedPage {
			s.unparkCursor = uuid.Nil
			return released, err
		}
	}
}

// unpark releases parked executions of one workspace. All of them go through the queue.
func (r *Runner) unpark(ctx context.Context, id uuid.UUID) (released int, err error) {
	var batch postgres.Batch
	_ = db.New().AccountUpdateWaiting(ctx, &batch, id)
	next := r.queueRelease(&batch, []vacancy{{workspaceID: id}})
	if err := postgres.Commit(ctx, r.DB, &batch); err != nil {
		return 0, err
	}
	r.startReleased(ctx, next)
	return len(next.rows.All()), nil
}
