package changes

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// maxPending is how many changed IDs wait for a slow reader. If there are more, the reader gets a
// resync instead.
const maxPending = 1000

// stream holds the events that one reader has not received yet: at most one of each ID, the latest.
type stream struct {
	more chan struct{} // receives after events were added

	mu      sync.Mutex
	resync  bool
	order   []uuid.UUID
	pending map[uuid.UUID]api.WorkspaceEvent
}

// newStream returns a stream that starts with a resync.
func newStream() *stream {
	return &stream{more: make(chan struct{}, 1), resync: true, pending: map[uuid.UUID]api.WorkspaceEvent{}}
}

// add adds events, and a resync if changes may have been missed.
func (s *stream) add(events []api.WorkspaceEvent, missed bool) {
	if len(events) == 0 && !missed {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, event := range events {
		if _, waits := s.pending[*event.ID]; !waits {
			s.order = append(s.order, *event.ID)
		}
		s.pending[*event.ID] = event
	}
	if missed || len(s.order) > maxPending {
		s.resync, s.order = true, nil
		clear(s.pending)
	}
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// next removes and returns the next event.
func (s *stream) next() (event api.WorkspaceEvent, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resync {
		s.resync = false
		return api.WorkspaceEvent{At: timestamp.Of(time.Now())}, true
	}
	if len(s.order) == 0 {
		return event, false
	}
	id := s.order[0]
	s.order = s.order[1:]
	event = s.pending[id]
	delete(s.pending, id)
	return event, true
}

// forward sends the events until ctx is done, and then closes the channel.
func (s *stream) forward(ctx context.Context, events chan<- api.WorkspaceEvent) {
	defer close(events)
	for {
		event, ok := s.next()
		if !ok {
			select {
			case <-s.more:
				continue
			case <-ctx.Done():
				return
			}
		}
		select {
		case events <- event:
		case <-ctx.Done():
			return
		}
	}
}
