package run

import (
	"context"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// eventBatch is the number of events that one query reads.
const eventBatch = 100

// retryAfter is the delay after a failed read.
const retryAfter = time.Second

// Watch sends the events of a run that come after the event with the sequence number afterSeq, in
// order and each once. It closes the channel after the final event or when ctx ends. If afterSeq is
// nil, or no later event exists, Watch sends the current state first. It reads the run before it
// returns, so that NOT_FOUND and FORBIDDEN are ordinary errors (decisions 8.11).
func (s *Service) Watch(ctx context.Context, key notify.Key, access Access, afterSeq *int64) (<-chan api.RunEvent, error) {
	changed := s.Hub.Subscribe(key)
	row, err := s.getAllowed(ctx, key, access)
	if err != nil {
		changed.Close()
		return nil, err
	}
	last := row.EventSeq - 1 // so that the last event, which has the current state, is sent
	if afterSeq != nil && *afterSeq < row.EventSeq {
		last = max(*afterSeq, 0)
	}
	events := make(chan api.RunEvent, 1)
	if row.EventSeq == 0 {
		last = 0
		events <- createdEvent(row)
	}
	w := watcher{service: s, key: key, last: last, events: events}
	changed.Follow(ctx, func() (over bool) { return w.sendNew(ctx) })
	changed.Wake()
	return events, nil
}

// IsFinalEvent reports whether the run is finished and seq is its last event. It returns the errors
// of Watch.
func (s *Service) IsFinalEvent(ctx context.Context, key notify.Key, access Access, seq int64) (bool, error) {
	row, err := s.getAllowed(ctx, key, access)
	return err == nil && row.Status.Terminal() && row.EventSeq == seq, err
}

// createdEvent returns the state of a run that has no events yet.
func createdEvent(row db.RunGetRow) api.RunEvent {
	return api.RunEvent{ID: row.ID, Status: row.Status, Output: []byte(`{"totalUsage":0,"pendingStageCount":0,"failedStageCount":0}`), Timestamp: present.Run(row).CreatedAt}
}

// watcher sends the events of a run to a channel.
type watcher struct {
	service *Service
	key     notify.Key
	last    int64 // sequence number of the last event that was sent
	events  chan<- api.RunEvent
}

// sendNew sends the events after the last event that was sent. It closes the channel and returns
// true after the final event, or if ctx has ended.
func (w *watcher) sendNew(ctx context.Context) (over bool) {
	for ctx.Err() == nil {
		rows, err := w.service.events(ctx, w.key, w.last, eventBatch)
		if err != nil {
			_ = wait.For(ctx, retryAfter)
			continue
		}
		for _, row := range rows {
			select {
			case w.events <- present.RunEvent(w.key.ID, row):
				w.last, over = row.Seq, row.Status.Terminal()
			case <-ctx.Done():
				over = true
			}
			if over {
				close(w.events)
				return true
			}
		}
		if len(rows) < eventBatch && ctx.Err() == nil {
			return false
		}
	}
	close(w.events)
	return true
}

// Changed returns the check for notify.Relay. The check returns the keys whose runs have finished,
// or changed within the specified duration.
func Changed(conn postgres.DB) func(context.Context, []notify.Key, time.Duration) ([]notify.Key, error) {
	return func(ctx context.Context, keys []notify.Key, within time.Duration) ([]notify.Key, error) {
		p := db.RunChangedSinceParams{Since: within}
		for _, key := range keys {
			p.WorkspaceIds, p.Ids = append(p.WorkspaceIds, key.WorkspaceID), append(p.Ids, key.ID)
		}
		rows, err := db.New().RunChangedSince(ctx, conn, p)
		changed := make([]notify.Key, len(rows))
		for i, row := range rows {
			changed[i] = notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}
		}
		return changed, err
	}
}
