package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
)

// shelf is a database with two workspaces, and a pool for each role.
type shelf struct {
	owner, system, scoped *pgxpool.Pool
	a, b                  uuid.UUID
	lost                  atomic.Int64
	book                  *audit.Book
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	dsn := pgtest.DSN(t)
	open := func(role postgres.Role) *pgxpool.Pool {
		pool, err := postgres.Open(t.Context(), dsn, "test", role, 2)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool
	}
	s := &shelf{owner: open(postgres.Owner), system: open(postgres.System), scoped: open(postgres.API)}
	for name, id := range map[string]*uuid.UUID{"a": &s.a, "b": &s.b} {
		made, err := workspace.Create(t.Context(), s.owner, workspace.CreateParams{Name: name, Plan: plan.Starter})
		if err != nil {
			t.Fatal(err)
		}
		*id = made
	}
	s.book = audit.NewBook(s.system, s.scoped, func() { s.lost.Add(1) }, slog.New(slog.DiscardHandler))
	return s
}

func (s *shelf) record(t *testing.T, ctx context.Context, conn postgres.DB, e audit.Event) {
	t.Helper()
	if err := audit.RecordTx(ctx, conn, e); err != nil {
		t.Fatal(err)
	}
}

func (s *shelf) list(t *testing.T, id uuid.UUID, limit int, cursor string) api.AuditEventPage {
	t.Helper()
	page, err := s.book.List(postgres.Scope(t.Context(), id), id, limit, cursor)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func TestMT09AnEventHasActorActionSubjectAndTime(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	user, key := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	for _, sql := range []string{
		"INSERT INTO users (id, email, name, password_hash) VALUES ('" + user.String() + "', 'ada@example.org', 'Ada', 'x')",
		"INSERT INTO api_keys (workspace_id, id, label, key_hash, key_hint, public_key) VALUES ('" + s.a.String() + "', '" + key.String() + "', 'Checkout', decode(repeat('00', 32), 'hex'), 'ws_ab...cdef', decode(repeat('00', 32), 'hex'))",
	} {
		if _, err := s.owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	scope := telemetry.WithRequest(postgres.Scope(t.Context(), s.a), "request-1")
	event := audit.Event{WorkspaceID: s.a, Action: "api_key.created", SubjectKind: "api_key", SubjectID: key.String(), Details: map[string]any{"label": "Checkout"}}
	s.record(t, audit.By(scope, audit.Actor{Kind: audit.User, ID: user}), s.scoped, event)
	s.record(t, audit.By(scope, audit.Actor{Kind: audit.APIKey, ID: key}), s.scoped, event)
	s.record(t, audit.By(t.Context(), audit.Actor{Kind: audit.Operator}), s.owner, event)
	s.record(t, t.Context(), s.system, audit.Event{WorkspaceID: s.a, Action: "plan.changed"})
	page := s.list(t, s.a, 10, "")
	if len(page.Data) != 4 || page.HasMore || page.NextCursor != nil {
		t.Fatalf("%+v", page)
	}
	for i, want := range []string{
		`"action":"plan.changed","actor":{"id":null,"kind":"system","name":null}`,
		`"actor":{"id":null,"kind":"operator","name":null}`,
		`"actor":{"id":"` + key.String() + `","kind":"api_key","name":"Checkout"}`,
		`"actor":{"id":"` + user.String() + `","kind":"user","name":"ada@example.org"}`,
	} {
		text, err := json.Marshal(page.Data[i])
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("event %d is %s, want %s", i, text, want)
		}
	}
	if last := page.Data[0]; last.Subject != nil || last.RequestID != nil || string(last.Details) != "{}" {
		t.Errorf("an event about the workspace itself: %+v", last)
	}
	if first := page.Data[3]; first.Subject == nil || first.Subject.ID != key.String() || *first.RequestID != "request-1" || string(first.Details) != `{"label": "Checkout"}` {
		t.Errorf("an event of a request: %+v", first)
	}
}

func TestMT09NobodyChangesOrDeletesAnEvent(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.record(t, t.Context(), s.system, audit.Event{WorkspaceID: s.a, Action: "plan.changed"})
	for role, pool := range map[string]*pgxpool.Pool{"owner": s.owner, "system": s.system, "api": s.scoped} {
		for _, sql := range []string{"UPDATE audit_events SET action = 'x.y'", "DELETE FROM audit_events", "TRUNCATE audit_events"} {
			_, err := pool.Exec(postgres.Scope(t.Context(), s.a), sql)
			if err == nil {
				t.Errorf("%s: %s was accepted", role, sql)
			}
			refusal, _ := errors.AsType[*pgconn.PgError](err)
			if role != "owner" && (refusal == nil || refusal.Code != "42501") { // insufficient_privilege
				t.Errorf("%s: %s failed with %v", role, sql, err)
			}
		}
	}
	if n := len(s.list(t, s.a, 10, "").Data); n != 1 {
		t.Errorf("%d events are left", n)
	}
}

func TestMT09EventsStayInTheirWorkspace(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	for range 5 {
		s.record(t, t.Context(), s.system, audit.Event{WorkspaceID: s.a, Action: "plan.changed"})
	}
	if err := audit.RecordTx(postgres.Scope(t.Context(), s.b), s.scoped, audit.Event{WorkspaceID: s.a, Action: "plan.changed"}); err == nil {
		t.Error("workspace b wrote an event of workspace a")
	}
	if n := len(s.list(t, s.b, 10, "").Data); n != 0 {
		t.Errorf("b reads %d events", n)
	}
	seen, cursor := map[uuid.UUID]bool{}, ""
	for pages := 1; ; pages++ {
		page := s.list(t, s.a, 2, cursor)
		for _, event := range page.Data {
			seen[event.ID] = true
		}
		if !page.HasMore {
			if pages != 3 || page.NextCursor != nil {
				t.Errorf("page %d is the last", pages)
			}
			break
		}
		cursor = *page.NextCursor
	}
	if len(seen) != 5 {
		t.Errorf("%d events on the pages", len(seen))
	}
	for _, cursor := range []string{"?", "AAAA"} {
		if _, err := s.book.List(t.Context(), s.a, 2, cursor); fault.CodeOf(err) != fault.InvalidInput {
			t.Errorf("the cursor %q: %v", cursor, err)
		}
	}
}

func TestMT09DenialsAreRecordedUpToALimit(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	key := audit.Actor{Kind: audit.APIKey, ID: uuid.Must(uuid.NewV7())}
	ctx := telemetry.WithRequest(t.Context(), "request-1")
	for range 500 {
		s.book.Deny(ctx, s.a, key, "executeWorkflow", "workflow_not_allowed")
	}
	s.book.Deny(ctx, s.b, key, "executeWorkflow", "workflow_not_allowed")
	done, cancel := context.WithCancel(t.Context())
	cancel()
	var running sync.WaitGroup
	running.Go(func() { s.book.Run(done) }) // writes the queued events
	running.Wait()
	events := s.list(t, s.a, 100, "").Data
	if n := len(events); n < 60 || n > 70 || int64(500-n) != s.lost.Load() {
		t.Fatalf("%d of 500 denials were recorded, %d were counted as lost", n, s.lost.Load())
	}
	if e := events[0]; e.Action != "access.denied" || e.Subject.ID != "executeWorkflow" || *e.RequestID != "request-1" ||
		*e.Actor.ID != key.ID || string(e.Details) != `{"reason": "workflow_not_allowed"}` {
		t.Errorf("%+v", e)
	}
	if n := len(s.list(t, s.b, 10, "").Data); n != 1 {
		t.Errorf("despite the flood in one workspace, %d events of the other were recorded, want 1", n)
	}
}
