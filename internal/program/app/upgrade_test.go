package app

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// early is a database with an early schema.
type early struct {
	conn    *pgx.Conn
	applied int
}

func (e *early) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := e.conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// upTo applies migrations in order, as the versions of that time did.
func (e *early) upTo(t *testing.T, number int) {
	t.Helper()
	for ; e.applied < number; e.applied++ {
		files, err := filepath.Glob(fmt.Sprintf("../../platform/postgres/migrations/%04d_*.sql", e.applied+1))
		if err != nil || len(files) != 1 {
			t.Fatalf("migration %d: %v, %v", e.applied+1, files, err)
		}
		sql, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		e.exec(t, "BEGIN;"+string(sql)+"; COMMIT")
		sum := sha256.Sum256(sql)
		e.exec(t, "INSERT INTO schema_migrations (number, name, checksum) VALUES ($1, $2, $3)",
			e.applied+1, strings.TrimSuffix(filepath.Base(files[0]), ".sql"), hex.EncodeToString(sum[:8]))
	}
}

func idAt(at time.Time) uuid.UUID {
	id := uuid.Must(uuid.NewV7())
	binary.BigEndian.PutUint64(id[:], uint64(at.UnixMilli())<<16|0x7001)
	return id
}

// Rows written by the first versions survive every migration: no row is lost, the ledger adds up,
// and unfinished work continues.
func TestOP04RowsOfTheFirstSchemasSurviveEveryMigration(t *testing.T) {
	t.Parallel()
	received := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		received <- r.Header.Get("X-Svc-Execution-Id")
	}))
	defer receiver.Close()
	ring, err := keyring(goodKey, "")
	if err != nil {
		t.Fatal(err)
	}
	dsn := pgtest.DSN(t)
	conn, err := postgres.Connect(t.Context(), dsn, "early")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	e := &early{conn: conn}
	e.exec(t, "DROP SCHEMA public CASCADE; DROP SCHEMA river CASCADE; CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO PUBLIC")
	e.exec(t, "CREATE TABLE schema_migrations (number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())")

	e.upTo(t, 1)
	workspaceID, userID := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	past := time.Now().AddDate(0, 0, -50)
	old, recent, live := idAt(past), idAt(time.Now().Add(-time.Hour)), idAt(time.Now().Add(-time.Minute))
	call, err := ring.Seal([]byte(`{"input":{},"config":{}}`), execution.SealedAt(workspaceID, live))
	if err != nil {
		t.Fatal(err)
	}
	e.exec(t, "INSERT INTO workspaces (id, name, plan) VALUES ($1, 'early', 'growth')", workspaceID)
	e.exec(t, "INSERT INTO workers (host) VALUES ('gone')")
	const ended = `INSERT INTO component_executions (workspace_id, id, module, status, call, attempts, attempt, job_id, has_callback, output, error, usage, created_at, updated_at, finished_at)
		VALUES ($1, $2, 'RANDOM_UUID', $3, '\x01', 1, 1, 1, true, $4, $5, 1000000, $6, $6, $6)`
	e.exec(t, ended, workspaceID, old, "COMPLETED", `{"uuid":"x"}`, nil, past)
	e.exec(t, ended, workspaceID, recent, "FAILED", nil, `{"code":"INTERNAL_ERROR","message":"it failed","retryable":false}`, time.Now().Add(-time.Hour))
	e.exec(t, `INSERT INTO component_executions (workspace_id, id, module, repeat_rule, status, call, attempts, job_id, created_at, updated_at)
		VALUES ($1, $2, 'RANDOM_UUID', 'pure', 'CREATED', $3, 1, 3, now() - interval '1 minute', now() - interval '1 minute')`, workspaceID, live, call)
	e.exec(t, "INSERT INTO usage_postings (workspace_id, kind, reference_id, amount) VALUES ($1, 'execution', $2, 1000000), ($1, 'execution', $3, 1000000)", workspaceID, old, recent)
	e.exec(t, `INSERT INTO callbacks (workspace_id, execution_id, url, signed, body, state, attempt_count, delivered_at, created_at)
		VALUES ($1, $2, $3, false, '{}', 'DELIVERED', 1, now(), now())`, workspaceID, old, receiver.URL)
	e.exec(t, `INSERT INTO callbacks (workspace_id, execution_id, url, signed, body, state, job_id, created_at)
		VALUES ($1, $2, $3, false, '{}', 'QUEUED', 2, now())`, workspaceID, recent, receiver.URL)
	e.exec(t, "INSERT INTO callback_attempts VALUES ($1, $2, 1, now(), 5, 200, NULL, true)", workspaceID, old)
	e.exec(t, "INSERT INTO idempotency_keys (workspace_id, operation, path, key, body_hash, resource_id) VALUES ($1, 'executeComponent', '/', 'k', '\\x00', $2)", workspaceID, recent)

	e.upTo(t, 6)
	e.exec(t, "UPDATE credit_accounts SET paid = 5000000")
	e.exec(t, "INSERT INTO credit_postings (workspace_id, id, kind, reference, paid, granted) VALUES ($1, $2, 'GRANT', 'first', 5000000, -5000000)", workspaceID, uuid.Must(uuid.NewV7()))
	e.exec(t, "INSERT INTO users (id, email, name, password_hash) VALUES ($1, 'early@example.org', 'Early', 'none')", userID)
	e.exec(t, "INSERT INTO members (workspace_id, user_id, role) VALUES ($1, $2, 'owner')", workspaceID, userID)
	e.exec(t, "INSERT INTO audit_events (workspace_id, id, action, actor_kind) VALUES ($1, $2, 'member.added', 'operator')", workspaceID, uuid.Must(uuid.NewV7()))

	// A key that was rotated twice, and one that was never rotated.
	rotated := []uuid.UUID{uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())}
	for i, id := range rotated {
		hash := sha256.Sum256(id[:])
		var next *uuid.UUID
		if i < 2 {
			next = &rotated[i+1]
		}
		e.exec(t, "INSERT INTO api_keys (workspace_id, id, label, key_hash, key_hint, public_key, replaced_by) VALUES ($1, $2, 'rotated', $3, '', $3, $4)", workspaceID, id, hash[:], next)
	}

	// A user who joined by invitation: nothing verified their address.
	e.exec(t, "INSERT INTO users (id, email, name, password_hash) VALUES ($1, 'guest@example.org', 'Guest', 'none')", uuid.Must(uuid.NewV7()))
	e.exec(t, `INSERT INTO invitations (workspace_id, id, email, role, token_hash, expires_at, accepted_at)
		VALUES ($1, $2, 'guest@example.org', 'viewer', sha256('x'), now(), now())`, workspaceID, uuid.Must(uuid.NewV7()))

	if err := Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	for i, want := range []uuid.UUID{rotated[0], rotated[0], rotated[0], rotated[3]} {
		var root uuid.UUID
		if err := conn.QueryRow(t.Context(), "SELECT COALESCE(root_id, id) FROM api_keys WHERE id = $1", rotated[i]).Scan(&root); err != nil || root != want {
			t.Errorf("the root of key %d is %s, want %s (%v)", i, root, want, err)
		}
	}
	var verified string
	if err := conn.QueryRow(t.Context(), "SELECT string_agg(email, ' ') FROM users WHERE verified_at IS NOT NULL").Scan(&verified); err != nil || verified != "early@example.org" {
		t.Errorf("unexpected verified users %q (%v)", verified, err)
	}
	var weeks, tables, keys int
	if err := conn.QueryRow(t.Context(), `SELECT count(DISTINCT w.week), count(c.oid), count(k.oid)
		FROM partition_weeks w CROSS JOIN weekly_tables() t
		LEFT JOIN pg_class c ON c.oid = to_regclass(t.name || to_char(w.week AT TIME ZONE 'UTC', '"_"IYYY"w"IW')) AND c.relispartition
		LEFT JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype = 'f'`).Scan(&weeks, &tables, &keys); err != nil ||
		weeks < 9 || tables != 7*weeks || keys != 4*weeks {
		t.Errorf("got %d weeks with %d partitions and %d foreign keys (%v); want 7 and 4 for each week", weeks, tables, keys, err)
	}
	if broken, n, err := billing.Audit(t.Context(), conn, uuid.Nil); err != nil || n != 1 || len(broken) > 0 {
		t.Errorf("the ledger of %d workspaces: %v (%v)", n, broken, err)
	}
	w := startWhole(t, func(c *Config) { c.DatabaseURL = dsn })
	key, err := auth.NewKeys(w.app.pools.system).Create(t.Context(), auth.CreateParams{WorkspaceID: workspaceID, Label: "early"})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := client.NewSigner(key.APIKey, key.APISecret)
	if err != nil {
		t.Fatal(err)
	}
	delivered := func(want uuid.UUID) {
		t.Helper()
		if id := waittest.Receive(t, "a callback", received); id != want.String() {
			t.Errorf("got the callback of %s, want that of %s", id, want)
		}
	}
	n := &tenant{whole: w, id: workspaceID, signed: &http.Client{Transport: &client.Transport{Signer: signer}}}
	delivered(recent)
	record := func(id uuid.UUID) (r api.ComponentExecution) {
		t.Helper()
		n.sign(t, http.MethodGet, "/v1/sdk/components/executions/"+id.String(), nil).into(t, &r)
		return r
	}
	waittest.Until(t, "the unfinished execution to complete", func() bool { return record(live).Completed })
	for id, want := range map[uuid.UUID]string{old: "COMPLETED", recent: "FAILED", live: "COMPLETED"} {
		if r := record(id); string(r.Status) != want {
			t.Errorf("%s is %s, want %s", id, r.Status, want)
		}
	}
	if r := n.sign(t, http.MethodPost, "/v1/sdk/components/executions/"+old.String()+"/replay-callback?force=true", nil); r.status != http.StatusOK {
		t.Errorf("a replay returned %d %s", r.status, r.body)
	}
	delivered(old)
	if r := n.sign(t, http.MethodPost, "/v1/sdk/components", map[string]any{"module": "RANDOM_UUID", "input": map[string]any{}, "config": map[string]any{}, "waitForMs": 15000}); r.status != http.StatusOK {
		t.Errorf("a new execution returned %d %s", r.status, r.body)
	}
	if broken, _, err := billing.Audit(t.Context(), conn, workspaceID); err != nil || len(broken) > 0 {
		t.Errorf("the ledger at the end: %v (%v)", broken, err)
	}
}
