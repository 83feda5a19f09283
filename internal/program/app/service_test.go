package app

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
)

// logBook collects what a process logs.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// whole is a running Weft with a workspace and a client.
type whole struct {
	app    *App
	dsn    string
	log    *logBook
	client *client.Client
	key    auth.Created
	id     uuid.UUID // of the workspace
}

// startOn starts a process on a database. The configuration must set a keyring.
func startOn(t *testing.T, dsn string, log io.Writer, change func(*Config)) *App {
	t.Helper()
	cfg := Config{
		DatabaseURL: dsn, Addr: "127.0.0.1:0", OpsAddr: "127.0.0.1:0", Work: true, Workers: 20,
		AllowNetworks:    []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		CallbackSchedule: []time.Duration{0, 50 * time.Millisecond},
	}
	change(&cfg)
	a, err := Start(t.Context(), cfg, telemetry.NewLogger(log, slog.LevelDebug))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Stop(context.Background()) })
	return a
}

func startWhole(t *testing.T, change func(*Config)) *whole {
	t.Helper()
	ring, err := keyring(goodKey, "")
	if err != nil {
		t.Fatal(err)
	}
	w := &whole{dsn: pgtest.DSN(t), log: &logBook{}}
	w.app = startOn(t, w.dsn, w.log, func(cfg *Config) {
		cfg.Keyring = ring
		if change != nil {
			change(cfg)
		}
	})
	workspaceID, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := workspace.Create(t.Context(), w.app.pools.system, workspace.CreateParams{ID: workspaceID, Name: "whole", Plan: plan.Enterprise, Paid: credit.Credits(1_000_000)}); err != nil {
		t.Fatal(err)
	}
	if w.key, err = auth.NewKeys(w.app.pools.system).Create(t.Context(), auth.CreateParams{WorkspaceID: workspaceID, Label: "whole"}); err != nil {
		t.Fatal(err)
	}
	w.id = workspaceID
	signer, err := client.NewSigner(w.key.APIKey, w.key.APISecret)
	if err != nil {
		t.Fatal(err)
	}
	if w.client, err = client.New(w.app.URL(), signer, nil); err != nil {
		t.Fatal(err)
	}
	return w
}

// canary is a secret that must not appear anywhere.
const canary = "c4n4ry-5ecret-9f27"

func TestMT05SecretsDoNotLeak(t *testing.T) {
	t.Parallel()
	w := startWhole(t, nil)
	var arrived sync.WaitGroup
	arrived.Add(2) // one delivery that fails, and one that succeeds
	var tries sync.Map
	receiver := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Token") != canary {
			t.Errorf("the receiver got X-Token %q", r.Header.Get("X-Token"))
		}
		if _, again := tries.LoadOrStore(r.Header.Get("X-Svc-Execution-Id"), true); !again {
			rw.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(rw, canary+"-of-the-receiver")
		arrived.Done()
	}))
	defer receiver.Close()
	upstream := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(rw, "you sent "+r.Header.Get("Authorization"))
	}))
	defer upstream.Close()
	input, _ := json.Marshal(map[string]any{"headers": map[string]string{"Authorization": "Bearer " + canary}})
	config, _ := json.Marshal(map[string]any{"apiUrl": upstream.URL + "/x", "method": "GET"})
	record, _, err := w.client.Execute(t.Context(), api.ExecuteComponentRequest{
		Module: "API_CALL", Input: input, Config: config, WaitForMs: new(int32(15000)),
		CallbackURL: new(receiver.URL), CallbackSecret: new(canary), CallbackHeaders: map[string]string{"X-Token": canary},
	}, nil)
	if err != nil || record.Status != status.ExecutionFailed {
		t.Fatalf("the execution is %s (%v)", record.Status, err)
	}
	arrived.Wait()
	_, malformed := w.client.Call(t.Context(), http.MethodPost, "/v1/sdk/components", []byte(`{"module":"API_CALL","input":{},"config":{},"callbackUrl":7,"callbackSecret":["`+canary+`"]}`), nil)
	shown, _ := json.Marshal(record)
	w.expectNoCanary(t, "the record", string(shown))
	w.expectNoCanary(t, "an error response", malformed.Error())
	w.expectNoCanary(t, "the metrics", w.get(t, w.app.OpsURL()+"/metrics"))
	w.app.Stop(context.Background())
	w.expectNoCanary(t, "the log at debug", w.log.String())
	w.expectNoCanary(t, "a dump of every table", dump(t, w.dsn))
}

func (w *whole) expectNoCanary(t *testing.T, where, text string) {
	t.Helper()
	if len(text) == 0 {
		t.Errorf("%s is empty, so this proves nothing", where)
	}
	for _, secret := range []string{canary, w.key.APIKey, w.key.APISecret} {
		if at := strings.Index(text, secret); at >= 0 {
			t.Errorf("%s contains a secret: ...%.200s", where, text[max(0, at-100):])
		}
	}
}

func (w *whole) get(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v", url, answer.Status, err)
	}
	return string(text)
}

// dump returns every row of every table, showing bytes as text where possible.
func dump(t *testing.T, dsn string) string {
	t.Helper()
	conn, err := postgres.Connect(t.Context(), dsn, "dump")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	rows, err := conn.Query(t.Context(), `SELECT oid::regclass::text FROM pg_class
		WHERE relnamespace IN ('public'::regnamespace, 'river'::regnamespace) AND relkind IN ('r', 'p') AND NOT relispartition`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) < 8 {
		t.Fatalf("unexpected tables %v (%v)", tables, err)
	}
	return dumpOf(t, dsn, tables...)
}

// dumpOf returns every row of these tables.
func dumpOf(t *testing.T, dsn string, tables ...string) string {
	t.Helper()
	conn, err := postgres.Connect(t.Context(), dsn, "dump")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), "SET bytea_output = escape"); err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for _, table := range tables {
		if _, err := conn.PgConn().CopyTo(t.Context(), &all, "COPY (SELECT * FROM "+table+") TO STDOUT"); err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

func TestOP03WrongSchemaPreventsStartWithAClearError(t *testing.T) {
	t.Parallel()
	ring, err := keyring(goodKey, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ change, want string }{
		"older":            {"DELETE FROM schema_migrations", "weft migrate"},
		"newer":            {"INSERT INTO schema_migrations (number, name, checksum) VALUES (999, 'later', '')", "newer binary"},
		"newer at the end": {"INSERT INTO schema_migrations (number, name, checksum, expand) VALUES (998, 'later', '', true), (999, 'last', '', false)", "newer binary"},
		"of another build": {"UPDATE schema_migrations SET checksum = 'other'", "another build"},
		"queue is older":   {"DELETE FROM river.river_migration WHERE version = (SELECT max(version) FROM river.river_migration)", "weft migrate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := pgtest.DSN(t)
			conn, err := postgres.Connect(t.Context(), dsn, "test")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(context.Background()) }()
			if _, err := conn.Exec(t.Context(), tc.change); err != nil {
				t.Fatal(err)
			}
			_, err = Start(t.Context(), Config{DatabaseURL: dsn, Keyring: ring, Work: true, Workers: 1}, slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one that contains %q", err, tc.want)
			}
			// Where the cure is not weft migrate, weft migrate also rejects the database.
			if err := Migrate(t.Context(), dsn); !strings.Contains(tc.want, "weft migrate") && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("weft migrate: got error %v, want one that contains %q", err, tc.want)
			}
		})
	}
}
