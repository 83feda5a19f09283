package sse

import (
	"sync"
	"time"
)

// sink writes whole frames to a client.
type sink interface {
	writeFrame(text []byte) error
}

// stream is an open response. Events and heartbeats are written by different goroutines.
type stream struct {
	sink   sink
	once   sync.Once
	failed chan struct{} // closed by fail
	err    error         // of fail; read it once failed is closed

	mu      sync.Mutex // held while a frame is written
	beat    *time.Timer
	stopped bool
}

// write writes a frame. It returns the error of an earlier failure without writing anything.
func (s *stream) write(text []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.failed:
		return s.err
	default:
		return s.sink.writeFrame(text)
	}
}

// fail ends the stream because of err, unless it has failed before.
func (s *stream) fail(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.failed)
	})
}

// startHeartbeat writes a heartbeat at every interval until stopHeartbeat returns. Between two
// heartbeats there is only a timer, because a waiting goroutine would need kilobytes.
func (s *stream) startHeartbeat(every time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beat = time.AfterFunc(every, func() { s.writeHeartbeat(every) })
}

func (s *stream) writeHeartbeat(every time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	if err := s.sink.writeFrame(heartbeat); err != nil {
		s.fail(err)
		return
	}
	s.beat.Reset(every)
}

// stopHeartbeat stops the heartbeat. It waits for a heartbeat that is being written.
func (s *stream) stopHeartbeat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.beat != nil {
		s.beat.Stop()
	}
}
