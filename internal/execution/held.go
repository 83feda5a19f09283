package execution

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
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
	held  map[uuid.UUID]int
	lost  map[uuid.UUID]struct{} // ran here, and their result could not be written
	doubt time.Time              // until when rows that are not in hand may turn up
}

func newHand() *hand {
	return &hand{held: map[uuid.UUID]int{}, lost: map[uuid.UUID]struct{}{}}
}

func (h *hand) take(id uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[id]++
}

// put ends a take. err is why what was to be written may or may not be.
func (h *hand) put(id uuid.UUID, ran bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held[id]--; h.held[id] <= 0 {
		delete(h.held, id)
	}
	if err == nil {
		return
	}
	h.doubt = time.Now().Add(doubtLasts)
	if ran {
		h.lost[id] = struct{}{}
	}
}

func (h *hand) doubtful() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Before(h.doubt)
}

func (h *hand) holds(id uuid.UUID) (held, lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, lost = h.lost[id]
	return h.held[id] > 0, lost
}

func (h *hand) forget(id uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.lost, id)
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
		done, err := r.rescueOf(ctx, []int32{worker}, reclaimAfter, r.reclaim)
		r.Metrics.Swept("lost_answers", done, err)
		if err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "executions with lost answers were not reclaimed", "error", err)
		}
	}
}

// reclaim decides about one execution that names this worker: in hand it goes
// on; lost after its run it is as if the worker had died; else it never began,
// and may begin whatever its repeat rule.
func (r *Runner) reclaim(ctx context.Context, row db.ExecutionListOfWorkersRow) error {
	held, lost := r.hand.holds(row.ID)
	if held {
		return nil
	}
	if !lost {
		return r.requeue(ctx, requeue{key: notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}, job: row.JobID, worker: row.WorkerID})
	}
	err := r.rescue(ctx, row)
	if err == nil {
		r.hand.forget(row.ID)
	}
	return err
}
