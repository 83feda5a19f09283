// Package changes reports which runs and executions of a workspace change, to any number of streams.
//
// Changes come from the notifications that other readers use, which have IDs only. So the status of
// all IDs that changed within an interval is read with one query for each workspace with streams.
// New rows are found by the same query, because not every insert is notified. Without streams, the
// package does nothing. A stream that may have missed changes gets an event that says so.
package changes

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

const (
	pause     = 250 * time.Millisecond // at least this between two queries for a workspace
	findEvery = 2 * time.Second        // between two searches for new rows
	// newest is the age up to which rows count as new: a row may be committed some time after its ID
	// was created, by a process whose clock differs.
	newest    = 6 * time.Second
	maxNewest = 10_000
)

// Deps holds what the service depends on.
type Deps struct {
	API postgres.DB // sees only the workspace in the context
	Hub *notify.Hub
	Log *slog.Logger
}

// Service reports changes. It is safe for concurrent use.
type Service struct {
	Deps

	mu    sync.Mutex
	feeds map[uuid.UUID]*feed // by workspace; only those with streams
}

// NewService returns a Service.
func NewService(deps Deps) *Service { return &Service{Deps: deps, feeds: map[uuid.UUID]*feed{}} }

// feed reads the changes of one workspace for all its streams.
type feed struct {
	workspaceID uuid.UUID
	changed     *notify.Changes
	stop        context.CancelFunc
	streams     map[*stream]struct{} // guarded by Service.mu

	sent map[uuid.UUID]api.WorkspaceEvent // about rows that count as new
}

// Watch sends the changes of a workspace until ctx is done, and then closes the channel. The first
// event is a resync. Events with Kind nil are resyncs: changes may have been missed.
func (s *Service) Watch(ctx context.Context, workspaceID uuid.UUID) <-chan api.WorkspaceEvent {
	one := newStream()
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.feeds[workspaceID]
	if f == nil {
		f = &feed{workspaceID: workspaceID, changed: s.Hub.Collect(workspaceID), streams: map[*stream]struct{}{}, sent: map[uuid.UUID]api.WorkspaceEvent{}}
		feedCtx, stop := context.WithCancel(postgres.Scope(context.WithoutCancel(ctx), workspaceID))
		f.stop, s.feeds[workspaceID] = stop, f
		go s.run(feedCtx, f)
	}
	f.streams[one] = struct{}{}
	events := make(chan api.WorkspaceEvent)
	go func() {
		one.forward(ctx, events)
		s.leave(f, one)
	}()
	return events
}

// leave removes a stream. The feed ends with its last stream.
func (s *Service) leave(f *feed, one *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(f.streams, one)
	if len(f.streams) == 0 {
		delete(s.feeds, f.workspaceID)
		f.changed.Close()
		f.stop()
	}
}

// run reads changes and distributes them until ctx is done.
func (s *Service) run(ctx context.Context, f *feed) {
	find := time.NewTicker(findEvery)
	defer find.Stop()
	for {
		after := uuid.Max // no rows are newer
		select {
		case <-ctx.Done():
			return
		case <-find.C:
			after = cursor.LeastID(time.Now().Add(-newest))
		case <-f.changed.C():
		}
		ids, missed := f.changed.Take()
		events, all, err := s.read(ctx, f, ids, after)
		if err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "could not read the changes of a workspace; its streams get a resync", "workspace_id", f.workspaceID.String(), "error", err)
		}
		s.distribute(f, events, missed || !all || err != nil)
		if wait.For(ctx, pause) != nil {
			return
		}
	}
}

// read returns the events about the rows with the IDs and the rows newer than after. all is false if
// there are too many of the latter.
func (s *Service) read(ctx context.Context, f *feed, ids []uuid.UUID, after uuid.UUID) (events []api.WorkspaceEvent, all bool, err error) {
	if len(ids) == 0 && after == uuid.Max {
		return nil, true, nil
	}
	rows, err := db.New().WorkspaceListChanges(ctx, s.API, db.WorkspaceListChangesParams{WorkspaceID: f.workspaceID, Ids: ids, After: after, MaxRows: maxNewest})
	if err != nil {
		return nil, false, err
	}
	fresh, all := cursor.LeastID(time.Now().Add(-2*newest)), true
	maps.DeleteFunc(f.sent, func(id uuid.UUID, _ api.WorkspaceEvent) bool { return bytes.Compare(id[:], fresh[:]) < 0 })
	for _, row := range rows {
		all = all && !row.Truncated
		event := api.WorkspaceEvent{Kind: new(api.WorkspaceEventKind(row.Kind)), ID: &row.ID, Status: &row.Status, At: timestamp.Of(row.UpdatedAt)}
		last, known := f.sent[row.ID]
		if row.Kind == "stage" || known && *last.Status == row.Status && last.At.Std().Equal(row.UpdatedAt) {
			continue
		}
		if bytes.Compare(row.ID[:], fresh[:]) > 0 && len(f.sent) < maxNewest { // others may be reported twice
			f.sent[row.ID] = event
		}
		events = append(events, event)
	}
	return events, all, nil
}

// distribute adds events to all streams of a feed.
func (s *Service) distribute(f *feed, events []api.WorkspaceEvent, missed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range f.streams {
		one.add(events, missed)
	}
}
