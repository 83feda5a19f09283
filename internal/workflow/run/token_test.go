package run_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/component/modules/apicall"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// shop is a server with a token address and an API that wants its tokens.
type shop struct {
	*httptest.Server
	mu      sync.Mutex
	fetches int
	refuses int                                    // so many calls get a 401
	status  int                                    // of the token address; 0: 200
	calls   []string                               // method, path with query, Authorization and body of each call
	keys    []string                               // their Idempotency-Keys
	answer  func(w http.ResponseWriter, calls int) // of the API; nil: 200
	hold    chan struct{}                          // the token address answers when it is closed; nil: at once
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if s.hold != nil && r.URL.Path == "/token" {
		<-s.hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/token" {
		s.fetches++
		if s.status != 0 {
			w.WriteHeader(s.status)
			fmt.Fprint(w, `{"error":"invalid_client","error_description":"words of the server"}`)
			return
		}
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"bearer","expires_in":3600}`, s.token())
		return
	}
	s.calls = append(s.calls, strings.Join([]string{r.Method, r.URL.RequestURI(), r.Header.Get("Authorization"), string(body)}, "|"))
	s.keys = append(s.keys, r.Header.Get("Idempotency-Key"))
	if s.answer != nil {
		s.answer(w, len(s.calls))
	}
	if s.refuses > 0 {
		s.refuses--
		w.WriteHeader(http.StatusUnauthorized)
	}
	fmt.Fprintf(w, `{"seen":%q}`, r.Header.Get("Authorization"))
}

// token returns the token that was fetched last.
func (s *shop) token() string { return fmt.Sprintf("canary+/token=%d", s.fetches) }

// shopping returns a node whose workspace has the variable SHOP, which is a token of the shop.
func shopping(t *testing.T, s *shop) *node {
	t.Helper()
	guard := egress.New(egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(guard.Close)
	b := newBench(t, apicall.Modules(guard)...)
	b.guard = guard
	n := b.start(t, options{slots: 8})
	n.setToken(t, s)
	return n
}

func (n *node) setToken(t *testing.T, s *shop) {
	t.Helper()
	_, err := n.environment.Set(n.ctx, environment.SetParams{
		WorkspaceID: n.workspace, Name: "SHOP", Kind: environment.KindToken,
		Client: &environment.Client{TokenURL: s.URL + "/token", ID: "weft", Secret: "client-canary"},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestATokenIsPutIntoEachAttemptAndNothingElseHasIt(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	n := shopping(t, s)
	id := n.draw(t, fmt.Sprintf(`[{"id":"start","module":"ON_API_CALLED"},{"id":"call","module":"API_CALL",
		"config":{"apiUrl":"%s/{{ start.input.id }}/{{env.SHOP}}?q={{env.SHOP}}","method":"POST"},
		"input":{"headers":{"Authorization":"Bearer {{env.SHOP}}"},"body":{"r":"{{ run.id }}","t":"{{env.SHOP}}"}}}]`, s.URL),
		`[{"id":"1","from":"start","to":"call"}]`, "")
	key := n.trigger(t, run.TriggerParams{WorkflowID: id, Input: json.RawMessage(`{"id":"a/b"}`)})
	got, _ := n.end(t, key)
	if got.Status != status.RunCompleted {
		t.Fatalf("%s: %+v", got.Status, got.Error)
	}
	const escaped = "canary%2B%2Ftoken%3D1"
	want := "POST|/a%2Fb/" + escaped + "?q=" + escaped + "|Bearer " + s.token() + `|{"r":"` + key.ID.String() + `","t":"` + s.token() + `"}`
	if len(s.calls) != 1 || s.calls[0] != want || s.fetches != 1 {
		t.Errorf("%d fetches, calls:\n%q\nwant\n%q", s.fetches, s.calls, want)
	}
	// A rerun sends the same key, although its token is a different one.
	if _, err := n.pool.Exec(n.ctx, "UPDATE environment_variables SET token_expires_at = now(), token_refresh_at = now()"); err != nil {
		t.Fatal(err)
	}
	var first uuid.UUID
	if err := n.pool.QueryRow(n.ctx, "SELECT id FROM run_stages WHERE component_id = 'start'").Scan(&first); err != nil {
		t.Fatal(err)
	}
	again, _ := n.end(t, n.trigger(t, run.TriggerParams{
		WorkflowID: id, RerunOf: &orchestrator.Origin{RunID: key.ID, FromStageID: &first},
	}))
	if again.Status != status.RunCompleted || len(s.keys) != 2 || s.keys[0] != s.keys[1] || s.fetches != 2 {
		t.Errorf("%s, keys %q after %d fetches: %+v", again.Status, s.keys, s.fetches, again.Error)
	}
	n.hasNoCanary(t)
}

// hasNoCanary checks that no row has a token or the client secret.
func (n *node) hasNoCanary(t *testing.T) {
	t.Helper()
	rows, err := n.pool.Query(n.ctx, `SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	var tables []string
	for rows.Next() {
		var table string
		if err := rows.Scan(&table); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, table)
	}
	if len(tables) < 20 || !slices.Contains(tables, postgres.RiverSchema+".river_job") {
		t.Fatalf("only the tables %q", tables)
	}
	for _, table := range tables {
		var found int
		err := n.pool.QueryRow(n.ctx, fmt.Sprintf(`SELECT count(*) FROM %s r WHERE r::text LIKE '%%canary%%' OR r::text LIKE '%%' || encode('canary', 'hex') || '%%'`, table)).Scan(&found)
		if err != nil || found > 0 {
			t.Errorf("%d rows of %s have a token or the client secret, %v", found, table, err)
		}
	}
}

func TestARefusedTokenIsReplacedAndTheCallRepeatedOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refuses, calls, fetches int
		age                     string
		status                  status.Run
	}{
		"once":              {1, 2, 2, "1 minute", status.RunCompleted},
		"twice":             {2, 2, 2, "1 minute", status.RunFailed},
		"while it is young": {1, 1, 1, "1 second", status.RunFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			n := shopping(t, s)
			id := n.draw(t, fmt.Sprintf(`[{"id":"call","module":"API_CALL","config":{"apiUrl":"%s/x","method":"POST"},"input":{"headers":{"Authorization":"Bearer {{env.SHOP}}"}}}]`, s.URL), "", "")
			if got, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id})); got.Status != status.RunCompleted {
				t.Fatalf("%+v", got.Error)
			}
			if _, err := n.pool.Exec(n.ctx, "UPDATE environment_variables SET token_at = now() - $1::text::interval", c.age); err != nil {
				t.Fatal(err)
			}
			s.mu.Lock()
			s.refuses, s.calls = c.refuses, nil
			s.mu.Unlock()
			got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
			if got.Status != c.status || len(s.calls) != c.calls || s.fetches != c.fetches {
				t.Errorf("%s after %d calls and %d fetches: %+v", got.Status, len(s.calls), s.fetches, got.Error)
			}
			if shown, _ := json.Marshal(stages); strings.Contains(string(shown), "canary") && c.status == status.RunFailed {
				t.Errorf("a token is shown: %s", shown)
			}
		})
	}
}

func TestATokenAddressThatRefusesIsACredentialUnavailable(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.status = http.StatusUnauthorized
	n := shopping(t, s)
	id := n.draw(t, fmt.Sprintf(`[{"id":"call","module":"API_CALL","attempts":3,"config":{"apiUrl":"%s/x","method":"GET"},"input":{"headers":{"Authorization":"Bearer {{env.SHOP}}"}}}]`, s.URL), "", "")
	got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	var why api.ExecutionError
	if err := json.Unmarshal(stages[workflowtest.Place("call", []int{})].Error, &why); err != nil {
		t.Fatal(err)
	}
	if got.Status != status.RunFailed || why.Code != "CREDENTIAL_UNAVAILABLE" || why.Retryable || s.fetches != 1 || len(s.calls) != 0 {
		t.Fatalf("%s, %+v, %d fetches", got.Status, why, s.fetches)
	}
	if text := why.Message + string(why.Details); !strings.Contains(text, "SHOP") || !strings.Contains(text, "401") || !strings.Contains(text, "invalid_client") || !strings.Contains(text, `"sent":"no"`) || strings.Contains(text, "words") {
		t.Errorf("it says %s", text)
	}
}

func TestATokenStandsOnlyInCalls(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	n := shopping(t, s)
	call := func(config, input string) string {
		return `[{"id":"c","module":"API_CALL","config":` + config + `,"input":` + input + `}]`
	}
	for components, pointer := range map[string]string{
		`[{"id":"c","module":"RESPOND","input":{"output":"{{env.SHOP}}"}}]`:                                  "/components/0",
		`[{"id":"c","module":"TRANSFORM","input":{"value":"{{env.SHOP}}"},"config":{"expression":"value"}}]`: "/components/0",
		`[{"id":"c","module":"IF","config":{"expression":"env.SHOP == 'x'"}}]`:                               "/components/0",
		`[{"id":"c","module":"FOR_EACH","input":{"items":["{{env.SHOP}}"]}}]`:                                "/components/0",
		call(`{"apiUrl":"https://a.example","method":"GET"}`, `{"headers":{"X":"{{ upper(env.SHOP) }}"}}`):   "/components/0/input/headers/X",
		call(`{"apiUrl":"https://{{env.SHOP}}.a.example/","method":"GET"}`, `{}`):                            "/components/0/config/apiUrl",
		call(`{"apiUrl":"{{env.SHOP}}","method":"GET"}`, `{}`):                                               "/components/0/config/apiUrl",
	} {
		_, _, err := n.workflows.Create(n.ctx, workflow.CreateParams{WorkspaceID: n.workspace, Draft: workflow.Draft{Name: "x", Components: json.RawMessage(components)}})
		refused, _ := err.(*fault.Error)
		if refused == nil || len(refused.Details) == 0 || !strings.HasPrefix(refused.Details[0].Pointer, pointer) || !strings.Contains(refused.Details[0].Message, "access token") {
			t.Errorf("%s: %v %+v", components, err, refused)
		}
	}
}
