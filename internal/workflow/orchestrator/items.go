package orchestrator

import (
	"sync"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/workflow/engine"
)

// itemsBytes limits the size of itemCache.
const (
	itemsBytes = 64 << 20
	itemHeader = 24 // bytes of a slice header
)

// itemCache caches the items of unfinished loops, which every advance of the loop needs.
type itemCache struct {
	mu    sync.Mutex
	size  int
	loops map[uuid.UUID]cachedItems
}

type cachedItems struct {
	engine.Items
	run  uuid.UUID
	size int
}

func (c *itemCache) get(id uuid.UUID) (engine.Items, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cached, ok := c.loops[id]
	return cached.Items, ok
}

func (c *itemCache) put(run, id uuid.UUID, items engine.Items) {
	size := len(items.List) * itemHeader // headers may be larger than the items
	for _, item := range items.List {
		size += len(item)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loops == nil || c.size+size > itemsBytes {
		c.loops, c.size = map[uuid.UUID]cachedItems{}, 0
	}
	if _, known := c.loops[id]; !known {
		c.loops[id] = cachedItems{items, run, size}
		c.size += size
	}
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
