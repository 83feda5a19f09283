package ratelimit

import (
	"sync"
	"time"
)

// probeEvery is the time between two looks at a store that was slow or down.
const probeEvery = 100 * time.Millisecond

// health says whether to ask the store. When it was slow or down, only a probe
// asks, one at a time.
type health struct {
	mu     sync.Mutex
	down   bool
	under  int // trips under way
	probed time.Time
}

// ask says whether the next decision goes to the store.
func (h *health) ask() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.down {
		return true
	}
	if h.under > 0 || time.Since(h.probed) < probeEvery {
		return false
	}
	h.probed = time.Now()
	return true
}

// late says that somebody waited for too long.
func (h *health) late() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down, h.probed = true, time.Now()
}

func (h *health) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.under++
}

// end says how a trip went. One that is too long must not have others wait for
// the next.
func (h *health) end(well bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.under--
	if h.down = !well; h.down {
		h.probed = time.Now()
	}
}
