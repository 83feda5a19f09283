package auth

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// keyLife is how long a cached key is used. Together with the duration of a look-up, it
// keeps revocations within the second that decisions 2.7 allow.
const keyLife = 750 * time.Millisecond

// maxKeys bounds the cache. An entry takes about 350 bytes, and 16 more for each workflow and
// each predecessor of a restricted key.
const maxKeys = 20_000

var queries = db.New()

type keyHash = [sha256.Size]byte

// cachedKey is the result of a look-up. Unknown keys are cached too, so that they cost the same as
// known keys.
type cachedKey struct {
	known, over bool // over: revoked or expired
	public      ed25519.PublicKey
	principal   Principal
	until       time.Time
}

// keyCache caches look-ups of keys for keyLife. Concurrent requests that miss the same
// key share one query.
type keyCache struct {
	db      postgres.DB
	now     func() time.Time
	flights singleflight.Group

	mu      sync.RWMutex
	entries map[keyHash]cachedKey
}

func newKeyCache(db postgres.DB, now func() time.Time) *keyCache {
	return &keyCache{db: db, now: now, entries: make(map[keyHash]cachedKey)}
}

func (c *keyCache) find(ctx context.Context, hash keyHash) (cachedKey, error) {
	c.mu.RLock()
	key, ok := c.entries[hash]
	c.mu.RUnlock()
	asked := c.now()
	if ok && asked.Before(key.until) {
		return key, nil
	}
	for {
		// The query is shared, so it must not be cancelled together with the caller that
		// started it.
		flight := c.flights.DoChan(string(hash[:]), func() (any, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			return c.load(ctx, hash)
		})
		select {
		case done := <-flight:
			if done.Err != nil {
				return cachedKey{}, done.Err
			}
			if key, _ = done.Val.(cachedKey); !asked.After(key.until) {
				return key, nil // otherwise the shared query started too long ago: query again
			}
		case <-ctx.Done():
			return cachedKey{}, context.Cause(ctx)
		}
	}
}

// load reads one key. Its life is counted from before the query, because the query's
// snapshot may be that old.
func (c *keyCache) load(ctx context.Context, hash keyHash) (cachedKey, error) {
	key := cachedKey{until: c.now().Add(keyLife)}
	row, err := queries.APIKeyGetByHash(ctx, c.db, hash[:])
	switch {
	case postgres.NotFound(err):
	case err != nil:
		return cachedKey{}, err
	default:
		key.known, key.over = true, row.Over
		key.public = row.PublicKey
		key.principal = Principal{WorkspaceID: row.WorkspaceID, KeyID: row.ID, RootID: row.RootID, Predecessors: row.Predecessors, Workflows: row.AllowedWorkflowIds}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.entries[hash]; !there && len(c.entries) >= maxKeys {
		c.makeRoom()
	}
	c.entries[hash] = key
	return key, nil
}

// makeRoom deletes the expired entries, or all entries if none has expired.
func (c *keyCache) makeRoom() {
	now := c.now()
	for hash, key := range c.entries {
		if !now.Before(key.until) {
			delete(c.entries, hash)
		}
	}
	if len(c.entries) >= maxKeys {
		clear(c.entries)
	}
}
