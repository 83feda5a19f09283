package execution

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

// slots counts the executions that run in this process without going through the queue. The account
// limits how many accepted executions of a workspace run at once, in all processes. Direct executions
// are limited here: while a workspace uses nine tenths of the slots, or all but one if there are
// fewer than ten, it gets no further slot for one.
type slots struct {
	size int

	mu      sync.Mutex
	used    int
	of      map[uuid.UUID]int       // the slots that each workspace uses
	refused map[uuid.UUID]time.Time // when a workspace's account last didn't cover an execution
	closed  bool                    // finished executions start no more successors

	running sync.WaitGroup // the used slots, and other work of this process
}

const (
	// refusalLasts is how long a workspace whose account did not cover an execution runs none
	// directly. Otherwise it could compute results that it can't pay for.
	refusalLasts = 2 * time.Second
	// maxRefused limits the workspaces that are remembered. If there are more, all are forgotten.
	maxRefused = 10_000
)

func newSlots(size int) *slots {
	return &slots{size: size, of: map[uuid.UUID]int{}, refused: map[uuid.UUID]time.Time{}}
}

// acquire acquires a slot for an execution of a workspace, and reports whether it did. next is set
// for an execution that starts because another one has finished.
func (s *slots) acquire(workspaceID uuid.UUID, next bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used >= s.size || next && s.closed {
		return false
	}
	s.add(workspaceID)
	return true
}

// pass acquires the slot of an execution of a workspace that is finishing and releases its slot
// shortly after.
func (s *slots) pass(workspaceID uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(workspaceID)
}

func (s *slots) add(workspaceID uuid.UUID) {
	s.used++
	s.of[workspaceID]++
	s.running.Add(1)
}

func (s *slots) release(workspaceID uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	if s.of[workspaceID]--; s.of[workspaceID] == 0 {
		delete(s.of, workspaceID)
	}
	s.running.Done()
}

// acquireDirect acquires a slot for a direct execution, and reports whether it did.
func (s *slots) acquireDirect(workspaceID uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	share := max(1, s.size-max(1, s.size/10))
	if s.used >= s.size || s.of[workspaceID] >= share || time.Since(s.refused[workspaceID]) < refusalLasts {
		return false
	}
	s.add(workspaceID)
	return true
}

// refuse records that the account of a workspace did not cover an execution.
func (s *slots) refuse(workspaceID uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refused) >= maxRefused {
		clear(s.refused)
	}
	s.refused[workspaceID] = time.Now()
}

// close makes finished executions leave their successors to the queue.
func (s *slots) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

func (s *slots) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}
