package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
)

// executeOnce executes one component and waits for its result.
func executeOnce(t *testing.T, w *whole) {
	t.Helper()
	record, _, err := w.client.Execute(t.Context(), api.ExecuteComponentRequest{
		Module: "RANDOM_UUID", Input: []byte(`{}`), Config: []byte(`{}`), WaitForMs: new(int32(15000)),
	}, nil)
	if err != nil || !record.Completed {
		t.Errorf("an execution is %s (%v)", record.Status, err)
	}
}

func readiness(t *testing.T, w *whole) (code int, body string) {
	t.Helper()
	answer, err := http.Get(w.app.OpsURL() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func TestAProcessWorksThroughASessionPooler(t *testing.T) {
	t.Parallel()
	w := startWhole(t, func(cfg *Config) { cfg.DatabaseURL = pgtest.NewPooler(t, cfg.DatabaseURL, pgtest.PoolSessions).DSN })
	executeOnce(t, w)
	var role string
	if err := w.app.pools.api.QueryRow(t.Context(), "SELECT current_user::text").Scan(&role); err != nil || role != string(postgres.API) {
		t.Errorf("requests have the role %q (%v)", role, err)
	}
	if code, body := readiness(t, w); code != http.StatusOK {
		t.Errorf("readiness: %d %s", code, body)
	}
}

func TestAProcessDoesNotStartBehindATransactionPooler(t *testing.T) {
	t.Parallel()
	ring, err := keyring(goodKey, "")
	if err != nil {
		t.Fatal(err)
	}
	dsn := pgtest.NewPooler(t, pgtest.DSN(t), pgtest.PoolTransactions).DSN
	log := &logBook{}
	_, err = Start(t.Context(), Config{DatabaseURL: dsn, Keyring: ring, Addr: "127.0.0.1:0", Work: true, Workers: 2}, telemetry.NewLogger(log, slog.LevelInfo))
	if err == nil || !strings.Contains(err.Error(), "pool_mode = session") {
		t.Errorf("a start returned %v, want an error that names pool_mode", err)
	}
	if err := Migrate(t.Context(), dsn); err == nil || !strings.Contains(err.Error(), "pool_mode = session") {
		t.Errorf("a migration returned %v, want an error that names pool_mode", err)
	}
}

func TestAProcessWhoseSessionsLoseTheirRoleIsNotReady(t *testing.T) {
	t.Parallel()
	w := startWhole(t, nil)
	var all []*pgxpool.Conn
	for range w.app.pools.api.Config().MaxConns { // every session, because any may be checked
		conn, err := w.app.pools.api.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "SET ROLE NONE"); err != nil {
			t.Fatal(err)
		}
		all = append(all, conn)
	}
	for _, conn := range all {
		conn.Release()
	}
	if code, body := readiness(t, w); code != http.StatusServiceUnavailable || !strings.Contains(body, "/checks/database") {
		t.Errorf("readiness: %d %s", code, body)
	}
	waittest.Until(t, "the log gives the reason", func() bool { // on a busy machine, a check may time out instead
		readiness(t, w)
		return strings.Contains(w.log.String(), "instead of weft_api")
	})
}

// OP-14: work goes through these pools only. A pool without the gate would do work on a server that
// lacks acknowledged work, until the next poll.
func TestOP14EveryPoolUsesTheGate(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	gate := func(context.Context, *pgx.Conn, postgres.Server) error { return refused }
	p, err := openPools(t.Context(), Config{DatabaseURL: pgtest.DSN(t), Work: true, Workers: 1}, gate)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	for name, pool := range map[string]*pgxpool.Pool{"api": p.api, "system": p.system, "limits": p.limits, "runs": p.runs, "work": p.work, "queue": p.queue} {
		if err := pool.Ping(t.Context()); !errors.Is(err, refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
