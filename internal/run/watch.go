package run

import (
	"context"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/notify"
	"github.com/weft-automation/weft/internal/postgres"
	"github.com/weft-automation/weft/internal/record"
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
	go s.follow(ctx, changed, last, events)
	return events, nil
}

// begun is the state of a run that nothing has happened in yet.
func begun(row db.RunGetRow) api.RunEvent {
	return api.RunEvent{ID: row.ID, Status: row.Status, Output: []byte(`{"totalUsage":0,"pendingStageCount":0,"failedStageCount":0}`), Timestamp: record.Run(row).CreatedAt}
}

// follow sends what comes after the last event that was sent.
func (s *Service) follow(ctx context.Context, changed *notify.Subscription, last int64, events chan<- api.RunEvent) {
	defer changed.Close()
	defer close(events)
	for {
		var retry <-chan time.Time
		for {
			rows, err := s.events(ctx, changed.Key(), last, eventsAtOnce)
			if err != nil {
				retry = time.After(rereadAfter)
				break
			}
			for _, row := range rows {
				select {
				case events <- record.RunEvent(changed.Key().ID, row):
				case <-ctx.Done():
					return
				}
				last = row.Seq
				if row.Status.Terminal() {
					return
				}
			}
			if len(rows) < eventsAtOnce {
				break
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed.C():
		case <-retry:
		}
	}
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
