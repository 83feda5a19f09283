package callback

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/wait"
)

const (
	maxHeld          = 512      // deliveries that wait or run in this process
	maxHeldWorkspace = 128      // of them for one workspace
	maxHeldBytes     = 64 << 20 // of their bodies

	// startWithin is how long a delivery may wait here for its turn. Later the
	// queue might bring it too.
	startWithin = 5 * time.Second
)

// handoff counts the deliveries that this process makes right after the commit
// that queued them. Their jobs in the queue are due later: the safety net.
type handoff struct {
	ctx     context.Context // ends when deliveries must stop
	stop    context.CancelFunc
	closing chan struct{} // closed when none must begin any more

	mu      sync.Mutex
	closed  bool
	held    int
	bytes   int
	each    map[uuid.UUID]int
	running sync.WaitGroup
}

func (h *handoff) init() {
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.closing = make(chan struct{})
	h.each = make(map[uuid.UUID]int)
}

// reserve makes room for one delivery, if there is any.
func (h *handoff) reserve(workspaceID uuid.UUID, size int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.held >= maxHeld || h.bytes+size > maxHeldBytes || h.each[workspaceID] >= maxHeldWorkspace {
		return false
	}
	h.held++
	h.bytes += size
	h.each[workspaceID]++
	h.running.Add(1)
	return true
}

func (h *handoff) release(workspaceID uuid.UUID, size int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held--
	h.bytes -= size
	if h.each[workspaceID]--; h.each[workspaceID] == 0 {
		delete(h.each, workspaceID)
	}
	h.running.Done()
}

func (h *handoff) drain(ctx context.Context) {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.closing)
	}
	h.mu.Unlock()
	wait.Drain(ctx, &h.running, h.stop)
	h.stop()
}

// Ready is a set of deliveries that a transaction has queued and this process
// may make at once. After the commit Start it, without one Drop it; a nil Ready
// is empty.
type Ready struct {
	deliverer  *Deliverer
	deliveries []delivery
	frozen     time.Time
}

// Start makes the deliveries. It does not wait for them.
func (r *Ready) Start() {
	if r == nil {
		return
	}
	for _, c := range r.deliveries {
		go func() {
			defer r.deliverer.handoff.release(c.WorkspaceID, len(c.body))
			if time.Since(r.frozen) > startWithin {
				r.deliverer.giveBack(r.deliverer.handoff.ctx, c, 0)
				return
			}
			r.deliverer.attemptHere(r.deliverer.handoff.ctx, c, r.frozen.Add(startWithin))
		}()
	}
}

// Drop gives back what was reserved.
func (r *Ready) Drop() {
	if r == nil {
		return
	}
	for _, c := range r.deliveries {
		r.deliverer.handoff.release(c.WorkspaceID, len(c.body))
	}
}

// deliverHere makes the next attempt after a delay, without a trip through the
// queue.
func (d *Deliverer) deliverHere(c delivery, delay time.Duration) {
	defer d.handoff.release(c.WorkspaceID, len(c.body))
	ctx := d.handoff.ctx
	begin := time.Now().Add(delay)
	select {
	case <-d.handoff.closing:
		d.giveBack(ctx, c, max(time.Until(begin), 0))
		return
	case <-time.After(delay):
	}
	if d.stillDue(ctx, c) {
		d.attemptHere(ctx, c, begin.Add(startWithin))
	}
}

// attemptHere makes one attempt, waiting for its turn until latest. Whatever it
// leaves open, the queue is told to bring.
func (d *Deliverer) attemptHere(ctx context.Context, c delivery, latest time.Time) {
	again, err := d.deliver(ctx, c)
	for err == nil && again > 0 && again < time.Second && time.Now().Add(again).Before(latest) {
		if err = wait.For(ctx, again); err == nil {
			again, err = d.deliver(ctx, c)
		}
	}
	if err != nil {
		again = time.Second
		if !errors.Is(err, context.Canceled) {
			d.Log.ErrorContext(ctx, "callback could not be attempted", "execution_id", c.ExecutionID, "error", err)
		}
	}
	if again > 0 {
		d.giveBack(ctx, c, again)
	}
}

// stillDue reports whether the attempt that was kept is still this process's to
// make: meanwhile it may have been hastened, or made by another. If that cannot
// be told, the queue brings it.
func (d *Deliverer) stillDue(ctx context.Context, c delivery) bool {
	row, err := d.loads.Do(ctx, c.Args)
	return err == nil && row != nil && row.JobID != nil && *row.JobID == c.jobID && int(row.Tries) == c.tries
}

// giveBack makes the job of a delivery due that this process did not attempt. If
// that fails, the job is due by itself a little later.
func (d *Deliverer) giveBack(ctx context.Context, c delivery, again time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := db.New().CallbackRearm(ctx, d.DB, db.CallbackRearmParams{JobID: c.jobID, Delay: again}); err != nil {
		d.Log.WarnContext(ctx, "callback was left to its safety net", "execution_id", c.ExecutionID, "error", err)
	}
}
