package execution

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
)

// rooms caches how many direct executions each workspace may run in this process.
type rooms struct {
	mu   sync.Mutex
	read map[uuid.UUID]room
	used map[uuid.UUID]int // direct executions in flight
}

// room is what was last read of a workspace's account.
type room struct {
	solvent bool // has credits and storage left
	left    int  // executions until the fair share is used up
	at      time.Time
}

// maxRooms limits the cache. If it is full, it is cleared first.
const maxRooms = 10_000

// get returns what is known of a workspace's account, and whether it is recent enough.
func (r *rooms) get(workspaceID uuid.UUID) (known room, fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known = r.read[workspaceID]
	return known, time.Since(known.at) < knownFor
}

func (r *rooms) put(workspaceID uuid.UUID, known room) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.read == nil || len(r.read) >= maxRooms {
		r.read = map[uuid.UUID]room{}
	}
	r.read[workspaceID] = known
}

// forget makes the next direct execution of a workspace read its account again.
func (r *rooms) forget(workspaceID uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.read, workspaceID)
}

// acquire counts a direct execution of a workspace, and reports whether fewer than limit were in
// flight.
func (r *rooms) acquire(workspaceID uuid.UUID, limit int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used[workspaceID] >= limit {
		return false
	}
	if r.used == nil {
		r.used = map[uuid.UUID]int{}
	}
	r.used[workspaceID]++
	return true
}

func (r *rooms) release(workspaceID uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used[workspaceID]--; r.used[workspaceID] == 0 {
		delete(r.used, workspaceID)
	}
}

// reserveDirect reserves a slot for a direct execution if the workspace has credits and its fair
// share is not used up, and reports whether it did. It relies on what this process read of the
// account within knownFor; the commit checks the credits exactly.
func (s *Service) reserveDirect(ctx context.Context, workspaceID uuid.UUID) (bool, error) {
	known, fresh := s.rooms.get(workspaceID)
	if !fresh {
		row, err := db.New().AccountGetRoom(ctx, s.db, workspaceID)
		if err != nil {
			return false, fmt.Errorf("read account: %w", err)
		}
		active := billing.LoadOf(row.Live, row.Parked, row.Waiting).Active()
		known = room{solvent: row.Solvent, left: shareOf(int(row.Slots)) - active, at: time.Now()}
		s.rooms.put(workspaceID, known)
	}
	if !known.solvent || !s.rooms.acquire(workspaceID, known.left) {
		return false, nil
	}
	if !s.local.reserveSlot(0) {
		s.rooms.release(workspaceID)
		return false, nil
	}
	return true, nil
}

// releaseDirect releases what reserveDirect has reserved.
func (s *Service) releaseDirect(workspaceID uuid.UUID) {
	s.local.releaseSlot()
	s.rooms.release(workspaceID)
}
