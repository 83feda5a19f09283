package notify

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
)

// A subscriber of one row is not woken by changes of a different row, in this process or through
// a notification. The fuzzer generates the IDs of both rows.
func FuzzMT10ChangesWakeOnlySubscribersOfThatRow(f *testing.F) {
	f.Add([]byte("0123456789abcdef"), []byte("fedcba9876543210"), []byte("0123456789abcdef"), []byte("0123456789abcdef"))
	f.Add([]byte("a"), []byte("b"), []byte("ab"), []byte(""))
	f.Add([]byte(",,,,,,,,,,,,,,,,"), []byte("same"), []byte("other"), []byte("same"))
	f.Fuzz(func(t *testing.T, workspaceA, a, workspaceB, b []byte) {
		one, other := Key{sized(workspaceA), sized(a)}, Key{sized(workspaceB), sized(b)}
		if got := decode(encode([]Key{one, other})); !slices.Equal(got, []Key{one, other}) {
			t.Fatalf("%v became %v", []Key{one, other}, got)
		}
		for name, wake := range map[string]func(*Hub){
			"here":      func(h *Hub) { h.Publish(Change{Key: other}) },
			"elsewhere": func(h *Hub) { h.wake(decode(encode([]Key{other}))) },
		} {
			hub := NewHub()
			s := hub.Subscribe(one)
			wake(hub)
			if woken := len(s.C()) > 0; woken != (one == other) {
				t.Errorf("%s: subscribed to %v, changed %v, woken: %v", name, one, other, woken)
			}
		}
	})
}

// sized returns an ID from up to 16 bytes.
func sized(of []byte) (id uuid.UUID) {
	copy(id[:], of)
	return id
}

// A follower runs once for each change, or once for several changes while it runs. It also runs
// when its context is done. After it has returned true, it never runs again.
func TestFollowersRunOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, key := NewHub(), Key{ID: uuid.New()}
		runs, verdicts := make(chan struct{}), make(chan bool)
		onChange := func() bool {
			runs <- struct{}{}
			return <-verdicts
		}
		waiting := func(what string, want bool) {
			t.Helper()
			synctest.Wait()
			select {
			case <-runs:
				if !want {
					t.Errorf("%s: it ran", what)
				}
			default:
				if want {
					t.Errorf("%s: it did not run", what)
				}
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		s := hub.Subscribe(key)
		hub.Publish(Change{Key: key})
		s.Follow(ctx, onChange)
		waiting("a change before it followed", true)
		for range 3 {
			hub.Publish(Change{Key: key})
		}
		waiting("a change while it runs", false)
		verdicts <- false
		waiting("a change while it ran", true)
		verdicts <- false
		waiting("no change", false)
		hub.wake([]Key{key})
		waiting("a change in another process", true)
		verdicts <- false
		cancel()
		waiting("the end of its context", true)
		hub.Publish(Change{Key: key})
		verdicts <- true
		waiting("it is done", false)
		hub.Publish(Change{Key: key})
		s.Wake()
		waiting("it was done before", false)
		if rows := hub.watched(); len(rows) > 0 {
			t.Errorf("%v are still watched", rows)
		}
	})
}
