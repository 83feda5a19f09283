package auth

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/postgres"
)

// watchEvery is the time between two looks at the keys of open streams. Twice
// that, for a look that fails, is still within the 5 s of decisions 2.6.
const watchEvery = 2 * time.Second

// watches ends the contexts of streams whose key has ended. One query asks for
// all keys in use; while no stream is open nothing runs and nothing is asked.
type watches struct {
	db postgres.DB

	mu    sync.Mutex
	byKey map[uuid.UUID]map[*watch]struct{}
	quit  chan struct{} // ends the looking; nil while nothing is watched
}

type watch struct{ cancel context.CancelCauseFunc }

func newWatches(db postgres.DB) *watches {
	return &watches{db: db, byKey: make(map[uuid.UUID]map[*watch]struct{})}
}

// UntilRevoked is ctx for a stream of the principal: it ends with ErrRevoked
// within 5 s after the principal's key is revoked or has expired. The caller must call stop.
func (v *Verifier) UntilRevoked(ctx context.Context, p Principal) (_ context.Context, stop context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{cancel: cancel}
	v.watches.add(p.KeyID, w)
	return ctx, func() {
		v.watches.remove(p.KeyID, w)
		cancel(context.Canceled)
	}
}

func (w *watches) add(keyID uuid.UUID, one *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byKey[keyID] == nil {
		w.byKey[keyID] = make(map[*watch]struct{})
	}
	w.byKey[keyID][one] = struct{}{}
	if w.quit == nil {
		w.quit = make(chan struct{})
		go w.run(w.quit)
	}
}

func (w *watches) remove(keyID uuid.UUID, one *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byKey[keyID], one)
	if len(w.byKey[keyID]) == 0 {
		delete(w.byKey, keyID)
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
		over, err := queries.APIKeyListOver(ctx, w.db, w.watched())
		cancel()
		if err != nil {
			continue // nothing can be revoked in a database that does not answer; the next look tells
		}
		for _, keyID := range over {
			w.end(keyID)
		}
	}
}

// watched is the keys of open streams.
func (w *watches) watched() []uuid.UUID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.byKey))
}

func (w *watches) end(keyID uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.byKey[keyID] {
		one.cancel(ErrRevoked)
	}
}
