package execution

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/platform/notify"
)

const (
	// windowKept is how long a process goes by the slots that it last counted, and
	// by what it last saw of a workspace.
	windowKept = 2 * time.Second
	// presumedSlots is what is presumed before the first worker has come.
	presumedSlots = 100
)

// windowOf is how much one workspace may have executing or ready at once: nine
// tenths of all slots, so that others find a free one, whatever it has queued.
// What it submits beyond that is parked.
func windowOf(slots int) int { return max(1, slots-max(1, slots/10)) }

// window is what a process knows of the slots, and of the workspaces that it saw
// lately. It may be behind: what it lets in too much ends and is not replaced,
// and what it parks is checked under the account's lock.
type window struct {
	mu     sync.Mutex
	size   int
	asked  time.Time
	active map[uuid.UUID]seen
	parked map[uuid.UUID]struct{} // workspaces that had some when last seen
}

type seen struct {
	active int
	at     time.Time
}

// of gives the window's size.
func (w *window) of(ctx context.Context, tx pgx.Tx) (int, error) {
	w.mu.Lock()
	size, fresh := w.size, time.Since(w.asked) < windowKept
	w.mu.Unlock()
	if fresh {
		return size, nil
	}
	slots, err := db.New().WorkerSumSlots(ctx, tx)
	if err != nil {
		return 0, fmt.Errorf("count the workers' slots: %w", err)
	}
	if slots == 0 {
		slots = presumedSlots
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.size, w.asked = windowOf(int(slots)), time.Now()
	return w.size, nil
}

// saw notes how much a workspace has executing or ready.
func (w *window) saw(workspaceID uuid.UUID, active int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.active == nil || len(w.active) > 10_000 {
		w.active = map[uuid.UUID]seen{}
	}
	w.active[workspaceID] = seen{active, time.Now()}
}

// last is what a workspace had when it was last seen; nothing after a while.
func (w *window) last(workspaceID uuid.UUID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.active[workspaceID]; time.Since(s.at) < windowKept {
		return s.active
	}
	return 0
}

// sawParked notes which workspaces have parked executions, and returns them.
func (w *window) sawParked(loads map[uuid.UUID]billing.Load) (parked []uuid.UUID) {
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

// crowded says whether one of the charged workspaces had parked executions when
// last seen.
func (w *window) crowded(charges []billing.Charge) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(charges, func(c billing.Charge) bool {
		_, parked := w.parked[c.WorkspaceID]
		return parked
	})
}

// park returns the submissions with those marked that go beyond the window, given
// what each workspace has already. Those that hold no slot are parked first.
func park(items []accept, size int, active func(uuid.UUID) int) []accept {
	items = slices.Clone(items)
	room := map[uuid.UUID]int{}
	for _, local := range []bool{true, false} {
		for i := range items {
			a := &items[i]
			if (a.worker != 0) != local {
				continue
			}
			left, known := room[a.WorkspaceID]
			if !known {
				left = size - active(a.WorkspaceID)
			}
			if a.parked = left <= 0; a.parked {
				a.worker = 0
			}
			room[a.WorkspaceID] = left - 1
		}
	}
	return items
}

// errUncrowded says that a workspace would park executions although it has room:
// others ended meanwhile, and nothing might be left to release these.
var errUncrowded = errors.New("there is room for what was to be parked")

// countParkedTx counts what was parked in the accounts, which tx has locked.
func (s *Service) countParkedTx(ctx context.Context, tx pgx.Tx, items []accept, size int, loads map[uuid.UUID]billing.Load) error {
	parked := map[uuid.UUID]int{}
	for _, a := range items {
		if a.parked {
			parked[a.WorkspaceID]++
		}
	}
	for id, load := range loads {
		n := parked[id]
		active := load.Active() - n
		if n > 0 && active < size {
			s.window.saw(id, 0) // at worst a window too much is let in
			return errUncrowded
		}
		s.window.saw(id, active)
		if n == 0 {
			continue
		}
		if err := db.New().AccountPark(ctx, tx, db.AccountParkParams{WorkspaceID: id, Count: int32(n)}); err != nil {
			return fmt.Errorf("count parked executions: %w", err)
		}
	}
	return nil
}

// successors are executions that begin here because others have ended.
type successors struct {
	runner *Runner
	rows   []db.ExecutionStartManyRow
	waited []time.Duration
	worker int32
	ending int         // slots that become free with the commit
	later  []uuid.UUID // workspaces whose parked executions are to be looked at after the commit
}

// releaseTx lets as many parked executions go as there is room for in the windows
// of their workspaces, whose accounts tx has locked. Those that find a free slot
// in this process begin here, without a trip through the queue; ending is how many
// become free with tx.
func (r *Runner) releaseTx(ctx context.Context, tx pgx.Tx, loads map[uuid.UUID]billing.Load, ending int) (*successors, error) {
	next := &successors{runner: r, ending: ending}
	queued := false
	for id, load := range loads {
		if load.Parked == 0 {
			continue
		}
		size, err := r.window.of(ctx, tx)
		if err != nil {
			return next, err
		}
		n := min(size-load.Active(), load.Parked)
		if n <= 0 {
			continue
		}
		elsewhere, err := next.takeTx(ctx, tx, id, n)
		if err != nil {
			return next, err
		}
		queued = queued || elsewhere
	}
	if queued {
		if err := db.New().RiverJobTell(ctx, tx, Queue); err != nil {
			return next, fmt.Errorf("wake the queue: %w", err)
		}
	}
	return next, nil
}

// takeTx releases n executions of a workspace, and says whether some of them are
// for the queue.
func (s *successors) takeTx(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, n int) (elsewhere bool, err error) {
	slots := 0
	for ; slots < n; slots++ {
		worker := s.runner.reserveNext(s.ending)
		if worker == 0 || s.worker != 0 && worker != s.worker {
			if worker != 0 {
				s.runner.free()
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
		s.runner.hand.take(row.ID)
		s.rows = append(s.rows, db.ExecutionStartManyRow{
			WorkspaceID: workspaceID, ID: row.ID, Module: row.Module, Call: row.Call,
			Attempts: row.Attempts, Attempt: 1, Epoch: row.Epoch, JobID: row.JobID, Traceparent: row.Traceparent,
			RunID: row.RunID, TimeoutMs: row.TimeoutMs, RepeatRule: row.RepeatRule, OutcomeKnown: true,
		})
		s.waited = append(s.waited, row.Waited)
	}
	for range slots {
		s.runner.free()
	}
	if err != nil {
		return false, fmt.Errorf("release parked executions: %w", err)
	}
	return elsewhere, nil
}

// drop gives the slots back after a commit that failed, or may have.
func (s *successors) drop(err error) {
	if s == nil {
		return
	}
	for _, row := range s.rows {
		s.runner.giveUp(s.worker, row.ID, err)
	}
	s.rows = nil
}

// start runs them, after the commit.
func (s *successors) start(ctx context.Context) {
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

// crowdedBatch is how many workspaces are listed at once.
const crowdedBatch = 200

// unpark lets parked executions go whose workspaces have room although nothing of
// theirs ends: a worker came, or what they run pauses. It goes on after the
// workspace that it came to last, so that none waits for those before it; what
// fails with one is logged and left to its next turn.
func (s *Sweeper) unpark(ctx context.Context) (released int, err error) {
	r := s.runner
	for {
		crowded, listed := db.New().AccountListCrowded(ctx, r.DB, db.AccountListCrowdedParams{After: s.unparked, MaxRows: crowdedBatch})
		if listed != nil {
			return released, fmt.Errorf("list workspaces with parked executions: %w", listed)
		}
		for _, id := range crowded {
			s.unparked = id
			n, failure := r.unpark(ctx, id)
			released += n
			if failure != nil {
				r.log.WarnContext(ctx, "parked executions could not be released", "workspace_id", id.String(), "error", failure)
				err = failure
			}
			if ctx.Err() != nil {
				return released, err
			}
		}
		if len(crowded) < crowdedBatch {
			s.unparked = uuid.Nil
			return released, err
		}
	}
}

// unparkLater lets parked executions go that a commit left behind. What fails is
// left to upkeep.
func (r *Runner) unparkLater(ctx context.Context, ids []uuid.UUID) {
	for _, id := range ids {
		if _, err := r.unpark(ctx, id); err != nil {
			r.log.WarnContext(ctx, "parked executions could not be released", "workspace_id", id.String(), "error", err)
		}
	}
}

// unpark lets parked executions of one workspace go.
func (r *Runner) unpark(ctx context.Context, id uuid.UUID) (released int, err error) {
	var next *successors
	err = pgx.BeginFunc(ctx, r.DB, func(tx pgx.Tx) error {
		row, err := db.New().AccountCountWaiting(ctx, tx, id)
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
