package orchestrator

import (
	"encoding/json"
	"sync"

	"github.com/google/uuid"
)

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
