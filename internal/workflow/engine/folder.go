package engine

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

const (
	// FoldsAtOnce bounds the folds under way in one process: each holds a connection.
	FoldsAtOnce = 6
	foldTimeout = 30 * time.Second
	// timersWithin is how far ahead a process looks after timers itself; the sweep does
	// so for those beyond, and for those of processes that are gone.
	timersWithin = time.Minute
)

// folder folds runs beside each other, and each of them by one at a time: what wakes a run
// that is being folded has it folded once more.
type folder struct {
	engine  *Engine
	slots   chan struct{}
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	awake  map[notify.Key]*news // under way or about to be, with what came since; nil: nothing
	shares map[uuid.UUID]*share // of the workspaces of these
	timers map[notify.Key]timer
	closed bool
}

// share is what one workspace may have of the slots: all but one, so that however many of
// its runs are to be folded, another's finds one.
type share struct {
	slots chan struct{}
	runs  int // that are awake
}

type timer struct {
	at   time.Time
	stop func() bool
}

func newFolder(e *Engine) *folder {
	f := &folder{
		engine: e, slots: make(chan struct{}, FoldsAtOnce),
		awake: map[notify.Key]*news{}, shares: map[uuid.UUID]*share{}, timers: map[notify.Key]timer{},
	}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

// news is why a run is to be folded.
type news struct {
	executions []uuid.UUID    // that have finished
	unknown    bool           // whatever may have happened
	end        *execution.End // of one of the executions, to be written with the fold; nil: they have ended
}

// apart is what a fold that has nothing to do returns.
func (n news) apart() error {
	if n.end != nil {
		return execution.ErrApart
	}
	return nil
}

// settleTx does what goes with the end that is written with the fold.
func (n news) settleTx(ctx context.Context, tx *postgres.Tx, how *execution.Acceptance) error {
	if n.end == nil {
		return nil
	}
	how.InPlaceOf(n.end)
	return n.end.SettleTx(ctx, tx)
}

// wake has a run folded soon, whatever has happened to it.
func (f *folder) wake(key notify.Key) { f.add(key, news{unknown: true}) }

// add has a run folded soon for what is known to have happened.
func (f *folder) add(key notify.Key, n news) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	waiting, under := f.awake[key]
	if !under {
		mine := f.claim(key)
		f.running.Go(func() { f.work(key, mine, n) })
		return
	}
	if waiting == nil {
		waiting = &news{}
		f.awake[key] = waiting
	}
	waiting.executions = append(waiting.executions, n.executions...)
	waiting.unknown = waiting.unknown || n.unknown
}

// claim notes, under the lock, that a run is awake. next ends that.
func (f *folder) claim(key notify.Key) *share {
	f.awake[key] = nil
	mine := f.shares[key.WorkspaceID]
	if mine == nil {
		mine = &share{slots: make(chan struct{}, FoldsAtOnce-1)}
		f.shares[key.WorkspaceID] = mine
	}
	mine.runs++
	return mine
}

// now folds a run in the caller's time: once, if it is not awake and there is a slot.
func (f *folder) now(ctx context.Context, key notify.Key, n news) (err error) {
	f.mu.Lock()
	if _, under := f.awake[key]; under || f.closed {
		f.mu.Unlock()
		return execution.ErrApart
	}
	mine := f.claim(key)
	f.running.Add(1)
	f.mu.Unlock()
	defer f.running.Done()
	more := false
	defer func() {
		if came, again := f.next(key, mine, more, false); again {
			f.running.Go(func() { f.work(key, mine, came) })
		}
	}()
	if !f.free(mine) {
		return execution.ErrApart
	}
	defer f.leave(mine)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.ctx, cancel)()
	more, err = f.engine.bringOn(ctx, key, n)
	return err
}

// free is enter for one who does not wait.
func (f *folder) free(mine *share) bool {
	select {
	case mine.slots <- struct{}{}:
	default:
		return false
	}
	select {
	case f.slots <- struct{}{}:
		return true
	default:
		<-mine.slots
		return false
	}
}

// work folds a run until there is nothing to do at the moment. It asks for a slot before each
// fold, so a run that has much to do takes turns with others.
func (f *folder) work(key notify.Key, mine *share, n news) {
	for f.enter(mine) {
		more, err := f.engine.bringOn(f.ctx, key, n)
		f.leave(mine)
		if err != nil && f.ctx.Err() == nil && !postgres.Unavailable(err) {
			f.engine.Log.WarnContext(f.ctx, "a run was not brought on", "run_id", key.ID.String(), "error", err)
		}
		var again bool
		if n, again = f.next(key, mine, more, err != nil); !again {
			return
		}
	}
}

func (f *folder) enter(mine *share) bool {
	for _, slots := range []chan struct{}{mine.slots, f.slots} {
		select {
		case slots <- struct{}{}:
		case <-f.ctx.Done():
			return false
		}
	}
	return true
}

func (f *folder) leave(mine *share) {
	<-f.slots
	<-mine.slots
}

// next is why a run is to be folded again, if it is: not after a fold that failed, which the
// sweep comes back to.
func (f *folder) next(key notify.Key, mine *share, more, failed bool) (n news, again bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	came := f.awake[key]
	if failed || came == nil && !more {
		delete(f.awake, key)
		if mine.runs--; mine.runs == 0 {
			delete(f.shares, key.WorkspaceID)
		}
		return n, false
	}
	if came != nil {
		n, f.awake[key] = *came, nil
	}
	return n, true
}

// wakeAt has a run folded when a timer of it is due. Only the earliest counts.
func (f *folder) wakeAt(key notify.Key, after time.Duration) {
	if after > timersWithin {
		return
	}
	at := time.Now().Add(after)
	f.mu.Lock()
	defer f.mu.Unlock()
	if t, set := f.timers[key]; f.closed || set && !t.at.After(at) {
		return
	} else if set {
		t.stop()
	}
	set := time.AfterFunc(max(after, 0), func() {
		f.mu.Lock()
		delete(f.timers, key)
		f.mu.Unlock()
		f.wake(key)
	})
	f.timers[key] = timer{at: at, stop: set.Stop}
}

// close ends the folding. What is left is for other processes and for the next start.
func (f *folder) close() {
	f.mu.Lock()
	f.closed = true
	for _, t := range f.timers {
		t.stop()
	}
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	wait.Drain(ctx, &f.running, f.stop)
	f.stop()
}

// liveKept bounds the live stages of one run that a process remembers, and runsKept how many
// runs it does.
const (
	liveKept = 1_000
	runsKept = 1_000
)

// memory is of how runs stood at their last events: to ask for the stages that live at
// each would make each fold of a wide loop walk what has become of all.
type memory struct {
	mu   sync.Mutex
	runs map[uuid.UUID]stand
}

// stand is how a run stood. Every fold that changes a stage writes an event, so a run
// whose last event is still that one stands so.
type stand struct {
	seq  int64                  // of the event
	live []api.NonTerminalStage // nil: unknown
	root map[string]graph.State // of the components in no loop; nil: unknown
}

func (m *memory) get(run uuid.UUID, seq int64) stand {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.runs[run]; s.seq == seq {
		return s
	}
	return stand{}
}

// alone reports whether an execution is the only one that a run is known to wait for.
func (m *memory) alone(run, executionID uuid.UUID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	live := m.runs[run].live
	for i := range live { // a fold notes the progress of these meanwhile
		if id := live[i].ExecutionEventID; id != nil && *id != executionID {
			return false
		}
	}
	return live != nil
}

func (m *memory) put(run uuid.UUID, s stand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runs == nil || len(m.runs) >= runsKept {
		m.runs = map[uuid.UUID]stand{}
	}
	if len(s.live) == 0 || len(s.live) > liveKept {
		s.live = nil
	}
	m.runs[run] = s
}

func (m *memory) forget(run uuid.UUID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.runs, run)
}

// stands is how the run stands after this fold.
func (f *fold) stands() stand {
	s := stand{seq: f.run.EventSeq, root: f.stood.root}
	if len(f.live) == int(f.run.PendingCount) { // else there were too many to be read
		s.live = f.live
	}
	if root := f.scopes[place{iteration: written(nil)}]; root != nil && root.states != nil {
		s.root = root.states
	}
	return s
}
