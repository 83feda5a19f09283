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

// workerLockClass is the class of the advisory locks by which workers show that they are alive.
// The second half of a lock's key is the worker's number.
const workerLockClass = 0x7765 // "we"

// sweepLock is the advisory lock of the one worker that sweeps.
const sweepLock = 0x77656674_73776570 // "weftswep"

// silentAfter is how long a worker may send no heartbeat before other workers terminate its
// session. Workers send heartbeats every second. The process of a silent worker is frozen or
// unreachable, and would otherwise keep its lock for as long as its session exists.
const silentAfter = 10 * time.Second

const (
	// lateAfter is how long the session may take to respond before this process stops starting
	// work: the sweep may already be freeing its executions.
	lateAfter = 2 * time.Second
	// giveUpAfter is how long the session may take to respond before this process abandons the
	// session and all executions that this worker runs. Two seconds later, other workers would
	// terminate the session. If the database stalls for less than giveUpAfter, no worker loses its
	// lock.
	giveUpAfter = silentAfter - 2*time.Second
)

// Identity is this process as a worker: a number, which is alive as long as a dedicated session
// holds the number's advisory lock. When the session breaks, the number is dead. The process then
// acquires a new number and starts no work until it has a number.
//
// At worst, executions are repeated, because every write is fenced. These repeats do not count as
// crashes, because the process survived. The zero value is not a worker.
type Identity struct {
	dsn     string
	slots   int // of this process, published for other processes
	log     *slog.Logger
	current atomic.Int32 // 0: no number
	lost    int32        // the previous number, whose loss the process survived; 0: no such number
	deaths  atomic.Bool  // whether some worker's lock was free at the last heartbeat
	ready   chan struct{}

	// MayLead reports whether this process may sweep. If it is nil, the process may. Set it before
	// Run.
	MayLead func() bool
}

// NewIdentity returns the identity of a process with the specified number of slots. The identity
// is not alive until Run has acquired a number.
func NewIdentity(dsn string, slots int, log *slog.Logger) *Identity {
	return &Identity{dsn: dsn, slots: slots, log: log, ready: make(chan struct{})}
}

// Worker returns the current number and whether this process may start work.
func (i *Identity) Worker() (int32, bool) {
	worker := i.current.Load()
	return worker, worker != 0
}

// Ready returns a channel that is closed once the first number is acquired.
func (i *Identity) Ready() <-chan struct{} { return i.ready }

// Run holds a number until ctx is done. It calls lead every second while this process is the one
// that sweeps.
func (i *Identity) Run(ctx context.Context, lead func(context.Context)) {
	var backoff wait.Backoff
	for ctx.Err() == nil {
		if err := i.session(ctx, lead); err != nil && ctx.Err() == nil {
			i.log.Warn("worker lost its session; acquiring a new number", "error", err)
			_ = backoff.Wait(ctx)
		}
	}
}

// session acquires a number and keeps it until its session with the database ends.
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
	return i.keepAlive(ctx, conn, worker, lead)
}

// keepAlive sends a heartbeat every second. lead runs in a separate goroutine, because a sweep may
// take longer than other workers wait for a heartbeat.
func (i *Identity) keepAlive(ctx context.Context, conn *pgx.Conn, worker int32, lead func(context.Context)) error {
	ctx, cancel := context.WithCancel(ctx)
	var leading sync.WaitGroup
	defer leading.Wait()
	defer cancel()
	defer i.current.Store(0) // runs first: start no work while the sweep finishes
	idle := make(chan struct{}, 1)
	idle <- struct{}{}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var silent []int32
	answered := time.Now()
	for round := 0; ; round++ {
		var seen beatResult
		mayLead := i.MayLead == nil || i.MayLead()
		err := i.query(ctx, worker, func(ctx context.Context) (err error) {
			if seen, err = beat(ctx, conn, round, mayLead); err != nil || !seen.listened {
				return err
			}
			silent, err = i.terminateSilent(ctx, conn, seen, silent)
			return err
		})
		if err != nil {
			// A process that was frozen for silentAfter counts as crashed.
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

// query runs a query on the session. While the response is late, this process starts no work. If
// the response arrives after all, the session was alive throughout.
func (i *Identity) query(ctx context.Context, worker int32, work func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, giveUpAfter)
	defer cancel()
	late := time.AfterFunc(lateAfter, func() { i.current.Store(0) })
	defer late.Stop()
	if err := work(ctx); err != nil {
		return err
	}
	i.current.Store(worker)
	return nil
}

// register inserts a worker and acquires its lock. The row becomes visible only after the lock is
// acquired, so a visible worker without a lock is dead.
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

// beatResult is the result of a heartbeat.
type beatResult struct {
	leads    bool
	deaths   bool    // some worker has lost its lock; only the leader checks
	silent   []int32 // workers without a recent heartbeat
	listened bool    // silent workers were looked for
	pids     []int32 // the backends of their sessions
}

// beat shows that the session is alive. It acquires or keeps the lead, or releases it if this
// process may not lead. A worker's row becomes visible only once its lock is held, and beat reads
// the locks after the rows. So a worker without a lock is dead. Every third round it looks for silent workers.
func beat(ctx context.Context, conn *pgx.Conn, round int, mayLead bool) (b beatResult, err error) {
	b.listened = round%3 == 2
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
		int64(sweepLock), int64(workerLockClass), b.listened, silentAfter, mayLead).Scan(&b.leads, &b.deaths, &b.silent, &b.pids)
	return b, err
}

// terminateSilent terminates the sessions of workers without a heartbeat. Every worker does so,
// because the silent worker may be the one that sweeps. A worker must be silent in two consecutive
// checks, so that workers of a machine that was suspended can send a heartbeat first. before is
// the result of the previous call.
func (i *Identity) terminateSilent(ctx context.Context, conn *pgx.Conn, seen beatResult, before []int32) ([]int32, error) {
	for n, worker := range seen.silent {
		if !slices.Contains(before, worker) {
			continue
		}
		i.log.Warn("terminating the session of a silent worker", "worker", worker)
		if _, err := conn.Exec(ctx, "SELECT pg_terminate_backend($1)", seen.pids[n]); err != nil {
			return nil, err
		}
	}
	return seen.silent, nil
}
