package rotation

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// Classes of the advisory locks that publish, while a session is open, which keys its process has.
// The second half of a lock is the start of the key's fingerprint.
const (
	sealsClass = 0x7773 // "ws": the process seals under the key
	opensClass = 0x776f // "wo": the process can open what is sealed under the key
)

// Use describes which keys a running process has.
type Use struct {
	pid   int32
	seals []int32
	opens []int32
}

// Seals reports whether the process seals under the key with this fingerprint.
func (u Use) Seals(fingerprint string) bool { return slices.Contains(u.seals, number(fingerprint)) }

// Opens reports whether the process can open what is sealed under the key with this fingerprint.
func (u Use) Opens(fingerprint string) bool { return slices.Contains(u.opens, number(fingerprint)) }

func number(fingerprint string) int32 {
	raw, err := hex.DecodeString(fingerprint)
	if err != nil || len(raw) < 4 {
		return 0
	}
	return int32(raw[0])<<24 | int32(raw[1])<<16 | int32(raw[2])<<8 | int32(raw[3])
}

// Uses returns which keys the running processes have, one element for each process.
func Uses(ctx context.Context, pool postgres.DB) ([]Use, error) {
	rows, err := pool.Query(ctx, `SELECT l.pid,
			array_remove(array_agg(CASE WHEN l.classid::bigint = $1 THEN l.objid::bigint END), NULL),
			array_remove(array_agg(CASE WHEN l.classid::bigint = $2 THEN l.objid::bigint END), NULL)
		FROM pg_locks l
		WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted AND l.classid::bigint IN ($1, $2)
		  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
		GROUP BY l.pid`, int64(sealsClass), int64(opensClass))
	if err != nil {
		return nil, fmt.Errorf("read the keys in use: %w", err)
	}
	type process struct {
		PID          int32
		Seals, Opens []int64
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[process])
	if err != nil {
		return nil, fmt.Errorf("read the keys in use: %w", err)
	}
	uses := make([]Use, len(found))
	for i, p := range found {
		uses[i].pid = p.PID
		for _, n := range p.Seals {
			uses[i].seals = append(uses[i].seals, int32(uint32(n)))
		}
		for _, n := range p.Opens {
			uses[i].opens = append(uses[i].opens, int32(uint32(n)))
		}
	}
	return uses, nil
}

// merged returns the processes of both lists, each once.
func merged(before, after []Use) []Use {
	all := slices.Clone(after)
	for _, use := range before {
		if !slices.ContainsFunc(after, func(other Use) bool { return other.pid == use.pid }) {
			all = append(all, use)
		}
	}
	return all
}

const (
	checkInterval = 5 * time.Second
	checkTimeout  = 2 * time.Second
	readTimeout   = 2 * time.Second
	retryAfter    = time.Second
)

// Holder publishes which keys this process has.
type Holder struct {
	dsn  string
	ring *seal.Keyring
	log  *slog.Logger
	conn *pgx.Conn

	wrong atomic.Bool // the installation has another master key
}

// Hold publishes the ring's keys. The caller must call Run. Hold logs a warning for each running
// process that could not open the values that this process seals.
func Hold(ctx context.Context, dsn string, ring *seal.Keyring, log *slog.Logger) (*Holder, error) {
	h := &Holder{dsn: dsn, ring: ring, log: log}
	if err := h.connect(ctx); err != nil {
		return nil, err
	}
	uses, err := Uses(ctx, h.conn)
	if err != nil {
		h.close(ctx)
		return nil, err
	}
	if err := h.checkKey(ctx); err != nil {
		h.close(ctx)
		return nil, err
	}
	primary := ring.Fingerprints()[0]
	for _, use := range uses {
		if !use.Opens(primary) {
			log.Warn("a running process does not have this process's master key, so it cannot process what is sealed here. Add a new key to WEFT_MASTER_KEYS_OLD of all processes before it becomes WEFT_MASTER_KEY of any",
				"key", primary)
			break
		}
	}
	return h, nil
}

// WarnOfUnreadableValues logs a warning if stored values are sealed under keys that the ring lacks.
// It logs errors too, and returns none.
func WarnOfUnreadableValues(ctx context.Context, pool postgres.DB, ring *seal.Keyring, log *slog.Logger) {
	readCtx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	switch keys, err := MissingKeys(readCtx, pool, ring); {
	case ctx.Err() != nil:
	case err != nil:
		log.Warn("could not check the keys of stored values", "error", err)
	case len(keys) > 0:
		log.Warn("this process lacks the master key of some stored values: their executions and callbacks wait for a process that has it. Set that key in WEFT_MASTER_KEY or WEFT_MASTER_KEYS_OLD of all processes",
			"needed", keys, "held", ring.Fingerprints())
	}
}

func (h *Holder) connect(ctx context.Context) error {
	conn, err := postgres.Connect(ctx, h.dsn, "keys")
	if err != nil {
		return err
	}
	h.conn = conn
	prints := h.ring.Fingerprints()
	classes, keys := []int32{sealsClass}, []int32{number(prints[0])}
	for _, print := range prints {
		classes, keys = append(classes, opensClass), append(keys, number(print))
	}
	if _, err := h.conn.Exec(ctx, "SELECT pg_advisory_lock_shared(class, key) FROM unnest($1::integer[], $2::integer[]) l (class, key)", classes, keys); err != nil {
		h.close(ctx)
		return fmt.Errorf("publish the keys in use: %w", err)
	}
	return nil
}

// Run keeps the keys published until ctx is done. ctx must outlive the last value that is sealed.
func (h *Holder) Run(ctx context.Context) {
	defer h.close(context.WithoutCancel(ctx))
	for {
		pause := checkInterval
		if h.conn.IsClosed() {
			pause = retryAfter
		}
		if wait.For(ctx, pause) != nil {
			return
		}
		if err := h.keepPublished(ctx); err != nil && ctx.Err() == nil {
			h.close(ctx)
			h.log.Warn("the session that publishes the keys in use was lost", "error", err)
		}
	}
}

func (h *Holder) keepPublished(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if h.conn.IsClosed() {
		return h.connect(ctx)
	}
	return h.checkKey(ctx)
}

func (h *Holder) close(ctx context.Context) {
	if h.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = h.conn.Close(ctx)
}
