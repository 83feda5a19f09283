package app

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// listPage is a list with a cursor, and the cursor that it sent.
type listPage struct {
	operation
	next string
}

// pagesOf returns every list with a cursor, and the cursor after its first item.
func (n *tenant) pagesOf(t *testing.T, ids map[string]string) (all []listPage) {
	t.Helper()
	for _, o := range operations(t) {
		if !o.cursor {
			continue
		}
		var got struct {
			Data       []json.RawMessage
			NextCursor *string
		}
		n.send(t, o, ids, "?limit=1").into(t, &got)
		if got.NextCursor == nil {
			t.Fatalf("%s: the tenant has only %d items, so the list sends no cursor. Add one to listed", o.id, len(got.Data))
		}
		all = append(all, listPage{o, *got.NextCursor})
	}
	return all
}

// wants sends the request of a list with the cursor, and checks the status of the response. Only the
// cursor of a rejected request may be wrong.
func (n *tenant) wants(t *testing.T, p listPage, ids map[string]string, next, what string, status int) {
	t.Helper()
	got := n.send(t, p.operation, ids, "?limit=1&cursor="+next)
	if got.status != status || status == http.StatusBadRequest && !strings.Contains(got.body, `"/query/cursor"`) {
		t.Errorf("%s with %s: got %d %s, want %d", p.id, what, got.status, got.body, status)
	}
}

// listed creates a tenant who has at least two items in each list. It returns the IDs of the paths.
func (w *whole) listed(t *testing.T, name, receiver string) (*tenant, map[string]string) {
	t.Helper()
	n := w.tenant(t, name)
	ids := n.resources(t, receiver)
	second, err := workspace.Create(t.Context(), w.app.pools.system, workspace.CreateParams{Name: name + "-second", Plan: plan.Enterprise})
	if err == nil {
		_, err = person.CreateOwner(t.Context(), w.app.pools.system, second, person.Account{Email: name + "@example.org", Existing: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	var made api.Workflow
	n.sign(t, http.MethodPost, "/v1/sdk/workflows", map[string]any{"name": "listed", "components": []any{
		map[string]any{"id": "first", "module": "RANDOM_UUID"},
		map[string]any{"id": "second", "module": "WAIT_FOR_SIGNAL", "config": map[string]any{"name": "go", "timeoutMs": 600_000}},
	}}).into(t, &made)
	var started api.TriggerResult
	n.sign(t, http.MethodPost, "/v1/sdk/workflows/"+made.ID.String(), map[string]any{"callbackUrl": receiver}).into(t, &started)
	run := started.RunID.String()
	ids["runId"] = run
	waittest.Until(t, "both stages of the run", func() bool {
		return strings.Count(n.sign(t, http.MethodGet, "/v1/sdk/workflows/executions/"+run+"/stages", nil).body, `"componentId":`) > 1
	})
	n.sign(t, http.MethodPut, "/v1/sdk/workflows/executions/"+run+"/cancellation", nil).into(t, &struct{}{})
	for _, of := range []struct{ replay, attempts string }{
		{"/v1/sdk/components/executions/" + ids["executionId"] + "/replay-callback", "/v1/sdk/components/executions/" + ids["executionId"] + "/callback-attempts"},
		{"/v1/sdk/workflows/executions/" + run + "/callback/replay", "/v1/sdk/workflows/executions/" + run + "/callback/attempts"},
	} {
		for count := range 2 {
			if count == 1 {
				n.sign(t, http.MethodPost, of.replay+"?force=true", nil).into(t, &struct{}{})
			}
			waittest.Until(t, "the attempts of a callback", func() bool {
				return strings.Count(n.sign(t, http.MethodGet, of.attempts, nil).body, `"attempt":`) > count
			})
		}
	}
	return n, ids
}

// A bound cursor is valid only in the list and the workspace that sent it.
func TestForeignCursorsAreRejected(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	w := startWhole(t, func(cfg *Config) { cfg.bindCursors = true })
	a, of := w.listed(t, "alpha", receiver.URL)
	b, own := w.listed(t, "beta", receiver.URL)
	pages, others := a.pagesOf(t, of), b.pagesOf(t, own)
	for i, p := range pages {
		a.wants(t, p, of, p.next, "its own cursor", http.StatusOK)
		a.wants(t, p, of, others[i].next, "a cursor of another workspace", http.StatusBadRequest)
		for _, other := range pages {
			if other.id != p.id {
				a.wants(t, p, of, other.next, "a cursor of "+other.id, http.StatusBadRequest)
			}
		}
	}
}

// The previous release rejects bound cursors, so during an upgrade no list sends them, and every
// list accepts both forms.
func TestBothFormsOfCursorsAreAccepted(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	w := startWhole(t, func(*Config) {})
	a, of := w.listed(t, "alpha", receiver.URL)
	for _, p := range a.pagesOf(t, of) {
		owner := a.id
		if p.id == "listWorkspaces" {
			owner = a.owner.ID
		}
		scope := cursor.NewScope(p.id, owner)
		if cursor.NewScope("another", uuid.Nil).Check(p.next) != nil {
			t.Errorf("%s: sends a bound cursor", p.id)
		}
		a.wants(t, p, of, p.next, "the cursor that it sent", http.StatusOK)
		a.wants(t, p, of, *scope.Bind(p.next), "the same cursor, bound", http.StatusOK)
		a.wants(t, p, of, *cursor.NewScope(p.id, uuid.Max).Bind(p.next), "a cursor bound to another workspace", http.StatusBadRequest)
	}
}
