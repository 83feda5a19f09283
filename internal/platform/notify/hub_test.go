package notify

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
)

// FuzzMT10 makes two rows out of what the fuzzer finds: who waits for the one is
// not woken by news of the other, in this process or through a notification.
func FuzzMT10NewsReachWhoWaitsForThatRowOnly(f *testing.F) {
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
				t.Errorf("%s: waiting for %v, news of %v, woken: %v", name, one, other, woken)
			}
		}
	})
}

// sized is an id of up to 16 bytes.
func sized(of []byte) (id uuid.UUID) {
	copy(id[:], of)
	return id
}

// A follower looks once for each piece of news, or once for several that come while it
// looks; at the end of its context too; and never again once it has said that it is over.
func TestAFollowerLooksOneTimeAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, key := NewHub(), Key{ID: uuid.New()}
		looks, verdicts := make(chan struct{}), make(chan bool)
		look := func() bool {
			looks <- struct{}{}
			return <-verdicts
		}
		waiting := func(what string, want bool) {
			t.Helper()
			synctest.Wait()
			select {
			case <-looks:
				if !want {
					t.Errorf("%s: it looked", what)
				}
			default:
				if want {
					t.Errorf("%s: it did not look", what)
				}
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		s := hub.Subscribe(key)
		hub.Publish(Change{Key: key})
		s.Follow(ctx, look)
		waiting("news from before it followed", true)
		for range 3 {
			hub.Publish(Change{Key: key})
		}
		waiting("news while it looks", false)
		verdicts <- false
		waiting("news while it looked", true)
		verdicts <- false
		waiting("no news", false)
		hub.wake([]Key{key})
		waiting("news from elsewhere", true)
		verdicts <- false
		cancel()
		waiting("the end of its context", true)
		hub.Publish(Change{Key: key})
		verdicts <- true
		waiting("it is over", false)
		hub.Publish(Change{Key: key})
		s.Wake()
		waiting("it has been over", false)
		if rows := hub.watched(); len(rows) > 0 {
			t.Errorf("%v are still watched", rows)
		}
	})
}
