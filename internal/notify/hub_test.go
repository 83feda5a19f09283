package notify

import (
	"slices"
	"testing"

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
