package retention_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/retention"
)

const day = 24 * time.Hour

// books is a database with a workspace, and its pools for the owner and for the upkeep.
type books struct {
	owner, system *pgxpool.Pool
	workspace     uuid.UUID
	week          time.Time // the start of this week
}

func open(t *testing.T) *books {
	t.Helper()
	dsn := pgtest.DSN(t)
	b := &books{owner: pool(t, dsn, postgres.Owner), system: pool(t, dsn, postgres.System)}
	var err error
	if b.workspace, err = workspace.Create(t.Context(), b.owner, workspace.CreateParams{Name: "test", Plan: plan.Enterprise}); err != nil {
		t.Fatal(err)
	}
	if err := b.owner.QueryRow(t.Context(), "SELECT week_of(now())").Scan(&b.week); err != nil {
		t.Fatal(err)
	}
	return b
}

func pool(t *testing.T, dsn string, role postgres.Role) *pgxpool.Pool {
	t.Helper()
	p, err := postgres.Open(context.Background(), dsn, "test", role, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func (b *books) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), b.owner, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SET LOCAL statement_timeout = 0"); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), sql, args...)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (b *books) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := b.owner.QueryRow(t.Context(), "SELECT count(*) FROM "+sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// fill inserts finished executions into a week, each with its posting. One in interval executions
// has a delivered callback.
func (b *books) fill(t *testing.T, week time.Time, rows, interval int) {
	t.Helper()
	b.exec(t, `INSERT INTO component_executions (workspace_id, id, module, status, call, attempts, attempt, job_id, has_callback,
			output, created_at, updated_at, finished_at)
		SELECT $1, overlay(least_id($2::timestamptz + n * interval '100 ms')::text PLACING lpad(to_hex(n), 12, '0') FROM 25)::uuid,
			'HASH', 'COMPLETED', repeat('x', 200)::bytea, 1, 1, n, n % $4 = 0, '{"digest":"0123456789abcdef"}', $2, $2, $2
		FROM generate_series(1, $3::integer) AS n`, b.workspace, week, rows, interval)
	b.exec(t, `INSERT INTO callbacks (workspace_id, execution_id, url, signed, body, state, attempt_count, created_at)
		SELECT workspace_id, id, 'https://example.com', false, 'body', 'DELIVERED', 1, created_at FROM component_executions
		WHERE has_callback AND id >= least_id($1) AND id < least_id($1::timestamptz + interval '7 days')`, week)
	b.exec(t, `INSERT INTO callback_attempts (workspace_id, execution_id, attempt, started_at, duration_ms, delivered)
		SELECT workspace_id, execution_id, 1, created_at, 5, true FROM callbacks
		WHERE execution_id >= least_id($1) AND execution_id < least_id($1::timestamptz + interval '7 days')`, week)
	b.exec(t, `INSERT INTO credit_postings (workspace_id, id, kind, reference, allowance, usage)
		SELECT workspace_id, id, 'EXECUTION', id::text, -1000, 1000 FROM component_executions
		WHERE id >= least_id($1) AND id < least_id($1::timestamptz + interval '7 days')`, week)
}

// keep does rounds until none is interrupted because a table is in use.
func (b *books) keep(t *testing.T, kept time.Duration) (dropped int) {
	t.Helper()
	keeper := retention.NewKeeper(b.system, kept, nil, slog.New(slog.DiscardHandler))
	for {
		n, err := keeper.Keep(t.Context())
		dropped += n
		if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "55P03" {
			continue
		}
		if err != nil {
			t.Fatalf("keep: %v", err)
		}
		return dropped
	}
}

// age moves the time at which weeks became final into the past.
func (b *books) age(t *testing.T, by time.Duration) {
	t.Helper()
	b.exec(t, "UPDATE partition_weeks SET final_since = final_since - $1::interval", by)
}

// weekly lists the tables with weekly partitions. Tables follow the tables that they refer to.
var weekly = []string{
	"component_executions", "callbacks", "callback_attempts", "workflow_runs", "run_stages", "run_events", "run_signals",
}

func partition(week time.Time) string { return partitionOf("component_executions", week) }

func partitionOf(table string, week time.Time) string {
	year, number := week.ISOWeek()
	return fmt.Sprintf("%s_%dw%02d", table, year, number)
}

func TestRowsMoveFromDefaultPartitionsToThoseOfTheirWeeks(t *testing.T) {
	b := open(t)
	// The state after a long time without upkeep: partitions are missing from this week on, but
	// rows of this week and of a distant week exist.
	for n := range 4 {
		week := b.week.AddDate(0, 0, 7*n)
		for _, table := range slices.Backward(weekly) {
			b.exec(t, "DROP TABLE "+partitionOf(table, week))
		}
		b.exec(t, "DELETE FROM partition_weeks WHERE week = $1", week)
	}
	far := b.week.AddDate(0, 0, 7*9)
	b.fill(t, b.week, 50, 10)
	b.fill(t, far, 30, 10)
	b.fillRuns(t, b.week, 5)
	b.fillRuns(t, far.AddDate(0, 0, 7), 4)
	if n := b.count(t, "component_executions_default"); n != 80 {
		t.Fatalf("%d rows are in the default partition, want 80", n)
	}
	b.keep(t, retention.Default)
	for _, table := range weekly {
		if n := b.count(t, table+"_default"); n != 0 {
			t.Errorf("%d rows are left in %s_default", n, table)
		}
	}
	for week, want := range map[time.Time]int{b.week: 50, b.week.AddDate(0, 0, 7): 0, b.week.AddDate(0, 0, 21): 0, far: 30} {
		if n := b.count(t, partition(week)); n != want {
			t.Errorf("%s has %d rows, want %d", partition(week), n, want)
		}
	}
	if n := b.count(t, "callback_attempts"); n != 8 {
		t.Errorf("%d attempts are left, want 8", n)
	}
	b.hasRuns(t, b.week, 5)
	b.hasRuns(t, far.AddDate(0, 0, 7), 4)
	before := b.count(t, "partition_weeks")
	b.keep(t, retention.Default)
	if n := b.count(t, "partition_weeks"); n != before {
		t.Errorf("another round changed the weeks from %[2]d to %[1]d", n, before)
	}
}

// A row can be found while it moves out of a default partition.
func TestAMovingRowIsFound(t *testing.T) {
	t.Parallel()
	b := open(t)
	far := b.week.AddDate(0, 0, 7*9)
	b.fill(t, far, 1, 1)
	var id uuid.UUID
	if err := b.owner.QueryRow(t.Context(), "SELECT id FROM component_executions").Scan(&id); err != nil {
		t.Fatal(err)
	}
	move, err := b.owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = move.Rollback(context.Background()) }()
	if _, err := move.Exec(t.Context(), "SELECT make_partitions($1)", far); err != nil {
		t.Fatal(err)
	}
	found := make(chan error)
	go func() {
		_, err := db.New().ExecutionGetWithoutCallback(t.Context(), b.system, db.ExecutionGetWithoutCallbackParams{WorkspaceID: b.workspace, ID: id})
		found <- err
	}()
	for b.count(t, "pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") == 0 {
		select {
		case err := <-found:
			t.Fatalf("the query did not wait: %v", err)
		default:
		}
	}
	if err := move.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-found; err != nil {
		t.Errorf("during the move: %v", err)
	}
}

func TestWeeksThatAreLiveQueuedOrYoungAreKept(t *testing.T) {
	b := open(t)
	weeks := make([]time.Time, 6) // weeks[n] is n weeks ago
	for n := range weeks {
		weeks[n] = b.week.AddDate(0, 0, -7*n)
	}
	for _, week := range weeks {
		b.fill(t, week, 20, 10)
	}
	live := func(week time.Time) {
		b.exec(t, `INSERT INTO component_executions (workspace_id, id, module, status, call, attempts, job_id, created_at, updated_at)
			VALUES ($1, overlay(least_id($2)::text PLACING 'ffff' FROM 20)::uuid, 'HASH', 'CREATED', '', 1, 1, $2, $2)`, b.workspace, week)
	}
	live(weeks[5])
	b.exec(t, `UPDATE callbacks SET state = 'QUEUED', job_id = 1 WHERE execution_id >= least_id($1) AND execution_id < least_id($2)`,
		weeks[4], weeks[3])

	if n := b.keep(t, 10*day); n != 0 {
		t.Fatalf("%d weeks were dropped when they were first found final", n)
	}
	b.age(t, 9*day)
	if n := b.keep(t, 10*day); n != 0 {
		t.Fatalf("%d weeks were dropped too early", n)
	}
	b.age(t, 2*day)
	// They have been final for long enough, but the latest weeks ended less than ten days ago.
	want, tenDaysAgo := 0, time.Now().Add(-10*day)
	for _, n := range []int{3, 2, 1} {
		if weeks[n].AddDate(0, 0, 7).Before(tenDaysAgo) {
			want++
		}
	}
	if n := b.keep(t, 10*day); n != want {
		t.Fatalf("%d weeks were dropped, want %d", n, want)
	}
	if n := b.count(t, partition(weeks[5])); n != 21 {
		t.Errorf("of the week with a live execution %d rows are left, want 21", n)
	}
	if n := b.count(t, partition(weeks[4])); n != 20 {
		t.Errorf("of the week with a queued callback %d rows are left, want 20", n)
	}
	// The time restarts for a week that was not final in between.
	b.exec(t, "UPDATE callbacks SET state = 'DELIVERED' WHERE state = 'QUEUED'")
	if n := b.keep(t, 10*day); n != 0 {
		t.Errorf("%d weeks were dropped as soon as their last callback was delivered", n)
	}
	b.age(t, 11*day)
	if n := b.keep(t, 10*day); n != 1 {
		t.Errorf("%d weeks were dropped after that callback's retention time, want 1", n)
	}
	// A callback is replayed after the week was found final. The drop checks again.
	b.exec(t, "UPDATE component_executions SET status = 'FAILED', error = '{}', finished_at = now() WHERE finished_at IS NULL")
	b.keep(t, 10*day)
	b.age(t, 11*day)
	b.exec(t, `UPDATE callbacks SET state = 'QUEUED', job_id = 1 WHERE execution_id >= least_id($1) AND execution_id < least_id($2)`,
		weeks[5], weeks[4])
	var dropped bool
	if err := b.system.QueryRow(t.Context(), "SELECT drop_partitions($1, '10 days')", weeks[5]).Scan(&dropped); err != nil || dropped {
		t.Errorf("a week with a replayed callback: dropped %v, %v", dropped, err)
	}
	if n := b.count(t, "credit_postings WHERE kind = 'EXECUTION'"); n != 6*20 {
		t.Errorf("the ledger has %d postings, want %d", n, 6*20)
	}
}

// prober reads and writes by key in short transactions, as fast as it can, and returns the
// longest duration.
func (b *books) prober(t *testing.T, probes *sync.WaitGroup, until <-chan struct{}) (worst *time.Duration) {
	t.Helper()
	worst = new(time.Duration)
	probes.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-until:
				return
			default:
			}
			started := time.Now()
			err := pgx.BeginFunc(context.Background(), b.owner, func(tx pgx.Tx) error {
				id, err := uuid.NewV7()
				if err != nil {
					return err
				}
				_, err = tx.Exec(context.Background(), `INSERT INTO component_executions (workspace_id, id, module, status, call, attempts, job_id, created_at, updated_at)
					VALUES ($1, $2, 'HASH', 'CREATED', '', 1, 1, now(), now())`, b.workspace, id)
				if err != nil {
					return err
				}
				_, err = tx.Exec(context.Background(), "UPDATE component_executions SET status = 'COMPLETED', finished_at = now() WHERE workspace_id = $1 AND id = $2", b.workspace, id)
				return err
			})
			if err != nil {
				t.Errorf("while a week is dropped: %v", err)
				return
			}
			*worst = max(*worst, time.Since(started))
		}
	})
	return worst
}

func TestOP11DroppingAWeekIsQuickAndLeavesTheLedger(t *testing.T) {
	rows, weeks := waittest.Size(20_000, 1_000_000), waittest.Size(3, 1)
	b := open(t)
	for n := range weeks {
		b.fill(t, b.week.AddDate(0, 0, -7*(5-n)), rows, 10)
	}
	b.keep(t, day)
	var waits, drops []time.Duration
	for n := range weeks {
		// The weeks become old enough one at a time.
		b.exec(t, "UPDATE partition_weeks SET final_since = CASE WHEN week = $1 THEN now() - interval '2 days' ELSE now() END WHERE final_since IS NOT NULL",
			b.week.AddDate(0, 0, -7*(5-n)))
		var probes sync.WaitGroup
		before, ended := make(chan struct{}), make(chan struct{})
		time.AfterFunc(500*time.Millisecond, func() { close(before) })
		alone := b.prober(t, &probes, before)
		probes.Wait()
		worst := b.prober(t, &probes, ended)
		started := time.Now()
		if dropped := b.keep(t, day); dropped != 1 {
			t.Errorf("%d weeks were dropped, want 1", dropped)
		}
		drops = append(drops, time.Since(started))
		close(ended)
		probes.Wait()
		waits = append(waits, *worst-*alone)
	}
	t.Logf("%d rows a week: rounds of %v, the longest waits of others are longer by %v", rows, drops, waits)
	if least := slices.Min(waits); waittest.Timed() && least > 100*time.Millisecond {
		t.Errorf("other transactions waited %v longer, want at most 100 ms", least)
	}
	if n := b.count(t, "component_executions WHERE module = 'HASH' AND id < least_id($1)", b.week.AddDate(0, 0, -14)); n != 0 {
		t.Errorf("%d old rows are left", n)
	}
	if n := b.count(t, "credit_postings WHERE kind = 'EXECUTION'"); n != rows*weeks {
		t.Errorf("the ledger has %d postings, want %d", n, rows*weeks)
	}
}
