package notify

import (
	"slices"

	"github.com/google/uuid"
)

// maxCollected is how many changed rows of a workspace are collected between two calls of Take.
const maxCollected = 2000

// anything is a key that means that any row may have changed. Earlier versions ignore it.
var anything Key

// Changes collects the IDs of the rows of one workspace that change. Unlike a Subscription, it is not
// backed by polling: Take reports when notifications may have been lost.
type Changes struct {
	hub         *Hub
	workspaceID uuid.UUID
	c           chan struct{}
	ids         map[uuid.UUID]struct{} // guarded by hub.mu, and so is missed
	missed      bool
}

// Collect starts collecting the changes of a workspace. It adds no work to Publish for other
// workspaces, and no notifications.
func (h *Hub) Collect(workspaceID uuid.UUID) *Changes {
	c := &Changes{hub: h, workspaceID: workspaceID, c: make(chan struct{}, 1), ids: map[uuid.UUID]struct{}{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.collecting[workspaceID] = append(h.collecting[workspaceID], c)
	return c
}

// C returns a channel that receives after a change. Several changes may be merged into one receive.
func (c *Changes) C() <-chan struct{} { return c.c }

// Take removes and returns the collected IDs. missed reports whether there may have been other
// changes.
func (c *Changes) Take() (ids []uuid.UUID, missed bool) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	for id := range c.ids {
		ids = append(ids, id)
	}
	clear(c.ids)
	missed, c.missed = c.missed, false
	return ids, missed
}

// Close stops collecting.
func (c *Changes) Close() {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	all := c.hub.collecting
	all[c.workspaceID] = slices.DeleteFunc(all[c.workspaceID], func(other *Changes) bool { return other == c })
	if len(all[c.workspaceID]) == 0 {
		delete(all, c.workspaceID)
	}
}

// add adds a changed row. The caller must hold hub.mu.
func (c *Changes) add(id uuid.UUID) {
	if len(c.ids) < maxCollected {
		c.ids[id] = struct{}{}
		c.signal()
		return
	}
	if _, known := c.ids[id]; !known {
		c.miss()
	}
}

// miss records that there may have been other changes. The caller must hold hub.mu.
func (c *Changes) miss() {
	c.missed = true
	c.signal()
}

func (c *Changes) signal() {
	select {
	case c.c <- struct{}{}:
	default:
	}
}

// collect adds a changed row to the collected changes. The caller must hold h.mu.
func (h *Hub) collect(key Key) {
	if key == anything {
		h.missAll()
		return
	}
	for _, c := range h.collecting[key.WorkspaceID] {
		c.add(key.ID)
	}
}

// missAll records for all collected changes that there may have been others. The caller must hold
// h.mu.
func (h *Hub) missAll() {
	for _, changes := range h.collecting {
		for _, c := range changes {
			c.miss()
		}
	}
}

// lost records that changes are not known in this process.
func (h *Hub) lost() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.missAll()
}

// unsent records that other processes were not notified of changes. They are notified that anything
// may have changed, instead.
func (h *Hub) unsent() {
	h.outMu.Lock()
	h.outLost = true
	h.outMu.Unlock()
	h.wakeSender()
}
