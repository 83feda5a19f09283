package auth

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// watchEvery is the time between two looks at the keys of open streams. Twice
// that, for a look that fails, is still within the 5 s of decisions 2.6.
const watchEvery = 2 * time.Second

// watches ends the contexts of streams whose key has ended. One query asks for
// all keys in use; while no stream is open nothing runs and nothing is asked.
type watches struct {
	db postgres.DB

	mu    sync.Mutex
	byKey map[watchedKey]map[*watch]struct{}
	quit  chan struct{} // ends the looking; nil while nothing is watched
}

// watchedKey is a key as the database knows it: an id may come from a form, so
// that two workspaces may each have a key with it.
type watchedKey struct{ WorkspaceID, ID uuid.UUID }

type watch struct{ cancel context.CancelCauseFunc }

func newWatches(db postgres.DB) *watches {
	return &watches{db: db, byKey: make(map[watchedKey]map[*watch]struct{})}
}

// UntilRevoked is ctx for a stream of the principal: it ends with ErrRevoked
// within 5 s after the principal's key is revoked or has expired. The caller must call stop.
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

// run looks until no stream is left.
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
			continue // nothing can be revoked in a database that does not answer; the next look tells
		}
		for _, key := range over {
			w.end(watchedKey(key))
		}
	}
}

// watched is the keys of open streams.
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
