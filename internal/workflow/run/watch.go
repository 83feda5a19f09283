package run

import (
	"context"
	"errors"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// eventsAtOnce is how many events are read at once.
const eventsAtOnce = 100

// rereadAfter is when a watch reads again after a read that failed.
const rereadAfter = time.Second

// Watch sends the events of a run's log after the given one, in their order and none
// twice, and closes the channel after the final one or when ctx ends. Without one, or
// where there is none after it, the present state comes first. It reads before it returns,
// so that NOT_FOUND and FORBIDDEN are ordinary errors (decisions 8.11).
func (s *Service) Watch(ctx context.Context, key notify.Key, who Access, after *int64) (<-chan api.RunEvent, error) {
	changed := s.Hub.Subscribe(key)
	row, err := s.allowed(ctx, key, who)
	if err != nil {
		changed.Close()
		return nil, err
	}
	last := row.EventSeq - 1 // the present state is the last event
	if after != nil && *after < row.EventSeq {
		last = max(*after, 0)
	}
	events := make(chan api.RunEvent, 1)
	if row.EventSeq == 0 {
		last = 0
		events <- begun(row)
	}
	w := watcher{service: s, key: key, last: last, events: events}
	changed.Follow(ctx, func() (over bool) { return w.look(ctx) })
	changed.Wake()
	return events, nil
}

// EndedWith reports whether the run is over and seq is its final event. It returns the errors
// of Watch.
func (s *Service) EndedWith(ctx context.Context, key notify.Key, who Access, seq int64) (bool, error) {
	row, err := s.allowed(ctx, key, who)
	return err == nil && row.Status.Terminal() && row.EventSeq == seq, err
}

// begun is the state of a run that nothing has happened in yet.
func begun(row db.RunGetRow) api.RunEvent {
	return api.RunEvent{ID: row.ID, Status: row.Status, Output: []byte(`{"totalUsage":0,"pendingStageCount":0,"failedStageCount":0}`), Timestamp: present.Run(row).CreatedAt}
}

// watcher sends the events of a run.
type watcher struct {
	service *Service
	key     notify.Key
	last    int64 // that was sent
	events  chan<- api.RunEvent
}

// look sends what has come after the last event that was sent. It returns true, with the
// channel closed, once that was the final one, or ctx has ended.
func (w *watcher) look(ctx context.Context) (over bool) {
	for {
		more, err := w.send(ctx)
		switch {
		case errors.Is(err, errFinal) || ctx.Err() != nil:
			close(w.events)
			return true
		case err != nil:
			_ = wait.For(ctx, rereadAfter)
		case !more:
			return false
		}
	}
}

// errFinal says that a run's final event is sent.
var errFinal = errors.New("the run is over")

// send sends so many events as are read at once, and tells whether there may be more.
func (w *watcher) send(ctx context.Context) (more bool, err error) {
	rows, err := w.service.events(ctx, w.key, w.last, eventsAtOnce)
	if err != nil {
		return false, err
	}
	for _, row := range rows {
		select {
		case w.events <- present.RunEvent(w.key.ID, row):
		case <-ctx.Done():
			return false, ctx.Err()
		}
		w.last = row.Seq
		if row.Status.Terminal() {
			return false, errFinal
		}
	}
	return len(rows) == eventsAtOnce, nil
}

// Changed is the notify.Relay's check: which of the keys ended, or changed within the
// given time.
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
