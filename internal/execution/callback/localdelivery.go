package callback

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

const (
	maxHeld          = 512      // deliveries in this process that wait or are in flight
	maxHeldWorkspace = 128      // the same for one workspace
	maxHeldBytes     = 64 << 20 // total size of their bodies

	// startWithin is how long a delivery may wait in this process. After that, its job in the
	// queue may be due as well.
	startWithin = 5 * time.Second
)

// localDeliveries counts the deliveries that this process makes without the queue, right after
// the commit that enqueued them. Their jobs are due later, as a safety net.
type localDeliveries struct {
	ctx     context.Context // canceled when deliveries must stop
	stop    context.CancelFunc
	closing chan struct{} // closed when no further delivery may start

	mu      sync.Mutex
	closed  bool
	held    int
	bytes   int
	each    map[uuid.UUID]int
	running sync.WaitGroup
}

func (h *localDeliveries) init() {
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.closing = make(chan struct{})
	h.each = make(map[uuid.UUID]int)
}

// reserve reserves capacity for one delivery. It returns false if the limits are reached.
func (h *localDeliveries) reserve(workspaceID uuid.UUID, size int) bool {
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

// release releases the capacity of one delivery.
func (h *localDeliveries) release(workspaceID uuid.UUID, size int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held--
	h.bytes -= size
	if h.each[workspaceID]--; h.each[workspaceID] == 0 {
		delete(h.each, workspaceID)
	}
	h.running.Done()
}

// drain waits for the deliveries, interrupts the remaining deliveries when ctx is done, and returns
// when all deliveries have stopped.
func (h *localDeliveries) drain(ctx context.Context) {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.closing)
	}
	h.mu.Unlock()
	wait.Drain(ctx, &h.running, h.stop)
	h.stop()
}

// Ready is a set of deliveries that a transaction has enqueued and that this process may make
// immediately. Call Start after the commit, or Drop if the commit fails. A nil Ready is empty.
type Ready struct {
	deliverer  *Deliverer
	deliveries []delivery
	jobs       *postgres.Rows[db.CallbackFreezeManyRow]
	bytes      int64
	frozen     time.Time
}

// Bytes returns the size of the frozen bodies, also of those that this process does not deliver.
func (r *Ready) Bytes() int64 {
	if r == nil {
		return 0
	}
	return r.bytes
}

// Start starts the deliveries and returns without waiting for them.
func (r *Ready) Start() {
	if r == nil {
		return
	}
	jobs := map[uuid.UUID]int64{}
	for _, row := range r.jobs.All() {
		jobs[row.ExecutionID] = row.JobID
	}
	for _, c := range r.deliveries {
		c.jobID = jobs[c.ExecutionID]
		go func() {
			defer r.deliverer.local.release(c.WorkspaceID, len(c.body))
			if time.Since(r.frozen) > startWithin {
				r.deliverer.requeueKept(r.deliverer.local.ctx, c, 0)
				return
			}
			r.deliverer.attemptHere(r.deliverer.local.ctx, c, r.frozen.Add(startWithin))
		}()
	}
}

// Drop releases the reserved capacity.
func (r *Ready) Drop() {
	if r == nil {
		return
	}
	for _, c := range r.deliveries {
		r.deliverer.local.release(c.WorkspaceID, len(c.body))
	}
}

// deliverHere makes the next attempt after a delay, without going through the queue.
func (d *Deliverer) deliverHere(c delivery, delay time.Duration) {
	defer d.local.release(c.WorkspaceID, len(c.body))
	ctx := d.local.ctx
	begin := time.Now().Add(delay)
	select {
	case <-d.local.closing:
		d.requeueKept(ctx, c, max(time.Until(begin), 0))
		return
	case <-time.After(delay):
	}
	if d.stillDue(ctx, c) {
		d.attemptHere(ctx, c, begin.Add(startWithin))
	}
}

// attemptHere makes one attempt. It waits for a permit until latest. If the delivery is unfinished
// afterwards, attemptHere makes the job in the queue due.
func (d *Deliverer) attemptHere(ctx context.Context, c delivery, latest time.Time) {
	retryIn, err := d.deliver(ctx, c)
	for err == nil && retryIn > 0 && retryIn < time.Second && time.Now().Add(retryIn).Before(latest) {
		if err = wait.For(ctx, retryIn); err == nil {
			retryIn, err = d.deliver(ctx, c)
		}
	}
	if err != nil {
		retryIn = time.Second
		if !errors.Is(err, context.Canceled) {
			d.Log.ErrorContext(ctx, "could not attempt callback", "execution_id", c.ExecutionID, "error", err)
		}
	}
	if retryIn > 0 {
		d.requeueKept(ctx, c, retryIn)
	}
}

// stillDue reports whether this process must still make the attempt that it kept. A replay may
// have made the attempt due earlier, or a different process may have made it. If the database does
// not respond, stillDue returns false, and the delivery continues from the queue.
func (d *Deliverer) stillDue(ctx context.Context, c delivery) bool {
	row, err := d.loads.Do(ctx, c.Args)
	return err == nil && row != nil && row.JobID != nil && *row.JobID == c.jobID && int(row.Tries) == c.tries
}

// requeueKept makes the job of a delivery due that this process kept but did not attempt. If the
// update fails, the job becomes due a little later anyway.
func (d *Deliverer) requeueKept(ctx context.Context, c delivery, retryIn time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := db.New().CallbackMakeJobDue(ctx, d.DB, db.CallbackMakeJobDueParams{JobID: c.jobID, Delay: retryIn}); err != nil {
		d.Log.WarnContext(ctx, "could not requeue callback; its job is due later", "execution_id", c.ExecutionID, "error", err)
	}
}
