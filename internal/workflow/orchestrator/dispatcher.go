package orchestrator

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/permit"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

const (
	// AdvancesAtOnce limits concurrent advances in one process. Each holds a connection.
	AdvancesAtOnce = 6
	advanceTimeout = 30 * time.Second
	// Timers that are due within timersWithin are set in this process. The sweep handles later
	// timers, and timers of processes that died.
	timersWithin = time.Minute
)

// dispatcher runs the advances of this process: advances of different runs concurrently, and advances of
// the same run one after another. A wake-up during an advance of the run causes another advance.
type dispatcher struct {
	o       *Orchestrator
	slots   chan struct{}
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	pending map[notify.Key]*wakeup        // runs that are being advanced or wait for a slot, with later wake-ups; nil: none
	quotas  map[uuid.UUID]*workspaceQuota // of the workspaces of pending runs
	timers  map[notify.Key]timer
	closed  bool

	// inFlight is the number of executions that runs wait for, after their last advances in this process. An
	// execution finishes with its run only if the run waits for no other one: a loop would pay with a commit
	// for each item otherwise.
	inFlight map[notify.Key]int
}

// workspaceQuota limits the slots of a workspace, so that other workspaces find a free slot however many
// runs this workspace has to advance, and while all of its advances wait for its account.
type workspaceQuota struct {
	slots chan struct{}
	runs  int // pending runs of the workspace
}

type timer struct {
	at   time.Time
	stop func() bool
}

// newDispatcher returns a dispatcher for the advances of o. close stops it.
func newDispatcher(o *Orchestrator) *dispatcher {
	d := &dispatcher{
		o: o, slots: make(chan struct{}, AdvancesAtOnce),
		pending: map[notify.Key]*wakeup{}, quotas: map[uuid.UUID]*workspaceQuota{}, timers: map[notify.Key]timer{}, inFlight: map[notify.Key]int{},
	}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d
}

// wakeup is the reason for an advance.
type wakeup struct {
	executions []uuid.UUID // executions that have finished
	recheck    bool        // check everything the run may wait for
	exact      bool        // decide with an exact budget, because the account did not cover the stages
}

// wake enqueues an advance that checks everything the run may wait for.
func (d *dispatcher) wake(key notify.Key) { d.enqueue(key, wakeup{recheck: true}) }

// enqueue enqueues an advance of a run. If the run is being advanced, it is advanced again afterwards.
func (d *dispatcher) enqueue(key notify.Key, w wakeup) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	waiting, isPending := d.pending[key]
	if !isPending {
		quota := d.register(key)
		d.running.Go(func() { d.work(key, quota, w) })
		return
	}
	if waiting == nil {
		waiting = &wakeup{}
		d.pending[key] = waiting
	}
	waiting.executions = append(waiting.executions, w.executions...)
	waiting.recheck = waiting.recheck || w.recheck
}

// register marks a run as pending. The caller holds the mutex. next removes the mark.
func (d *dispatcher) register(key notify.Key) *workspaceQuota {
	d.pending[key] = nil
	quota := d.quotas[key.WorkspaceID]
	if quota == nil {
		quota = &workspaceQuota{slots: make(chan struct{}, permit.Each)}
		d.quotas[key.WorkspaceID] = quota
	}
	quota.runs++
	return quota
}

// unregister reverses register. The caller holds the mutex.
func (d *dispatcher) unregister(key notify.Key, quota *workspaceQuota) {
	delete(d.pending, key)
	if quota.runs--; quota.runs == 0 {
		delete(d.quotas, key.WorkspaceID)
	}
}

// expect counts the executions that a run waits for after an advance.
func (d *dispatcher) expect(key notify.Key, a *advance) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if delete(d.inFlight, key); len(a.live) != int(a.Run.PendingCount) {
		return // not all unfinished stages were read
	}
	if len(d.inFlight) >= runsKept {
		clear(d.inFlight)
	}
	for _, stage := range a.live {
		if stage.ExecutionEventID != nil {
			d.inFlight[key]++
		}
	}
}

// tryStart starts an advance in the caller's goroutine, and returns what to pass to done. It returns nil if the
// run is pending or is not known to wait for exactly one execution, or if no slot is free.
func (d *dispatcher) tryStart(key notify.Key) *workspaceQuota {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, isPending := d.pending[key]; isPending || d.closed || d.inFlight[key] != 1 {
		return nil
	}
	quota := d.register(key)
	if !d.acquire(quota, false) {
		d.unregister(key, quota)
		return nil
	}
	d.running.Add(1)
	return quota
}

// done ends an advance that tryStart started. more is set if another advance must follow.
func (d *dispatcher) done(key notify.Key, quota *workspaceQuota, more bool) {
	defer d.running.Done()
	d.release(quota)
	if later, again := d.next(key, quota, more, false); again {
		d.running.Go(func() { d.work(key, quota, later) })
	}
}

// work advances a run until nothing is left to do. It acquires a slot for each advance, so that a run
// with many advances takes turns with other runs.
func (d *dispatcher) work(key notify.Key, quota *workspaceQuota, w wakeup) {
	for d.acquire(quota, true) {
		more, err := d.o.advanceRun(d.ctx, key, w)
		d.release(quota)
		if err != nil && d.ctx.Err() == nil && (!postgres.Unavailable(err) || errors.Is(err, errAdvanceTimeout)) {
			d.o.Log.WarnContext(d.ctx, "failed to advance a run; the sweep retries", "run_id", key.ID.String(), "error", err)
		}
		var again bool
		if w, again = d.next(key, quota, more, err != nil); !again {
			return
		}
	}
}

// acquire acquires a slot, and reports whether it did. If none is free, it fails, unless wait is set: then
// it fails only if the dispatcher is closed.
func (d *dispatcher) acquire(quota *workspaceQuota, wait bool) bool {
	for i, slots := range []chan struct{}{quota.slots, d.slots} {
		select {
		case slots <- struct{}{}:
			continue
		default:
		}
		if wait {
			select {
			case slots <- struct{}{}:
				continue
			case <-d.ctx.Done():
			}
		}
		if i > 0 {
			<-quota.slots
		}
		return false
	}
	return true
}

// release releases a slot that acquire acquired.
func (d *dispatcher) release(quota *workspaceQuota) {
	<-d.slots
	<-quota.slots
}

// next returns the next wake-up of a run that was just advanced, and whether to advance it again. After a
// failure, it returns false, because the sweep wakes the run again.
func (d *dispatcher) next(key notify.Key, quota *workspaceQuota, more, failed bool) (w wakeup, again bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	later := d.pending[key]
	if failed || later == nil && !more {
		d.unregister(key, quota)
		return w, false
	}
	if later != nil {
		w, d.pending[key] = *later, nil
	}
	return w, true
}

// wakeAt sets the timer of a run, unless an earlier timer is set. It ignores times beyond
// timersWithin.
func (d *dispatcher) wakeAt(key notify.Key, after time.Duration) {
	if after > timersWithin {
		return
	}
	at := time.Now().Add(after)
	d.mu.Lock()
	defer d.mu.Unlock()
	if t, set := d.timers[key]; d.closed || set && !t.at.After(at) {
		return
	} else if set {
		t.stop()
	}
	set := time.AfterFunc(max(after, 0), func() {
		d.mu.Lock()
		delete(d.timers, key)
		d.mu.Unlock()
		d.wake(key)
	})
	d.timers[key] = timer{at: at, stop: set.Stop}
}

// close accepts no more wake-ups and waits for the advances in flight. After two seconds it cancels
// them. Other processes do the remaining advances, or this process does after its next start.
func (d *dispatcher) close() {
	d.mu.Lock()
	d.closed = true
	for _, t := range d.timers {
		t.stop()
	}
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	wait.Drain(ctx, &d.running, d.stop)
	d.stop()
}
