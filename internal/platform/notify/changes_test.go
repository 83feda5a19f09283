package notify

import (
	"slices"
	"testing"

	"github.com/google/uuid"
)

func TestChangesOfAWorkspaceAreCollected(t *testing.T) {
	workspace, one, two := uuid.New(), uuid.New(), uuid.New()
	many := make([]Change, maxCollected+1)
	for i := range many {
		many[i].Key = Key{workspace, uuid.New()}
	}
	for name, tc := range map[string]struct {
		do     func(*Hub)
		want   []uuid.UUID
		count  int // of many IDs
		missed bool
	}{
		"nothing":              {do: func(*Hub) {}},
		"here":                 {do: func(h *Hub) { h.Publish(Change{Key: Key{workspace, one}}) }, want: []uuid.UUID{one}},
		"elsewhere":            {do: func(h *Hub) { h.wake([]Key{{workspace, one}}) }, want: []uuid.UUID{one}},
		"twice":                {do: func(h *Hub) { h.wake([]Key{{workspace, one}, {workspace, two}, {workspace, one}}) }, want: []uuid.UUID{one, two}},
		"of another workspace": {do: func(h *Hub) { h.wake([]Key{{two, one}}) }},
		"too many":             {do: func(h *Hub) { h.Publish(many...) }, count: maxCollected, missed: true},
		"reconnected":          {do: func(h *Hub) { h.wakeAll() }, missed: true},
		"no notifications":     {do: func(h *Hub) { h.lost() }, missed: true},
		"a process lost keys":  {do: func(h *Hub) { h.wake(decode(encode([]Key{anything}))) }, missed: true},
	} {
		hub := NewHub()
		changes := hub.Collect(workspace)
		tc.do(hub)
		if signaled := len(changes.C()) > 0; signaled != (len(tc.want) > 0 || tc.count > 0 || tc.missed) {
			t.Errorf("%s: signaled: %v", name, signaled)
		}
		ids, missed := changes.Take()
		for _, id := range tc.want {
			if !slices.Contains(ids, id) {
				t.Errorf("%s: %s is missing", name, id)
			}
		}
		if len(ids) != len(tc.want)+tc.count || missed != tc.missed {
			t.Errorf("%s: %d IDs, missed %v", name, len(ids), missed)
		}
		if ids, missed := changes.Take(); len(ids) > 0 || missed {
			t.Errorf("%s: afterwards %v, %v", name, ids, missed)
		}
		changes.Close()
		if len(hub.collecting) > 0 {
			t.Errorf("%s: still collecting", name)
		}
	}
}

func TestOtherProcessesAreNotifiedOfLostKeys(t *testing.T) {
	for name, lose := range map[string]func(*Hub){
		"sending failed": func(h *Hub) { h.drain(); h.unsent() },
		"too many": func(h *Hub) {
			h.drain()
			for range 101 {
				h.Publish(make([]Change, 1000)...)
			}
			h.out = nil
		},
	} {
		hub := NewHub()
		hub.Publish(Change{Key: Key{ID: uuid.New()}})
		lose(hub)
		if len(hub.outNew) == 0 {
			t.Errorf("%s: the sender does not wake", name)
		}
		if got := hub.drain(); !slices.Equal(got, []Key{anything}) {
			t.Errorf("%s: sends %v", name, got)
		}
		if got := hub.drain(); len(got) > 0 {
			t.Errorf("%s: sends %v again", name, got)
		}
	}
}
