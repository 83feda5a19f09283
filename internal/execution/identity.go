package execution

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// workerLockClass is the class of the advisory locks that say "this worker
// lives"; the second half of a lock is the worker's number.
const workerLockClass = 0x7765 // "we"

// sweepLock is that of the one worker that sweeps.
const sweepLock = 0x77656674_73776570 // "weftswep"

// silentAfter is how long a worker may be without a beat, which it has every
// second, before its session is cut: the process is frozen or out of reach, and
// the session with the lock would live on for as long as it is.
const silentAfter = 10 * time.Second

const (
	// lateAfter is how long the session may take to answer before no more work
	// begins: the number may be somebody's to sweep by now.
	lateAfter = 2 * time.Second
	// giveUpAfter is how long it may take before it is given up, and with it all
	// that this worker runs: a beat later others would cut it. A database that
	// stands still for less costs nobody the lock.
	giveUpAfter = silentAfter - 2*time.Second
)

// Identity is this process as a worker: a number, alive for as long as a
// session of its own holds the number's advisory lock. When the session breaks
// the number is dead, whatever this process thinks: it takes a new one and
// begins no work in between. Nothing but repeats can come of it, because every
// write is fenced; and they do not count as crashes, because the process lives.
// The zero value is no worker.
type Identity struct {
	dsn     string
	slots   int // in which executions can begin here, for others to know
	log     *slog.Logger
	current atomic.Int32 // 0: none
	lost    int32        // the number before, whose loss the process survived; 0: none
	deaths  atomic.Bool  // at the last beat some worker's lock was free
	ready   chan struct{}

	// MayLead reports whether this process may be the one that sweeps; nil: always. Set it
	// before Run.
	MayLead func() bool
}

// NewIdentity makes the identity of a process with so many slots. It is not alive
// until Run has taken a number.
func NewIdentity(dsn string, slots int, log *slog.Logger) *Identity {
	return &Identity{dsn: dsn, slots: slots, log: log, ready: make(chan struct{})}
}

// Worker is the present number, and whether this process may begin work.
func (i *Identity) Worker() (int32, bool) {
	worker := i.current.Load()
	return worker, worker != 0
}

// Ready is closed once the first number is taken.
func (i *Identity) Ready() <-chan struct{} { return i.ready }

// Run holds a number until ctx ends, and calls lead every second while this
// process is the one that sweeps.
func (i *Identity) Run(ctx context.Context, lead func(context.Context)) {
	for ctx.Err() == nil {
		if err := i.session(ctx, lead); err != nil && ctx.Err() == nil {
			i.log.Warn("worker lost its session and takes a new number", "error", err)
			_ = wait.For(ctx, 200*time.Millisecond)
		}
	}
}

// session takes a number and lives under it until its session with the database ends.
func (i *Identity) session(ctx context.Context, lead func(context.Context)) error {
	conn, err := postgres.Connect(ctx, i.dsn, "worker")
	if err != nil {
		return err
	}
	defer func() {
		i.current.Store(0)
		closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closeCtx)
	}()
	worker, err := i.register(ctx, conn)
	if err != nil {
		return err
	}
	i.current.Store(worker)
	select {
	case <-i.ready:
	default:
		close(i.ready)
	}
	return i.live(ctx, conn, worker, lead)
}

// live beats every second, beside whatever the leader does: a sweep may take
// longer than others would wait for a beat.
func (i *Identity) live(ctx context.Context, conn *pgx.Conn, worker int32, lead func(context.Context)) error {
	ctx, cancel := context.WithCancel(ctx)
	var leading sync.WaitGroup
	defer leading.Wait()
	defer cancel()
	defer i.current.Store(0) // first: no work begins while the sweep winds up
	idle := make(chan struct{}, 1)
	idle <- struct{}{}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var silent []int32
	answered := time.Now()
	for round := 0; ; round++ {
		var seen beaten
		listen, mayLead := round%3 == 2, i.MayLead == nil || i.MayLead()
		err := i.ask(ctx, worker, func(ctx context.Context) (err error) {
			if seen, err = beat(ctx, conn, listen, mayLead); err != nil || !listen {
				return err
			}
			silent, err = i.cutSilent(ctx, conn, seen, silent)
			return err
		})
		if err != nil {
			// A process that stood still for as long as others wait is as good as crashed.
			if time.Since(answered) < silentAfter {
				i.lost = worker
			}
			return err
		}
		answered = time.Now()
		i.deaths.Store(seen.deaths)
		if seen.leads {
			select {
			case <-idle:
				leading.Go(func() { lead(ctx); idle <- struct{}{} })
			default:
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// ask asks the session something. While the answer is late this process begins no
// work; when it comes after all, the session lived throughout.
func (i *Identity) ask(ctx context.Context, worker int32, question func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, giveUpAfter)
	defer cancel()
	late := time.AfterFunc(lateAfter, func() { i.current.Store(0) })
	defer late.Stop()
	if err := question(ctx); err != nil {
		return err
	}
	i.current.Store(worker)
	return nil
}

// register takes a number and its lock. The row becomes visible only when the
// lock is held, so nobody sees a worker without its lock.
func (i *Identity) register(ctx context.Context, conn *pgx.Conn) (int32, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	var worker int32
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if worker, err = db.New().WorkerInsert(ctx, tx, db.WorkerInsertParams{Host: host, Slots: int32(i.slots)}); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_lock($1::integer, $2::integer)", workerLockClass, worker); err != nil || i.lost == 0 {
			return err
		}
		return surviveTx(ctx, tx, i.lost)
	})
	if err != nil {
		return 0, fmt.Errorf("register worker: %w", err)
	}
	i.lost = 0
	return worker, nil
}

// surviveTx records that the process of a worker whose session was lost is still running.
// Sweeps before and after it do not count the loss as a crash of the worker's executions.
func surviveTx(ctx context.Context, tx pgx.Tx, lost int32) error {
	if err := db.New().WorkerSurvive(ctx, tx, lost); err != nil {
		return err
	}
	return db.New().ExecutionUncountCrash(ctx, tx, lost)
}

// beaten is what a beat learns.
type beaten struct {
	leads  bool
	deaths bool    // a worker has lost its lock; asked by the leader only
	silent []int32 // workers that have not beaten for long,
	pids   []int32 // and their sessions
}

// beat shows that the session lives. It takes or keeps the lead, or releases it if this
// process may not lead. A worker's row is seen only once its lock is held, and the locks are
// read after the rows: a worker without a lock is dead.
func beat(ctx context.Context, conn *pgx.Conn, listen, mayLead bool) (b beaten, err error) {
	if !mayLead {
		_, err = conn.Exec(ctx, `SELECT pg_advisory_unlock($1) FROM pg_locks
			WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND objsubid = 1 AND (classid::bigint << 32 | objid::bigint) = $1`, int64(sweepLock))
		if err != nil {
			return b, err
		}
	}
	err = conn.QueryRow(ctx, `SELECT lead.held, lead.held AND EXISTS (
			SELECT 1 FROM workers w WHERE NOT EXISTS (
				SELECT 1 FROM pg_locks l JOIN pg_database d ON d.oid = l.database
				WHERE l.locktype = 'advisory' AND d.datname = current_database() AND l.objsubid = 2 AND l.granted
				  AND l.classid::bigint = $2 AND l.objid::bigint = w.id)), silent.workers, silent.pids
		FROM (SELECT EXISTS (
				SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND objsubid = 1
				  AND (classid::bigint << 32 | objid::bigint) = $1)
			OR $5 AND pg_try_advisory_lock($1) AS held OFFSET 0) AS lead,
		(SELECT array_agg(l.objid::bigint::integer ORDER BY a.pid) AS workers, array_agg(a.pid ORDER BY a.pid) AS pids
			FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
			WHERE $3 AND l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid::bigint = $2 AND l.granted
			  AND a.datname = current_database() AND a.state_change < clock_timestamp() - $4::interval) AS silent`,
		int64(sweepLock), int64(workerLockClass), listen, silentAfter, mayLead).Scan(&b.leads, &b.deaths, &b.silent, &b.pids)
	return b, err
}

// cutSilent ends the sessions of workers that have not beaten for long. Every
// worker does it, because the silent one may be the one that sweeps. It takes
// two looks, so that a machine that slept as a whole finds time to beat first;
// before is what the last look found, and what this one did is returned.
func (i *Identity) cutSilent(ctx context.Context, conn *pgx.Conn, seen beaten, before []int32) ([]int32, error) {
	for n, worker := range seen.silent {
		if !slices.Contains(before, worker) {
			continue
		}
		i.log.Warn("the session of a silent worker is cut", "worker", worker)
		if _, err := conn.Exec(ctx, "SELECT pg_terminate_backend($1)", seen.pids[n]); err != nil {
			return nil, err
		}
	}
	return seen.silent, nil
}
