package execution

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/groupcommit"
	"github.com/weft-automation/weft/internal/notify"
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
	taken map[uuid.UUID]int
	lost  map[uuid.UUID]int32 // the epochs that ran here and whose result could not be written
	doubt time.Time           // until when rows that are not in hand may turn up; zero: they may not
}

func newHand() *hand {
	return &hand{taken: map[uuid.UUID]int{}, lost: map[uuid.UUID]int32{}}
}

func (h *hand) take(id uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.taken[id]++
}

// put ends a take. ran is the epoch of the turn that ran, 0 when none did; err is
// why what was to be written may or may not be.
func (h *hand) put(id uuid.UUID, ran int32, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.taken[id]--; h.taken[id] <= 0 {
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
	return h.taken[id] > 0, h.lost[id] == epoch
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
