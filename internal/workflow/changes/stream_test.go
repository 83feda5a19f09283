package changes

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/status"
)

func event(id uuid.UUID, now status.Run) api.WorkspaceEvent {
	return api.WorkspaceEvent{Kind: new(api.WorkspaceEventKindRun), ID: &id, Status: &now}
}

// A slow reader gets the latest status of each ID once, or one resync instead of too many events.
func TestASlowReaderGetsTheLatestStatusOfEachID(t *testing.T) {
	a, b := uuid.New(), uuid.New()
	var many []api.WorkspaceEvent
	for range maxPending + 1 {
		many = append(many, event(uuid.New(), status.RunCreated))
	}
	started, done, other := event(a, status.RunExecuting), event(a, status.RunCompleted), event(b, status.RunFailed)
	resync := api.WorkspaceEvent{}
	for name, tc := range map[string]struct {
		add  func(*stream)
		want []api.WorkspaceEvent
	}{
		"nothing":  {func(s *stream) { s.add(nil, false) }, nil},
		"in order": {func(s *stream) { s.add([]api.WorkspaceEvent{started, other}, false) }, []api.WorkspaceEvent{started, other}},
		"merged": {func(s *stream) {
			s.add([]api.WorkspaceEvent{started, other}, false)
			s.add([]api.WorkspaceEvent{done}, false)
		}, []api.WorkspaceEvent{done, other}},
		"missed":              {func(s *stream) { s.add([]api.WorkspaceEvent{started}, true) }, []api.WorkspaceEvent{resync}},
		"too many":            {func(s *stream) { s.add(many, false) }, []api.WorkspaceEvent{resync}},
		"after a resync":      {func(s *stream) { s.add(nil, true); s.add([]api.WorkspaceEvent{done}, false) }, []api.WorkspaceEvent{resync, done}},
		"missed twice at one": {func(s *stream) { s.add(nil, true); s.add(nil, true) }, []api.WorkspaceEvent{resync}},
	} {
		s := newStream()
		if first, ok := s.next(); !ok || first.Kind != nil {
			t.Fatalf("%s: the first event is %v, %v", name, first, ok)
		}
		tc.add(s)
		var got []api.WorkspaceEvent
		for one, ok := s.next(); ok; one, ok = s.next() {
			got = append(got, one)
		}
		same := len(got) == len(tc.want)
		for i := range min(len(got), len(tc.want)) {
			resyncs := got[i].Kind == nil && tc.want[i].Kind == nil
			same = same && (resyncs || got[i].ID != nil && tc.want[i].ID != nil && *got[i].ID == *tc.want[i].ID && *got[i].Status == *tc.want[i].Status)
		}
		if !same || len(s.pending) > 0 {
			t.Errorf("%s: got %v, want %v; %d pending", name, got, tc.want, len(s.pending))
		}
	}
}

func TestFirstIDIsTheLowestOfItsTime(t *testing.T) {
	id := uuid.Must(uuid.NewV7())
	at := time.Unix(id.Time().UnixTime())
	before, after := cursor.LeastID(at.Truncate(time.Millisecond)), cursor.LeastID(at.Add(time.Millisecond))
	if before.String() > id.String() || after.String() <= id.String() {
		t.Errorf("%s is not between %s and %s", id, before, after)
	}
}
