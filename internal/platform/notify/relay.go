package notify

import (
	"context"
	"encoding/base64"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

const (
	channel = "weft_changed"
	// perNotification keeps a payload under PostgreSQL's limit of 8,000 bytes:
	// 170 keys of 43 characters and a comma.
	perNotification = 170
	recheckEvery    = 2 * time.Second
	recheckPatience = 5 * time.Second
	probeWait       = 2 * time.Second
)

// Relay exchanges wake-ups between processes over LISTEN/NOTIFY. It also polls the watched rows
// every two seconds, in case a wake-up was lost.
type Relay struct {
	Hub *Hub
	DSN string
	Log *slog.Logger

	// Lost, if set, is called for each lost connection.
	Lost func()

	// Changed returns the keys of the rows that are final, or that changed within the given
	// time.
	Changed func(ctx context.Context, keys []Key, within time.Duration) ([]Key, error)

	deaf   atomic.Bool   // notifications do not arrive
	sender atomic.Uint32 // PID of the backend that sends this process's notifications
}

// Run works until ctx is done. It keeps two connections: one only listens, the other sends.
func (r *Relay) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { r.keep(ctx, "listen", r.listen) })
	wg.Go(func() { r.keep(ctx, "notify", r.send) })
	wg.Go(func() { r.recheck(ctx) })
	wg.Wait()
}

// keep runs loop with a connection, and runs loop again with a new connection after an error.
func (r *Relay) keep(ctx context.Context, name string, loop func(context.Context, *pgx.Conn) error) {
	var backoff wait.Backoff
	for ctx.Err() == nil {
		err := r.withConn(ctx, name, loop)
		if ctx.Err() != nil {
			return
		}
		r.Log.Warn("wake-up connection lost", "side", name, "error", err)
		if r.Lost != nil {
			r.Lost()
		}
		_ = backoff.Wait(ctx)
	}
}

func (r *Relay) withConn(ctx context.Context, name string, loop func(context.Context, *pgx.Conn) error) error {
	conn, err := postgres.Connect(ctx, r.DSN, name)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return loop(ctx, conn)
}

func (r *Relay) listen(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	r.Hub.wakeAll() // notifications may have been missed meanwhile
	if err := r.probe(ctx, conn); err != nil {
		return err
	}
	for {
		notification, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if notification.PID == r.sender.Load() {
			continue // Publish has woken the subscribers of this process already
		}
		r.Hub.wake(decode(notification.Payload))
	}
}

// probe sends an empty notification to its own connection. A pooler in transaction mode drops
// this notification, as it would drop all others.
func (r *Relay) probe(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "SELECT pg_notify($1, '')", channel); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	notification, err := conn.WaitForNotification(wait)
	switch {
	case err == nil:
		r.deaf.Store(false)
		r.Hub.wake(decode(notification.Payload)) // a real notification may have arrived first
	case ctx.Err() == nil && wait.Err() != nil && !conn.IsClosed():
		r.deaf.Store(true)
		r.Log.Warn("notifications do not arrive, so changes are only found by polling every two seconds: check whether a connection pooler is in front of the database")
	default:
		return err
	}
	return nil
}

// send sends the published keys. It sends all collected keys in one notification, because a
// commit with a notification acquires a lock on the whole database.
func (r *Relay) send(ctx context.Context, conn *pgx.Conn) error {
	// If a crash loses notifications, the other processes find the changes by polling. Waiting for
	// the disk would slow down other commits.
	if _, err := conn.Exec(ctx, "SET synchronous_commit = off"); err != nil {
		return err
	}
	r.sender.Store(conn.PgConn().PID())
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.Hub.outNew:
		}
		for keys := r.Hub.drain(); len(keys) > 0; {
			n := min(len(keys), perNotification)
			if _, err := conn.Exec(ctx, "SELECT pg_notify($1, $2)", channel, encode(keys[:n])); err != nil {
				r.Hub.unsent()
				return err
			}
			keys = keys[n:]
		}
	}
}

func (r *Relay) recheck(ctx context.Context) {
	last := time.Now()
	for wait.For(ctx, recheckEvery) == nil {
		if r.deaf.Load() {
			r.Hub.lost()
		}
		keys := r.Hub.watched()
		if len(keys) == 0 {
			last = time.Now()
			continue
		}
		// Overlaps with the previous round, and covers failed rounds.
		checkCtx, cancel := context.WithTimeout(ctx, recheckPatience)
		changed, err := r.Changed(checkCtx, keys, time.Since(last)+recheckEvery)
		cancel()
		if err != nil {
			continue
		}
		last = time.Now()
		r.Hub.wake(changed)
	}
}

func encode(keys []Key) string {
	parts := make([]string, len(keys))
	for i, key := range keys {
		parts[i] = base64.RawURLEncoding.EncodeToString(append(key.WorkspaceID[:], key.ID[:]...))
	}
	return strings.Join(parts, ",")
}

func decode(payload string) []Key {
	var keys []Key
	for part := range strings.SplitSeq(payload, ",") {
		raw, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil || len(raw) != 32 {
			continue
		}
		keys = append(keys, Key{WorkspaceID: uuid.UUID(raw[:16]), ID: uuid.UUID(raw[16:])})
	}
	return keys
}
