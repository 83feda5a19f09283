package app

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/permit"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
)

// measureP95 runs executions at a steady rate and returns the p95 of the times to their results.
func (w *whole) measureP95(t *testing.T, rate, count int) time.Duration {
	t.Helper()
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	var mu sync.Mutex
	var times []time.Duration
	var calls sync.WaitGroup
	for range count {
		<-ticker.C
		calls.Go(func() {
			began := time.Now()
			_, _, err := w.client.Execute(t.Context(), api.ExecuteComponentRequest{
				Module: "RANDOM_UUID", Input: json.RawMessage(`{}`), Config: json.RawMessage(`{}`), WaitForMs: new(int32(15000)),
			}, nil)
			if err != nil {
				t.Errorf("execute: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			times = append(times, time.Since(began))
		})
	}
	calls.Wait()
	slices.SortFunc(times, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	return times[(len(times)*95+99)/100-1]
}

// lowestP95 returns the lowest p95 of windows of about a second, over the second half of the given
// seconds. A delay caused by the transaction affects all windows, whereas other load on the machine
// affects only some.
func (w *whole) lowestP95(t *testing.T, rate int, seconds float64) time.Duration {
	t.Helper()
	const window = 60
	windows := (int(seconds*float64(rate)) + window) / window // the load lasts at least that long
	if first := windows / 2; first > 0 {
		w.measureP95(t, rate, first*window)
	}
	least := w.measureP95(t, rate, window)
	for range windows - windows/2 - 1 {
		least = min(least, w.measureP95(t, rate, window))
	}
	return least
}

var oldest = regexp.MustCompile(`(?m)^weft_database_oldest_transaction_seconds ([0-9.e+-]+)$`)

// The server terminates idle transactions if the session sets a timeout. Every pool and every
// separate connection of Weft must set that timeout.
func TestEX17EverySessionTerminatesIdleTransactions(t *testing.T) {
	t.Parallel()
	w := startWhole(t, nil)
	has := func(name string, row pgx.Row) {
		t.Helper()
		var held string
		if err := row.Scan(&held); err != nil || held != "30s" {
			t.Errorf("a session of %s has the timeout %q (%v)", name, held, err)
		}
	}
	const show = "SHOW idle_in_transaction_session_timeout"
	all := reflect.ValueOf(*w.app.pools)
	for i := range all.NumField() {
		if all.Field(i).Type() != reflect.TypeFor[*pgxpool.Pool]() {
			continue
		}
		pool := (*pgxpool.Pool)(all.Field(i).UnsafePointer())
		has("the pool "+all.Type().Field(i).Name, pool.QueryRow(t.Context(), show))
	}
	single, err := postgres.Connect(t.Context(), w.dsn, "single")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = single.Close(context.Background()) }()
	has("a single connection", single.QueryRow(t.Context(), show))
	// Every session of the process has a name that these functions set.
	var strangers int
	err = w.app.pools.system.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND backend_type = 'client backend' AND application_name NOT LIKE 'weft-%'`).Scan(&strangers)
	if err != nil || strangers > 0 {
		t.Errorf("%d sessions were opened in another way (%v)", strangers, err)
	}
}

// Folds of runs may wait for a long time. Authentication and the runs of other workspaces use
// separate connections.
func TestAdvancesOfRunsUseTheirOwnConnections(t *testing.T) {
	t.Parallel()
	w := startWhole(t, nil)
	n := w.tenant(t, "folds")
	var made struct{ ID string }
	n.sign(t, http.MethodPost, "/v1/sdk/workflows", map[string]any{"name": "w", "components": []any{
		map[string]any{"id": "a", "module": "WAIT_FOR_SIGNAL", "config": map[string]any{"name": "go", "timeoutMs": 3_600_000}},
	}}).into(t, &made)
	var runs []notify.Key
	for range orchestrator.AdvancesAtOnce + 2 {
		var begun struct{ RunID uuid.UUID }
		n.sign(t, http.MethodPost, "/v1/sdk/workflows/"+made.ID, nil).into(t, &begun)
		runs = append(runs, notify.Key{WorkspaceID: n.id, ID: begun.RunID})
	}
	holder, err := postgres.Connect(t.Context(), w.dsn, "holder")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Close(context.Background()) }()
	if _, err := holder.Exec(t.Context(), "BEGIN; SELECT FROM workflow_runs FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	watcher, err := postgres.Connect(t.Context(), w.dsn, "watcher") // a transaction sees only the sessions at its start
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watcher.Close(context.Background()) }()
	tick, late := time.NewTicker(10*time.Millisecond), waittest.Context(t).Done()
	defer tick.Stop()
	for folds, others := 0, 0; folds != permit.Each; {
		for _, key := range runs { // repeatedly, because an advance that waited too long is retried later
			w.app.engine.Wake(key)
		}
		err := watcher.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE application_name = 'weft-runs'), count(*) FILTER (WHERE application_name <> 'weft-runs')
			FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&folds, &others)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%d folds and %d other sessions wait, want %d and 0", folds, others, permit.Each)
		}
	}
}

func TestEX17IdleTransactionIsReportedAndTerminatedAndDelaysNothing(t *testing.T) {
	w := startWhole(t, nil)
	seconds, sooner := waittest.Size(1.0, 20), waittest.Size(true, false) // in the soak also as long as every session may: 30 s
	session, err := postgres.Connect(t.Context(), w.dsn, "forgetful")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close(context.Background()) }()
	const rate = 50
	usual := w.measureP95(t, rate, 75)
	if _, err := session.Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ"); err != nil {
		t.Fatal(err)
	}
	if _, err := session.Exec(t.Context(), "SELECT count(*) FROM component_executions"); err != nil {
		t.Fatal(err)
	}
	beside := w.lowestP95(t, rate, seconds)
	waittest.Until(t, "the metric to show the age of the oldest transaction", func() bool {
		match := oldest.FindStringSubmatch(w.get(t, w.app.OpsURL()+"/metrics"))
		if len(match) == 0 {
			t.Fatal("the metric of the oldest transaction is missing")
		}
		age, err := strconv.ParseFloat(match[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return age >= seconds
	})
	t.Logf("p95 to the result: %v normally, %v during the idle transaction", usual, beside)
	if waittest.Timed() && beside > 2*usual+50*time.Millisecond {
		t.Errorf("p95 is %v during the idle transaction, normally %v", beside, usual)
	}
	if sooner {
		if _, err := session.Exec(t.Context(), "SET idle_in_transaction_session_timeout = '1s'"); err != nil {
			t.Fatal(err)
		}
	}
	// The server terminates the session and logs the reason.
	ended := waittest.Context(t)
	if _, err := session.WaitForNotification(ended); err == nil || ended.Err() != nil || !session.IsClosed() {
		t.Errorf("the session with the idle transaction was not terminated: %v", err)
	}
}
