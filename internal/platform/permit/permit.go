// Package permit limits how many transactions of one workspace wait for the rows of this workspace at
// the same time. Such a transaction holds a connection of a pool that all workspaces share, so the
// permit is taken before the connection.
//
// Pages of the console are limited in the same way.
//
// Only transactions that lock a row of the workspace need a permit, and none needs two. Shared commits,
// finishes, cancels and reads take none.
package permit

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/semaphore"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Each is how many transactions of a workspace may run in a pool at once.
const Each = 4

// Patience is how long a transaction waits for its turn by default.
const Patience = 5 * time.Second

// Turns are the permits for one pool. A nil *Turns limits nothing. It is safe for concurrent use.
type Turns struct {
	each     int64
	patience time.Duration

	mu         sync.Mutex
	workspaces map[uuid.UUID]*turns // of workspaces that hold a permit or wait for one
}

type turns struct {
	free  *semaphore.Weighted
	users int // transactions that hold a permit or wait for one
}

// New returns Turns that give each workspace a number of permits, in order of arrival.
func New(each int64, patience time.Duration) *Turns {
	return &Turns{each: each, patience: patience, workspaces: map[uuid.UUID]*turns{}}
}

// Do calls f with a permit of the workspace. It returns UNAVAILABLE if none becomes free in time, or the
// error of ctx.
func (t *Turns) Do(ctx context.Context, workspaceID uuid.UUID, f func() error) error {
	if t == nil {
		return f()
	}
	w := t.join(workspaceID)
	defer t.leave(workspaceID, w)
	wait, cancel := context.WithTimeout(ctx, t.patience)
	err := w.free.Acquire(wait, 1)
	cancel()
	if err != nil && ctx.Err() == nil {
		return &fault.Error{
			Code: fault.Unavailable, RetryAfter: time.Second, // without err: the database is not unavailable
			Message: "Too many requests of this workspace are waiting for each other. Try again in a second.",
		}
	}
	if err != nil {
		return err
	}
	defer w.free.Release(1)
	return f()
}

// Begin is postgres.BeginFunc with a permit of the workspace.
func (t *Turns) Begin(ctx context.Context, workspaceID uuid.UUID, conn postgres.DB, f func(tx pgx.Tx) error) error {
	return t.Do(ctx, workspaceID, func() error { return postgres.BeginFunc(ctx, conn, f) })
}

func (t *Turns) join(workspaceID uuid.UUID) *turns {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.workspaces[workspaceID]
	if w == nil {
		w = &turns{free: semaphore.NewWeighted(t.each)}
		t.workspaces[workspaceID] = w
	}
	w.users++
	return w
}

func (t *Turns) leave(workspaceID uuid.UUID, w *turns) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.users--; w.users == 0 {
		delete(t.workspaces, workspaceID)
	}
}
