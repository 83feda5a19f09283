package receiver

import (
	"crypto/sha256"
	"sync"
)

// Repeat is how a delivery stands to earlier ones of the same execution.
type Repeat string

// The kinds of repeats. Weft sends the same bytes at every attempt (decisions 5.1).
const (
	First    Repeat = "first"
	Again    Repeat = "again"    // none was accepted before
	Repeated Repeat = "repeated" // one was, with the same bytes
	Altered  Repeat = "altered"  // one that was not refused had other bytes
)

// maxRemembered bounds how many executions are remembered; the oldest go first.
const maxRemembered = 10_000

// memory knows the executions that deliveries came for. The zero value is ready.
type memory struct {
	mu    sync.Mutex
	known map[string]*arrivals
	order []string
}

// arrivals is what came for one execution.
type arrivals struct {
	attempts int
	digest   [sha256.Size]byte // of the first one that was sound
	sound    bool              // there was one
	accepted bool
}

// arrive notes a delivery and says the how manyth of its execution it is. One that
// is not sound, whose sender may be anybody, is no measure for the bytes of others.
func (m *memory) arrive(id string, body []byte, sound bool) (attempt int, repeat Repeat) {
	if id == "" {
		return 1, First
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.of(id)
	a.attempts++
	digest := sha256.Sum256(body)
	switch {
	case a.sound && sound && digest != a.digest:
		return a.attempts, Altered
	case a.accepted && digest == a.digest:
		return a.attempts, Repeated
	}
	if sound && !a.sound {
		a.sound, a.digest = true, digest
	}
	if a.attempts == 1 {
		return 1, First
	}
	return a.attempts, Again
}

// of finds an execution, or begins to remember it.
func (m *memory) of(id string) *arrivals {
	if a, ok := m.known[id]; ok {
		return a
	}
	if m.known == nil {
		m.known = map[string]*arrivals{}
	}
	if len(m.order) == maxRemembered {
		delete(m.known, m.order[0])
		m.order = m.order[1:]
	}
	a := &arrivals{}
	m.known[id] = a
	m.order = append(m.order, id)
	return a
}

// accept notes that a delivery of the execution was answered as received.
func (m *memory) accept(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a, ok := m.known[id]; ok {
		a.accepted = true
	}
}
