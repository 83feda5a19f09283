package postgres_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// settingsOf returns the role and the settings of a session.
func settingsOf(t *testing.T, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (settings string) {
	t.Helper()
	err := db.QueryRow(t.Context(), `SELECT concat_ws(' ', current_user, current_setting('timezone'), current_setting('enable_seqscan'), current_setting('enable_bitmapscan'),
		current_setting('plan_cache_mode'), current_setting('jit'), current_setting('max_parallel_workers_per_gather'), current_setting('random_page_cost'), current_setting('idle_in_transaction_session_timeout'), current_setting('lock_timeout'), current_setting('statement_timeout'))`).Scan(&settings)
	if err != nil {
		t.Fatal(err)
	}
	return settings
}

func TestSessionsThroughASessionPoolerHaveRoleSettingsAndScope(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	pooled := pgtest.NewPooler(t, dsn, pgtest.PoolSessions).DSN
	owner, err := postgres.Open(t.Context(), dsn, "test", postgres.Owner, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	var ids []uuid.UUID
	for _, name := range []string{"a", "b"} {
		id, err := workspace.Create(t.Context(), owner, workspace.CreateParams{Name: name, Plan: plan.Starter})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	for _, role := range []postgres.Role{postgres.API, postgres.System} {
		pool, err := postgres.Open(t.Context(), pooled, "test", role, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		if got, want := settingsOf(t, pool), string(role)+" UTC off off force_generic_plan off 0 1.1 30s 5s 30s"; got != want {
			t.Errorf("%s: %q, want %q", role, got, want)
		}
		var names string
		err = pool.QueryRow(postgres.Scope(t.Context(), ids[0]), "SELECT string_agg(name, ',' ORDER BY name) FROM workspaces").Scan(&names)
		if want := map[postgres.Role]string{postgres.API: "a", postgres.System: "a,b"}[role]; err != nil || names != want {
			t.Errorf("%s sees %q, %v, want %q", role, names, err, want)
		}
	}
	if err := postgres.CheckPooler(t.Context(), pooled); err != nil {
		t.Error(err)
	}
}

func TestConnectWorksThroughASessionPooler(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	pooled := pgtest.NewPooler(t, dsn, pgtest.PoolSessions).DSN
	var conns [2]*pgx.Conn
	for i := range conns {
		conn, err := postgres.Connect(t.Context(), pooled, "test")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(context.Background()) }()
		conns[i] = conn
	}
	if got, want := settingsOf(t, conns[0]), " UTC off off force_generic_plan off 0 1.1 30s 5s 30s"; !strings.HasSuffix(got, want) {
		t.Errorf("settings %q, want %q", got, want)
	}
	var locked [2]bool
	for i, conn := range conns { // prepared, like all statements
		if err := conn.QueryRow(t.Context(), "SELECT pg_try_advisory_lock($1)", 7).Scan(&locked[i]); err != nil {
			t.Fatal(err)
		}
	}
	if locked != [2]bool{true, false} {
		t.Errorf("two sessions locked %v", locked)
	}
}

func TestATransactionPoolerIsRefused(t *testing.T) {
	t.Parallel()
	pooler := pgtest.NewPooler(t, pgtest.DSN(t), pgtest.PoolTransactions)
	err := postgres.CheckPooler(t.Context(), pooler.DSN)
	if err == nil || !strings.Contains(err.Error(), "pool_mode = session") {
		t.Fatalf("got %v", err)
	}
	pool, err := postgres.Open(t.Context(), pooler.DSN, "test", postgres.API, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := pool.Ping(t.Context()); err == nil || !postgres.Unavailable(err) {
		t.Errorf("a connection with a shared session is used: %v", err)
	}
}

// An administrator may change the pool mode while Weft runs.
func TestASessionThatLostItsSettingsIsFound(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	for name, address := range map[string]string{"directly": dsn, "through a pooler": pgtest.NewPooler(t, dsn, pgtest.PoolSessions).DSN} {
		for _, statement := range []string{"SET ROLE NONE", "SET statement_timeout = 0", "RESET ALL; RESET ROLE"} {
			pool, err := postgres.Open(t.Context(), address, "test", postgres.API, 1)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			if err := postgres.CheckSession(t.Context(), pool); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := pool.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
			if err := postgres.CheckSession(t.Context(), pool); err == nil {
				t.Errorf("%s: the loss was not found after %s", name, statement)
			}
			if err := postgres.CheckSession(t.Context(), pool); err != nil {
				t.Errorf("%s: the session was not replaced after %s: %v", name, statement, err)
			}
		}
	}
}

func TestAPoolerThatRejectsSettingsIsReportedWithTheFix(t *testing.T) {
	t.Parallel()
	pooler := pgtest.NewPooler(t, pgtest.DSN(t), pgtest.RefuseSettings)
	err := postgres.CheckPooler(t.Context(), pooler.DSN)
	if err == nil || !strings.Contains(err.Error(), "ignore_startup_parameters = enable_bitmapscan,enable_seqscan,idle_in_transaction_session_timeout,lock_timeout,plan_cache_mode,role,statement_timeout") {
		t.Errorf("got %v", err)
	}
}

func TestWaitingForASilentPoolerIsBounded(t *testing.T) {
	t.Parallel()
	pooler := pgtest.NewPooler(t, pgtest.DSN(t), pgtest.PoolTransactions)
	first, err := pgx.Connect(t.Context(), pooler.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close(context.Background()) }()
	tx, err := first.Begin(t.Context()) // the only server connection is taken
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := postgres.CheckPooler(ctx, pooler.DSN); err == nil || !postgres.Unavailable(err) {
		t.Errorf("got %v", err)
	}
}

func TestAPoolBacksOffAfterConnectionsThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const free = 4
		start, succeeded := postgres.NewConnects(free)
		attempts := func() (made int) {
			for range 100 {
				switch err := start(); {
				case err == nil:
					made++
				case !postgres.Unavailable(err):
					t.Errorf("a refused attempt is not reported as unavailable: %v", err)
				}
			}
			return made
		}
		if got := attempts(); got != free+1 {
			t.Errorf("%d attempts at once, want %d", got, free+1)
		}
		for range 3 {
			time.Sleep(time.Second) // virtual
			if got := attempts(); got != 1 {
				t.Errorf("%d attempts after the longest delay, want 1", got)
			}
		}
		succeeded()
		if got := attempts(); got != free+1 {
			t.Errorf("%d attempts after a success, want %d", got, free+1)
		}
	})
}

func TestAStartWaitsOnlyForWhatWaitingCanFix(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		dsn  string
		want bool
	}{
		"no server":        {"postgres://127.0.0.1:1/weft?sslmode=disable", true},
		"unknown database": {strings.Replace(dsn, config.Database, "nowhere", 1), false},
		"malformed":        {"postgres://127.0.0.1:many/weft", false},
		"shared sessions":  {pgtest.NewPooler(t, dsn, pgtest.PoolTransactions).DSN, false},
	} {
		if err := postgres.CheckPooler(t.Context(), c.dsn); err == nil || postgres.Recoverable(err) != c.want {
			t.Errorf("%s: recoverable %v, want %v: %v", name, !c.want, c.want, err)
		}
	}
}
