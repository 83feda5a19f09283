package app

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// resources returns one ID of each kind that the workspace has. An operation with a new kind of ID
// must add it here.
func (n *tenant) resources(t *testing.T, receiver string) map[string]string {
	t.Helper()
	userID, _ := n.joined(t, n.owner.Name+"-viewer@example.org", person.Viewer)
	var invited api.CreatedInvitation
	n.own(t, http.MethodPost, "/invitations", map[string]any{"email": n.owner.Name + "-later@example.org", "role": "viewer"}).into(t, &invited)
	var key api.CreatedAPIKey
	n.own(t, http.MethodPost, "/api-keys", map[string]any{"label": "second", "allowedWorkflowIds": []string{}}).into(t, &key)
	executionID := n.execution(t, receiver)
	for _, id := range []string{executionID, n.execution(t, receiver)} { // after these deliveries no row of the workspace changes
		n.delivered(t, "/v1/sdk/components/executions/"+id)
	}
	// A component ID is unique within its workflow only, so tenants use different component IDs.
	componentID := n.owner.Name + "-" + rand.Text()[:8]
	var w api.Workflow
	var run api.TriggerResult
	for range 2 {
		n.sign(t, http.MethodPost, "/v1/sdk/workflows", map[string]any{
			"name": n.owner.Name, "components": []map[string]any{{"id": componentID, "module": "RANDOM_UUID"}},
		}).into(t, &w)
		n.sign(t, http.MethodPost, "/v1/sdk/workflows/"+w.ID.String(), map[string]any{"waitForMs": 15000, "callbackUrl": receiver}).into(t, &run)
		n.delivered(t, "/v1/sdk/workflows/executions/"+run.RunID.String())
	}
	for _, name := range []string{"FIRST", "TOKEN"} {
		n.sign(t, http.MethodPut, "/v1/sdk/environment-variables/"+name, map[string]any{"value": "of " + n.id.String()}).into(t, &struct{}{})
	}
	var triggers [2]struct{ ID string }
	for range 2 {
		n.sign(t, http.MethodPost, "/v1/sdk/schedules", map[string]any{"workflowId": w.ID, "cron": "@yearly"}).into(t, &triggers[0])
		n.sign(t, http.MethodPost, "/v1/sdk/hooks", map[string]any{
			"workflowId": w.ID, "verification": map[string]any{"secret": "of " + n.id.String(), "header": "X-Mac"},
		}).into(t, &triggers[1])
	}
	return map[string]string{
		"workspaceId": n.id.String(), "userId": userID.String(), "invitationId": invited.ID.String(), "keyId": key.ID.String(),
		"executionId": executionID, "workflowId": w.ID.String(), "componentId": componentID,
		"runId": run.RunID.String(), "scheduleId": triggers[0].ID, "hookId": triggers[1].ID,
	}
}

// send sends a request of the operation with these IDs in its path.
func (n *tenant) send(t *testing.T, o operation, ids map[string]string, query string) reply {
	t.Helper()
	path := strings.NewReplacer("{name}", "TOKEN", "{module}", "RANDOM_UUID", "{signal}", "approved").Replace(o.path)
	for name, id := range ids {
		path = strings.Replace(path, "{"+name+"}", id, 1)
	}
	if o.signed {
		return n.sign(t, o.method, path+query, o.body)
	}
	through := &http.Client{Transport: adding{"Weft-Workspace", n.id.String()}} // ignored if the path names the workspace
	return n.whole.ask(t, through, n.token, o.method, path+query, o.body)
}

// shape returns the response without its per-request parts.
func (r reply) shape() string {
	header := maps.Clone(r.header)
	for _, name := range []string{"X-Request-Id", "Date", "Ratelimit", "Ratelimit-Policy"} {
		if header.Get(name) != "" {
			header.Set(name, "...")
		}
	}
	body := strings.ReplaceAll(r.body, r.header.Get("X-Request-Id"), "...")
	return fmt.Sprintf("%d %v %s", r.status, header, body)
}

// sameTime compares the medians of nine requests each, taken alternately. The generous factor and
// the repeated rounds allow for other load on the machine. A query, lock or wait that only one of
// the two requests causes is detected.
func (n *tenant) sameTime(t *testing.T, o operation, as, nobodys map[string]string) {
	t.Helper()
	var got, want time.Duration
	for range 6 {
		var took [2][]time.Duration
		for range 9 {
			for i, ids := range []map[string]string{as, nobodys} {
				began := time.Now()
				n.send(t, o, ids, "")
				took[i] = append(took[i], time.Since(began))
			}
		}
		slices.Sort(took[0])
		slices.Sort(took[1])
		if got, want = took[0][4], took[1][4]; got < 3*want && want < 3*got {
			return
		}
	}
	t.Errorf("%s with foreign IDs %v takes %v, with unknown ones %v", o.id, as, got, want)
}

// withAndWithoutRLS runs a test of the isolation of tenants twice: normally, and with a role that
// bypasses row-level security. The second run proves that the conditions in the statements suffice
// on their own. Row-level security would hide a missing condition.
func withAndWithoutRLS(t *testing.T, test func(t *testing.T, w *whole, asItIs bool)) {
	for name, role := range map[string]postgres.Role{"with row-level security": postgres.API, "without row-level security": postgres.System} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, startWhole(t, func(cfg *Config) { cfg.apiRole = role }), role == postgres.API)
		})
	}
}

// TestMT01 lets tenant B call every operation with IDs of tenant A in the path, in every
// combination with B's own IDs. The response, and the time that it takes, must equal those for an
// ID that does not exist.
func TestMT01ForeignIDsBehaveLikeUnknownIDs(t *testing.T) {
	t.Parallel()
	withAndWithoutRLS(t, matrix)
}

func matrix(t *testing.T, w *whole, timed bool) {
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	a, b := w.tenant(t, "alpha"), w.tenant(t, "beta")
	of, own := a.resources(t, receiver.URL), b.resources(t, receiver.URL)
	before, logged := a.rows(t), len(w.log.String())
	tried, signed := 0, 0
	for _, o := range everyWay(t) {
		if o.open {
			continue
		}
		if o.signed == o.person {
			t.Errorf("%s: its permissions are unknown to the test", o.id)
		}
		for _, name := range o.ids {
			if of[name] == "" {
				t.Errorf("%s has a path parameter %s: add one to resources", o.id, name)
			}
		}
		for choice := 1; choice < 1<<len(o.ids); choice++ {
			as, nobodys := map[string]string{}, map[string]string{}
			for i, name := range o.ids {
				as[name], nobodys[name] = own[name], own[name]
				if choice&(1<<i) != 0 {
					as[name], nobodys[name] = of[name], uuid.Must(uuid.NewV7()).String()
				}
			}
			got, want := b.send(t, o, as, ""), b.send(t, o, nobodys, "")
			if got.status != http.StatusNotFound || got.shape() != want.shape() {
				t.Errorf("%s with %v\ngot  %s\nwant %s", o.id, as, got.shape(), want.shape())
			}
			if timed && waittest.Timed() {
				b.sameTime(t, o, as, nobodys)
			}
			tried++
			if o.signed {
				signed++
			}
		}
	}
	if tried < 20 || signed < 4 {
		t.Errorf("unexpected coverage: %d combinations, %d of them signed", tried, signed)
	}
	if after := a.rows(t); after != before {
		t.Errorf("the rows of A changed from\n%s\nto\n%s", before, after)
	}
	for line := range strings.Lines(w.log.String()[logged:]) {
		if strings.Contains(line, `"request_id"`) && strings.Contains(line, a.id.String()) {
			t.Errorf("a request of B was logged with A's workspace: %s", line)
		}
	}
}

// Operations without an ID, such as lists and those with an Idempotency-Key, show and change only the
// caller's own resources.
func TestMT01ListsAndIdempotencyKeysAreScopedToTheCaller(t *testing.T) {
	t.Parallel()
	withAndWithoutRLS(t, lists)
}

func lists(t *testing.T, w *whole, _ bool) {
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	a, b := w.tenant(t, "alpha"), w.tenant(t, "beta")
	of, own := a.resources(t, receiver.URL), b.resources(t, receiver.URL)
	signed := 0
	for _, o := range everyWay(t) {
		if o.open || o.method != http.MethodGet || strings.HasSuffix(o.path, "/stream") {
			// TestMT01 covers operations with IDs, and the conformance tests the stream of a workspace. The last part of this test covers those with an
			// Idempotency-Key.
			if !o.open && len(o.ids) == 0 && !slices.Contains([]string{"executeComponent", "createWorkflow", "validateWorkflow", "createSchedule", "createHook", "setEnvironmentVariable", "deleteEnvironmentVariable", "deleteCurrentSession", "streamWorkspace"}, o.id) {
				t.Errorf("%s is not tested", o.id)
			}
			continue
		}
		queries := []string{""}
		if o.cursor {
			var page struct {
				Data       []json.RawMessage
				NextCursor *string
			}
			a.send(t, o, of, "?limit=1").into(t, &page)
			if len(page.Data) != 1 {
				t.Errorf("%s: a page of one has %d items of A, want 1", o.id, len(page.Data))
			}
			if page.NextCursor != nil {
				queries = append(queries, "?cursor="+*page.NextCursor)
			}
		}
		for _, query := range queries {
			answer := b.send(t, o, own, query)
			if answer.status != http.StatusOK {
				t.Errorf("%s%s: got status %d %s", o.id, query, answer.status, answer.body)
			}
			if o.signed {
				signed++
			}
			for name, id := range of {
				if strings.Contains(answer.body, id) {
					t.Errorf("%s%s shows B a %s of A", o.id, query, name)
				}
			}
		}
	}
	if signed < 7 {
		t.Errorf("unexpected coverage: %d signed requests", signed)
	}
	variables := func(n *tenant) string { return n.sign(t, http.MethodGet, "/v1/sdk/environment-variables", nil).body }
	before := variables(a)
	b.sign(t, http.MethodPut, "/v1/sdk/environment-variables/TOKEN", map[string]any{"value": "another"}).into(t, &struct{}{})
	b.sign(t, http.MethodDelete, "/v1/sdk/environment-variables/TOKEN", nil).into(t, &struct{}{})
	if after := variables(a); after != before || strings.Contains(variables(b), "TOKEN") {
		t.Errorf("A's variables changed from %s to %s", before, after)
	}
	for path, body := range map[string]string{
		"/v1/sdk/components": `{"module":"RANDOM_UUID","input":{},"config":{}}`,
		"/v1/sdk/workflows":  `{"name":"w","components":[{"id":"a","module":"RANDOM_UUID"}]}`,
		"/v1/sdk/schedules":  `{"workflowId":"WORKFLOW","cron":"@daily"}`,
		"/v1/sdk/hooks":      `{"workflowId":"WORKFLOW","verification":{"secret":"a long secret","header":"X-Mac"}}`,
	} {
		if strings.Contains(body, "WORKFLOW") {
			foreign := strings.Replace(body, "WORKFLOW", of["workflowId"], 1)
			if answer := b.sign(t, http.MethodPost, path, json.RawMessage(foreign)); answer.status != http.StatusNotFound {
				t.Errorf("%s for a workflow of A returned %d %s", path, answer.status, answer.body)
			}
		}
		ids := map[uuid.UUID]bool{}
		for _, n := range []*tenant{a, b, a} {
			own := map[*tenant]string{a: of["workflowId"], b: own["workflowId"]}[n]
			ids[n.repeat(t, path, strings.Replace(body, "WORKFLOW", own, 1))] = true
		}
		if len(ids) != 2 {
			t.Errorf("one Idempotency-Key in two workspaces created %d resources by %s", len(ids), path)
		}
	}
}

// repeat creates something under an Idempotency-Key that is always the same.
func (n *tenant) repeat(t *testing.T, path, body string) uuid.UUID {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.whole.app.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", "the same")
	answer, err := n.signed.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var made struct{ ID uuid.UUID }
	if err := json.NewDecoder(answer.Body).Decode(&made); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("got status %s (%v)", answer.Status, err)
	}
	return made.ID
}

func TestMT02PoolsUseTheirDatabaseRoles(t *testing.T) {
	t.Parallel()
	w := startWhole(t, nil)
	for name, c := range map[string]struct {
		pool *pgxpool.Pool
		role postgres.Role
	}{
		"api": {w.app.pools.api, postgres.API}, "system": {w.app.pools.system, postgres.System},
		"work": {w.app.pools.work, postgres.System}, "runs": {w.app.pools.runs, postgres.System}, "queue": {w.app.pools.queue, postgres.System},
	} {
		var role string
		if err := c.pool.QueryRow(t.Context(), "SELECT current_user::text").Scan(&role); err != nil || role != string(c.role) {
			t.Errorf("the pool %s has the role %q (%v)", name, role, err)
		}
	}
}

// A statement without a condition on the workspace finds no rows without a scope, and none of other
// workspaces within one.
func TestMT02UnconditionalStatementFindsNoForeignRows(t *testing.T) {
	t.Parallel()
	w := startWhole(t, nil)
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	a, b := w.tenant(t, "alpha"), w.tenant(t, "beta")
	a.resources(t, receiver.URL)
	full := 0
	for _, table := range append(w.tables(t), "workspaces") {
		key := "workspace_id"
		if table == "workspaces" {
			key = "id"
		}
		count := func(ctx context.Context, pool *pgxpool.Pool) (all, others int) {
			sql := fmt.Sprintf("SELECT count(*), count(*) FILTER (WHERE %s <> $1) FROM %s", key, table)
			err := pool.QueryRow(ctx, sql, b.id).Scan(&all, &others)
			if err != nil && (pool != w.app.pools.api || !isPermissionDenied(err)) {
				t.Errorf("count rows of %s: %v", table, err)
			}
			return all, others
		}
		if _, others := count(t.Context(), w.app.pools.system); others > 0 {
			full++
		}
		if all, _ := count(t.Context(), w.app.pools.api); all > 0 {
			t.Errorf("%s: %d rows without a scope", table, all)
		}
		if _, others := count(postgres.Scope(t.Context(), b.id), w.app.pools.api); others > 0 {
			t.Errorf("%s: %d rows of others in the scope of B", table, others)
		}
		for ctx, where := range map[context.Context]string{t.Context(): "without a scope", postgres.Scope(t.Context(), b.id): "in the scope of B"} {
			tag, err := w.app.pools.api.Exec(ctx, fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s = $1", table, key, key, key), a.id)
			if tag.RowsAffected() > 0 || err != nil && !isPermissionDenied(err) {
				t.Errorf("%s: an update %s: %v, %v", table, where, tag, err)
			}
		}
	}
	if full < 8 {
		t.Errorf("only %d tables have rows, so this proves little", full)
	}
}

// isPermissionDenied reports whether the error means that the role lacks the privilege.
func isPermissionDenied(err error) bool {
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refusal.Code == "42501" // insufficient_privilege
}

// rows returns every row of the workspace in the database.
func (n *tenant) rows(t *testing.T) string {
	t.Helper()
	conn, err := postgres.Connect(t.Context(), n.whole.dsn, "rows")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var all bytes.Buffer
	for _, table := range n.whole.tables(t) {
		fmt.Fprintln(&all, table)
		if _, err := conn.PgConn().CopyTo(t.Context(), &all, fmt.Sprintf(
			"COPY (SELECT t.* FROM %s t WHERE workspace_id = '%s' ORDER BY t::text) TO STDOUT", table, n.id)); err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// tables returns the tables with a workspace's rows, except open_calls, which changes with the calls
// that are open.
func (w *whole) tables(t *testing.T) []string {
	t.Helper()
	rows, err := w.app.pools.system.Query(t.Context(), `SELECT a.attrelid::regclass::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
		WHERE a.attname = 'workspace_id' AND c.relname <> 'open_calls' AND c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) < 8 {
		t.Fatalf("unexpected tables %v (%v)", tables, err)
	}
	return tables
}
