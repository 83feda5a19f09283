package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// loop is an unfinished FOR_EACH in one iteration of the loops around it.
type loop struct {
	id          uuid.UUID
	componentID string
	iteration   []int32
	concurrency int32
	continues   bool // after an item failed
	count       int32
	next        int32 // index of the first item that has not started
	live        int32
	failed      int32
	stage       *stage // set if the loop is new in this fold
	late        bool   // the loop exceeded its timeout
	dirty       bool
	result      *stage                      // the loop's final state; nil: unfinished
	firstFailed []db.StageGetFirstFailedRow // the first failed item, if any, before this fold; nil: unknown
}

// failing reports whether no more items may start, because an item failed or the loop timed out.
func (l *loop) failing() bool { return l.late || l.failed > 0 && !l.continues }

// loopOf returns the loop that an iteration belongs to. The loop must have been read.
func (f *fold) loopOf(sc *scope) *loop {
	return f.loops[placeOf(sc.component, sc.iteration[:len(sc.iteration)-1])]
}

// addLoop adds an unfinished loop of an earlier fold.
func (f *fold) addLoop(l *loop, started *time.Time) error {
	p := placeOf(l.componentID, l.iteration)
	if f.loops[p] != nil {
		return nil
	}
	written, _ := f.plan.Component(l.componentID)
	c, err := f.resolve(written)
	if err != nil {
		return fmt.Errorf("read the config of a loop: %w", err)
	}
	l.configure(c.Config)
	l.late = f.late(l.componentID, started)
	f.loops[p] = l
	return nil
}

// configure reads the config of a loop (components.md).
func (l *loop) configure(config json.RawMessage) {
	var c struct {
		Concurrency   int32  `json:"concurrency"`
		OnItemFailure string `json:"onItemFailure"`
	}
	_ = json.Unmarshal(config, &c) // the config was validated when the workflow was saved
	l.concurrency, l.continues = c.Concurrency, c.OnItemFailure == graph.OnFailureContinue
	if l.concurrency < 1 || l.concurrency > 100 {
		l.concurrency = 10
	}
}

// fill starts items until the loop's concurrency is reached. If no items are left, it finishes the
// loop.
func (f *fold) fill(l *loop) {
	if l.result != nil {
		return
	}
	parent := f.scopeOf(l.componentID, l.iteration)
	stopped := f.stopped(parent) || l.failing()
	for !stopped && l.next < l.count && l.live < l.concurrency {
		if f.full() || f.first && slices.ContainsFunc(f.plan.Members(l.componentID), f.computable) {
			f.more = true
			break
		}
		sc := f.scope(l.componentID, append(slices.Clone(l.iteration), l.next))
		sc.queued = true
		if len(f.run.RerunOf) == 0 { // in a rerun, the item may have reused stages
			sc.states = map[string]graph.State{}
		}
		l.next, l.live, l.dirty, f.changed = l.next+1, l.live+1, true, true
		f.fresh = append(f.fresh, sc)
	}
	if l.live > 0 || l.next < l.count && !stopped {
		return
	}
	end := &stage{status: status.StageCompleted, port: graph.PortDone}
	switch {
	case l.late:
		c, _ := f.plan.Component(l.componentID)
		end = (&stage{}).failed(errLate(c))
	case l.failing():
		if l.firstFailed == nil && !f.unstored() {
			add(&f.need.first, l)
			f.unfilled = append(f.unfilled, l)
			return
		}
		end = (&stage{}).failed(itemFailed(l, f.firstFailed(l)))
		end.failure = f.redactFailure(end)
	case stopped: // items are unfinished or have not started
		end = &stage{status: status.StageCanceled}
	default:
		end.output = json.RawMessage(fmt.Sprintf(`{"count":%d,"failedItems":%d}`, l.count, l.failed))
	}
	f.finishLoop(l, end)
}

// postponeItems leaves iterations that have not started anything to the next fold. These
// iterations are the last ones of their loops.
func (f *fold) postponeItems() {
	for _, sc := range f.fresh {
		l := f.loopOf(sc)
		l.next, l.live, f.more = l.next-1, l.live-1, true
		delete(f.scopes, sc.place)
	}
	f.fresh = nil
}

// finishLoop finishes a loop with the final state in end.
func (f *fold) finishLoop(l *loop, end *stage) {
	l.result, f.changed = end, true
	f.run.PendingCount--
	if end.status == status.StageFailed {
		f.run.FailedCount++
	}
	if l.stage != nil {
		l.stage.status, l.stage.port, l.stage.output, l.stage.failure = end.status, end.port, end.output, end.failure
	} else {
		f.finishedLoops = append(f.finishedLoops, l)
	}
	f.countOutput(int64(len(end.output)))
	f.values[placeOf(l.componentID, l.iteration)] = outputValue{output: end.output} // the output is not stored yet, so askOutputs would not find it
	parent := f.scopeOf(l.componentID, l.iteration)
	f.setState(parent, l.componentID, graph.State{Status: end.status, Port: end.port})
	f.failures[placeOf(l.componentID, l.iteration)] = stageFailure{l.id, end.failure}
}

// finishIteration counts a finished iteration. failed is the component with an unhandled failure
// in the iteration, or "".
func (f *fold) finishIteration(sc *scope, failed string) {
	l := f.loopOf(sc)
	if l == nil || l.result != nil {
		return
	}
	l.live, l.dirty, f.changed = l.live-1, true, true
	f.itemsDone++
	if failed != "" {
		l.failed++
		f.more = f.more || l.failing() && l.live > 0 // the next fold cancels the waiting stages of the other items
	}
	f.fill(l)
}

// itemsBytes limits the size of itemCache.
const (
	itemsBytes = 64 << 20
	itemHeader = 24 // bytes of a slice header
)

// itemCache caches the items of unfinished loops, which every fold of the loop needs.
type itemCache struct {
	mu    sync.Mutex
	size  int
	loops map[uuid.UUID]cachedItems
}

type cachedItems struct {
	run    uuid.UUID
	items  []json.RawMessage
	secret bool
	size   int
}

func (c *itemCache) get(id uuid.UUID) (cachedItems, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cached, ok := c.loops[id]
	return cached, ok
}

func (c *itemCache) put(run, id uuid.UUID, items []json.RawMessage, secret bool, size int) cachedItems {
	c.mu.Lock()
	defer c.mu.Unlock()
	size += len(items) * itemHeader // headers may be larger than the items
	if c.loops == nil || c.size+size > itemsBytes {
		c.loops, c.size = map[uuid.UUID]cachedItems{}, 0
	}
	if _, known := c.loops[id]; !known {
		c.loops[id] = cachedItems{run, items, secret, size}
		c.size += size
	}
	return c.loops[id]
}

func (c *itemCache) forget(run uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, cached := range c.loops {
		if cached.run == run {
			delete(c.loops, id)
			c.size -= cached.size
		}
	}
}

// storedItems returns the items of a loop in the form in which they are stored, with references to
// variables instead of their values.
func (f *fold) storedItems(sc *scope, componentID string, items json.RawMessage) (json.RawMessage, error) {
	written, _ := f.plan.Component(componentID)
	if len(envref.Names(written.Input)) == 0 {
		return items, nil
	}
	input, _, err := f.bind(sc, written)
	if err != nil {
		return nil, err
	}
	var in struct{ Items json.RawMessage }
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, fmt.Errorf("read the items of a loop: %w", err)
	}
	return in.Items, nil
}

// readItems resolves the references to variables in stored items.
func (f *fold) readItems(componentID string, stored json.RawMessage) (json.RawMessage, error) {
	written, _ := f.plan.Component(componentID)
	if len(envref.Names(written.Input)) == 0 {
		return stored, nil
	}
	if f.variables.err != nil {
		return nil, f.variables.err
	}
	items, err := strictjson.Encode(map[string]json.RawMessage{"items": stored})
	if err == nil {
		items, err = f.variables.Values.ResolveAs("/input", items, written.Input)
	}
	var in struct{ Items json.RawMessage }
	if err == nil {
		err = json.Unmarshal(items, &in)
	}
	return in.Items, err
}
