package engine

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/graph"
	"github.com/weft-automation/weft/internal/notify"
	"github.com/weft-automation/weft/internal/postgres"
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
	executions []uuid.UUID // that have finished
	unknown    bool        // whatever may have happened
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
		f.awake[key] = nil
		mine := f.shares[key.WorkspaceID]
		if mine == nil {
			mine = &share{slots: make(chan struct{}, FoldsAtOnce-1)}
			f.shares[key.WorkspaceID] = mine
		}
		mine.runs++
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
	done := make(chan struct{})
	go func() { f.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(2 * time.Second):
		f.stop()
		<-done
	}
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

const (
	dueAtOnce = 500
	// behindEvery is how often the sweep looks for runs whose folds were lost, of how many
	// executions, and behindAfter how long a fold may be on its way before it counts as that.
	behindEvery  = 2 * time.Second
	behindAtOnce = 5_000
	behindAfter  = time.Second
)

// Sweeper folds the runs that nobody else does: those whose timers are due, and those
// whose folds were lost with a process. One process sweeps at a time. It goes through what
// there is in parts, and begins again after the last one.
type Sweeper struct {
	// Schedule is told which schedules are due, each second; it returns at once. Nil: nobody
	// is.
	Schedule func(notify.Key)

	engine    *Engine
	due       mark      // the last run that was due
	schedules mark      // the last schedule that was
	waiting   mark      // the last schedule of which a run waits
	again     time.Time // when to look for lost folds
	behind    uuid.UUID // the last execution that was looked at for them
}

// NewSweeper makes a sweeper.
func NewSweeper(e *Engine) *Sweeper { return &Sweeper{engine: e} }

// Sweep is to be called about every second. Failures are logged: the next call comes
// soon.
func (w *Sweeper) Sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := w.sweep(ctx); err != nil && ctx.Err() == nil && !postgres.Unavailable(err) {
		w.engine.Log.WarnContext(ctx, "runs were not swept", "error", err)
	}
}

func (w *Sweeper) sweep(ctx context.Context) error {
	if err := w.wakeDue(ctx); err != nil {
		return fmt.Errorf("list runs that are due: %w", err)
	}
	if time.Now().Before(w.again) {
		return nil
	}
	w.again = time.Now().Add(behindEvery)
	if err := w.wakeBehind(ctx); err != nil {
		return fmt.Errorf("list runs that are behind: %w", err)
	}
	return nil
}

func (w *Sweeper) wakeDue(ctx context.Context) error {
	e := w.engine
	rows, err := db.New().RunListDue(ctx, e.System, db.RunListDueParams{
		After: w.due.at, SchedulesAfter: w.schedules.at, SchedulesAfterID: w.schedules.id, WaitingAfter: w.waiting.id, MaxRows: dueAtOnce,
	})
	if err != nil {
		return err
	}
	var runs, schedules, waiting page
	for _, row := range rows {
		key := notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}
		switch row.Kind {
		case "run":
			e.folder.wake(key)
			runs.add(mark{row.At, row.ID})
			continue
		case "schedule":
			schedules.add(mark{row.At, row.ID})
		case "waiting":
			waiting.add(mark{id: row.ID})
		}
		if w.Schedule != nil {
			w.Schedule(key)
		}
	}
	w.due, w.schedules, w.waiting = runs.next(), schedules.next(), waiting.next()
	return nil
}

// mark is how far a sweep has read: times come in order, and at the same time ids.
type mark struct {
	at time.Time
	id uuid.UUID
}

func (m mark) compare(other mark) int {
	return cmp.Or(m.at.Compare(other.at), bytes.Compare(m.id[:], other.id[:]))
}

// page is what a sweep has read of what is due.
type page struct {
	rows int
	last mark
}

func (p *page) add(m mark) {
	p.rows++
	if m.compare(p.last) > 0 {
		p.last = m
	}
}

// next is where the next sweep begins: after all that was read, if there may be more.
func (p *page) next() mark {
	if p.rows < dueAtOnce {
		return mark{}
	}
	return p.last
}

func (w *Sweeper) wakeBehind(ctx context.Context) error {
	e := w.engine
	rows, err := db.New().RunListBehind(ctx, e.System, db.RunListBehindParams{After: w.behind, Grace: behindAfter, MaxRows: behindAtOnce})
	if err != nil {
		return err
	}
	w.behind = uuid.Nil
	for _, row := range rows {
		if row.Behind {
			e.folder.wake(notify.Key{WorkspaceID: row.WorkspaceID, ID: row.RunID})
		}
	}
	if len(rows) == behindAtOnce {
		w.behind = rows[len(rows)-1].ExecutionID
	}
	return nil
}
