package receiver

import (
	"crypto/sha256"
	"sync"
)

// Repeat is the relation of a delivery to earlier ones of the same execution.
type Repeat string

// The relations. Weft sends the same bytes at every attempt (decisions 5.1).
const (
	First    Repeat = "first"
	Again    Repeat = "again"    // no earlier delivery was accepted
	Repeated Repeat = "repeated" // an earlier delivery with the same bytes was accepted
	Altered  Repeat = "altered"  // an earlier valid delivery had other bytes
)

// maxRemembered bounds the remembered executions; the oldest are evicted first.
const maxRemembered = 10_000

// memory remembers deliveries by execution. The zero value is ready to use.
type memory struct {
	mu    sync.Mutex
	known map[string]*arrivals
	order []string
}

// arrivals are the deliveries of one execution.
type arrivals struct {
	attempts int
	digest   [sha256.Size]byte // of the first sound delivery
	sound    bool              // a valid delivery was received
	accepted bool
}

// arrive records a delivery and returns its number within its execution. It compares later
// deliveries only with the first sound one, because anyone may have sent an unsound delivery.
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

// of returns the arrivals of an execution, adding it if necessary.
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

// accept records that a delivery of the execution got a 2xx.
func (m *memory) accept(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a, ok := m.known[id]; ok {
		a.accepted = true
	}
}
