package execution

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/groupcommit"
	"github.com/weft-automation/weft/internal/platform/notify"
)

const (
	reclaimEvery = 3 * time.Second
	reclaimAfter = 5 * time.Second
	// doubtLasts is how long a lost answer is looked after: a commit that was
	// under way then has come through or not.
	doubtLasts = time.Minute
)

// hand is what this process has in hand: executions that it is about to write
// as its own, runs, or settles. A row that names this worker and is not in hand
// is one whose commit came through although its answer was lost.
type hand struct {
	mu    sync.Mutex
	taken map[uuid.UUID]taken
	lost  map[uuid.UUID]int32 // the epochs that ran here and whose result could not be written
	doubt time.Time           // until when rows that are not in hand may turn up; zero: they may not
}

// taken is one execution in hand.
type taken struct {
	takes int
	runs  bool
	since time.Time // when it was first taken, or its component last began or ended
}

func newHand() *hand {
	return &hand{taken: map[uuid.UUID]taken{}, lost: map[uuid.UUID]int32{}}
}

func (h *hand) take(id uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, again := h.taken[id]
	if !again {
		t.since = time.Now()
	}
	t.takes++
	h.taken[id] = t
}

// runs notes that the component of an execution in hand begins, or has ended.
func (h *hand) runs(id uuid.UUID, runs bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t, inHand := h.taken[id]; inHand {
		h.taken[id] = taken{takes: t.takes, runs: runs, since: time.Now()}
	}
}

// progress says how many components run, each within its deadline, and how long the
// longest of the other executions in hand has been waiting.
func (h *hand) progress() (running int, longest time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.taken {
		if t.runs {
			running++
		} else {
			longest = max(longest, time.Since(t.since))
		}
	}
	return running, longest
}

// put ends a take. ran is the epoch of the turn that ran, 0 when none did; err is
// why what was to be written may or may not be.
func (h *hand) put(id uuid.UUID, ran int32, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.taken[id]
	if t.takes--; t.takes > 0 {
		h.taken[id] = t
	} else {
		delete(h.taken, id)
	}
	if err == nil {
		return
	}
	if ran > 0 {
		h.lost[id] = ran
	} else if unwritten(err) {
		return
	}
	h.doubt = time.Now().Add(doubtLasts)
}

// unwritten reports whether err says that nothing can have been written: it never
// left the queue of writes, or the database was left as it was on purpose.
func unwritten(err error) bool {
	_, refused := errors.AsType[*fault.Error](err)
	return refused || groupcommit.Unwritten(err)
}

func (h *hand) doubtful() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.doubt.IsZero()
}

// looked ends the doubt when a look that began then, and went well, came after
// all that could still turn up.
func (h *hand) looked(began time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if began.After(h.doubt) {
		h.doubt = time.Time{}
		clear(h.lost)
	}
}

// of says whether an execution is in hand, and whether it ran here in that epoch
// and its result was lost.
func (h *hand) of(id uuid.UUID, epoch int32) (inHand, ran bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.taken[id].takes > 0, h.lost[id] == epoch
}

// Reclaim looks until ctx ends for executions that the database gave to this
// worker without its knowing, and for those whose result it could not write. It
// asks only while a lost answer gives reason to.
func (r *Runner) Reclaim(ctx context.Context) {
	ticker := time.NewTicker(reclaimEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		worker, alive := r.identity.Worker()
		if !alive || !r.hand.doubtful() || r.quarantined() != nil {
			continue
		}
		began := time.Now()
		done, err := r.rescueOf(ctx, []int32{worker}, reclaimAfter, r.reclaim)
		r.Metrics.Swept("lost_answers", done, err)
		if err == nil {
			r.hand.looked(began)
		} else if ctx.Err() == nil {
			r.log.WarnContext(ctx, "executions with lost answers were not reclaimed", "error", err)
		}
	}
}

// reclaim decides about one execution that names this worker: in hand it goes
// on; lost after its run it is as if the worker had died; else it never began,
// and may begin whatever its repeat rule.
func (r *Runner) reclaim(ctx context.Context, row db.ExecutionListOfWorkersRow) error {
	inHand, ran := r.hand.of(row.ID, row.Epoch)
	switch {
	case inHand:
		return nil
	case ran:
		return r.rescue(ctx, row)
	}
	return r.requeue(ctx, requeue{
		key: notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}, epoch: row.Epoch, job: row.JobID, worker: row.WorkerID,
	})
}

// stalledAfter is how long work may lie ready while this process begins and ends
// nothing and has slots free. Slots that are full of components within their
// deadlines are no stall. It is told within 30 s (reliability OP-02).
const stalledAfter = 25 * time.Second

// Moving returns nil while this worker is fit to work: it is alive to the
// others, and it is not idle beside work that waits, in the queue or in its own
// hand: what is parked behind that is in nobody's queue. A process can be up while
// nothing in it runs; readiness looks at progress for that reason.
func (r *Runner) Moving(ctx context.Context) error {
	if _, alive := r.identity.Worker(); !alive {
		return errors.New("the worker holds no session with the database")
	}
	inside, stuck := r.hand.progress()
	full := inside >= r.slots.size && r.slots.size > 0
	if full || r.quarantined() != nil || time.Since(time.Unix(0, r.moved.Load())) < stalledAfter {
		return nil
	}
	if stuck > stalledAfter {
		return fmt.Errorf("what is in hand has been waiting for %.0f s to begin or to be written", stuck.Seconds())
	}
	waits, err := db.New().RiverJobOldestDue(ctx, r.DB, Queue)
	if err != nil {
		return fmt.Errorf("look at the queue: %w", err)
	}
	if waits > stalledAfter.Seconds() {
		return fmt.Errorf("work has been ready for %.0f s and none has begun here", waits)
	}
	return nil
}

// slots are those of local runs.
type slots struct {
	size int

	mu    sync.Mutex
	taken int
}

// take takes a slot if one is free. Those that end in the transaction for which it
// is taken count as free: their runs give them back right after the commit, and
// what they leave would else go through the queue and fill that.
func (s *slots) take(ending int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= s.size+ending {
		return false
	}
	s.taken++
	return true
}

func (s *slots) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
}
