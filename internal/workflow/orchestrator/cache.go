package orchestrator

import (
	"sync"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// Limits of runCache.
const (
	runsKept   = 1_000
	liveKept   = 1_000    // live stages of a run
	itemsBytes = 64 << 20 // of all runs
	itemHeader = 24       // bytes of a slice header
)

// runCache caches the runs that this process has advanced. Without it, every advance of a wide loop would
// read the items and the live stages of the loop. If the cache is full, it is cleared.
type runCache struct {
	mu   sync.Mutex
	runs map[uuid.UUID]*cachedRun
	size int // bytes of items
}

type cachedRun struct {
	runSummary
	loops map[uuid.UUID]engine.Items // items of unfinished loops
	size  int                        // bytes of items
}

// runSummary is the state of a run after an event. Every advance that changes a stage writes an
// event, so the summary is valid as long as that event is the last event.
type runSummary struct {
	seq  int64                  // sequence number of the event
	live []api.NonTerminalStage // stages that are not final; nil: unknown
	root map[string]graph.State // states of the components in no loop; nil: unknown
}

// get returns a run, after adding bytes to its size. The caller holds the mutex.
func (c *runCache) get(run uuid.UUID, bytes int) *cachedRun {
	r := c.runs[run]
	if c.runs == nil || r == nil && len(c.runs) == runsKept || c.size+bytes > itemsBytes {
		r, c.runs, c.size = nil, map[uuid.UUID]*cachedRun{}, 0
	}
	if r == nil {
		r = &cachedRun{loops: map[uuid.UUID]engine.Items{}}
		c.runs[run] = r
	}
	r.size += bytes
	c.size += bytes
	return r
}

// summary returns the state of a run after the event with sequence number seq. If the state is not
// cached, it returns a zero summary.
func (c *runCache) summary(run uuid.UUID, seq int64) runSummary {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.runs[run]; r != nil && r.seq == seq {
		return r.runSummary
	}
	return runSummary{}
}

// putSummary caches the state of a run after an advance.
func (c *runCache) putSummary(a *advance) {
	s := runSummary{seq: a.row.EventSeq, root: a.RootStates()}
	if n := len(a.live); n == int(a.Run.PendingCount) && 0 < n && n <= liveKept { // else there are more stages than were read, or too many
		s.live = a.live
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.get(a.row.ID, 0).runSummary = s
}

func (c *runCache) items(run, loop uuid.UUID) (items engine.Items, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.runs[run]; r != nil {
		items, known = r.loops[loop]
	}
	return items, known
}

func (c *runCache) putItems(run, loop uuid.UUID, items engine.Items) {
	size := len(items.List) * itemHeader // headers may be larger than the items
	for _, item := range items.List {
		size += len(item)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.get(run, size).loops[loop] = items
}

func (c *runCache) forget(run uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.runs[run]; r != nil {
		c.size -= r.size
		delete(c.runs, run)
	}
}
