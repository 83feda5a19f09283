package auth

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// watchEvery is the interval between checks of the keys of open streams. Even if one check
// fails, the next is within the 5 s of decisions 2.6.
const watchEvery = 2 * time.Second

// watches cancels the contexts of streams whose key is revoked or expired. One query
// checks all keys in use. While no stream is open, no goroutine runs.
type watches struct {
	db postgres.DB

	mu    sync.Mutex
	byKey map[watchedKey]map[*watch]struct{}
	quit  chan struct{} // stops the goroutine; nil while no stream is open
}

// watchedKey identifies a key. Clients can choose key IDs, so two workspaces may each
// have a key with the same ID.
type watchedKey struct{ WorkspaceID, ID uuid.UUID }

type watch struct{ cancel context.CancelCauseFunc }

func newWatches(db postgres.DB) *watches {
	return &watches{db: db, byKey: make(map[watchedKey]map[*watch]struct{})}
}

// UntilRevoked returns a context for a stream of the principal. It is cancelled with
// ErrRevoked within 5 s after the key is revoked or expires. The caller must call stop.
func (v *Verifier) UntilRevoked(ctx context.Context, p Principal) (_ context.Context, stop context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{cancel: cancel}
	key := watchedKey{p.WorkspaceID, p.KeyID}
	v.watches.add(key, w)
	return ctx, func() {
		v.watches.remove(key, w)
		cancel(context.Canceled)
	}
}

func (w *watches) add(key watchedKey, one *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byKey[key] == nil {
		w.byKey[key] = make(map[*watch]struct{})
	}
	w.byKey[key][one] = struct{}{}
	if w.quit == nil {
		w.quit = make(chan struct{})
		go w.run(w.quit)
	}
}

func (w *watches) remove(key watchedKey, one *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byKey[key], one)
	if len(w.byKey[key]) == 0 {
		delete(w.byKey, key)
	}
	if len(w.byKey) == 0 && w.quit != nil {
		close(w.quit)
		w.quit = nil
	}
}

// run checks the keys until quit is closed.
func (w *watches) run(quit <-chan struct{}) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-quit:
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), watchEvery)
		over, err := queries.APIKeyListInactive(ctx, w.db, w.watched())
		cancel()
		if err != nil {
			continue // a database that is down accepts no revocations either; try again
		}
		for _, key := range over {
			w.end(watchedKey(key))
		}
	}
}

// watched returns the keys of open streams.
func (w *watches) watched() (keys db.APIKeyListInactiveParams) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.byKey {
		keys.WorkspaceIds = append(keys.WorkspaceIds, key.WorkspaceID)
		keys.Ids = append(keys.Ids, key.ID)
	}
	return keys
}

func (w *watches) end(key watchedKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.byKey[key] {
		one.cancel(ErrRevoked)
	}
}
