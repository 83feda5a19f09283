package app

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/client"
)

// holdAccount locks the account of the workspace until release is called.
func (n *tenant) holdAccount(t *testing.T) (release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), n.whole.dsn)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM credit_accounts WHERE workspace_id = $1 FOR UPDATE", n.id); err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() { conn.Close(context.Background()) })
	t.Cleanup(release)
	return release
}

// waiting returns the number of sessions that wait for a row.
func (w *whole) waiting(t *testing.T) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// writes are requests in the background.
type writes struct {
	sent    atomic.Int32
	answers chan reply
}

// start sends a request of the workspace, with an Idempotency-Key.
func (s *writes) start(t *testing.T, n *tenant, path string, body map[string]any) {
	t.Helper()
	signer, err := client.NewSigner(n.key.APIKey, n.key.APISecret)
	if err != nil {
		t.Fatal(err)
	}
	keyed := &http.Client{Transport: &client.Transport{Signer: signer, Base: counted{withHeaders{"Idempotency-Key": {uuid.NewString()}}, &s.sent}}}
	go func() { s.answers <- n.whole.ask(t, keyed, "", http.MethodPost, path, body) }()
}

// counted counts the requests that were sent.
type counted struct {
	http.RoundTripper
	sent *atomic.Int32
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { c.sent.Add(1) }}
	return c.RoundTripper.RoundTrip(r.Clone(httptrace.WithClientTrace(r.Context(), trace)))
}

// saved returns the path of a workflow whose runs wait for a signal.
func (n *tenant) saved(t *testing.T) string {
	t.Helper()
	var made api.Workflow
	n.sign(t, http.MethodPost, "/v1/sdk/workflows", map[string]any{"name": "waits", "components": []any{
		map[string]any{"id": "wait", "module": "WAIT_FOR_SIGNAL", "config": map[string]any{"name": "go", "timeoutMs": 3_600_000}},
	}}).into(t, &made)
	return "/v1/sdk/workflows/" + made.ID.String()
}

var call = map[string]any{"module": "RANDOM_UUID", "input": map[string]any{}, "config": map[string]any{}, "waitForMs": 0}

// The account of a workspace is held, and many of its writes wait for it. Others don't notice.
func TestWritesThatWaitForTheirAccountLeaveTheConnectionsToOthers(t *testing.T) {
	t.Parallel()
	w := startWhole(t, func(cfg *Config) { withPatientLimiter(cfg); cfg.turnPatience = time.Hour })
	n, other := w.tenant(t, "acme"), w.tenant(t, "other")
	workflow, others := n.saved(t), other.saved(t)
	const each = 20
	release, sent := n.holdAccount(t), &writes{answers: make(chan reply, 2*each)}
	direct := map[string]any{"module": "RANDOM_UUID", "input": map[string]any{}, "config": map[string]any{}} // by the pool of workers
	for range each / 2 {
		sent.start(t, n, "/v1/sdk/components", direct)
		sent.start(t, n, "/v1/sdk/components", call)
		sent.start(t, n, workflow, map[string]any{})
		sent.start(t, n, workflow, map[string]any{})
	}
	waittest.Until(t, "writes that wait for the account", func() bool { return w.waiting(t) >= 4 })
	waittest.Until(t, "all writes", func() bool { return sent.sent.Load() == 2*each })
	for name, r := range map[string]reply{
		"a call":    other.sign(t, http.MethodPost, "/v1/sdk/components", call),
		"a trigger": other.sign(t, http.MethodPost, others, map[string]any{}),
		"a read":    other.sign(t, http.MethodGet, others, nil),
	} {
		if r.status != http.StatusOK {
			t.Errorf("%s of another workspace: got status %d %s", name, r.status, r.body)
		}
	}
	if n.sign(t, http.MethodGet, workflow, nil).status != http.StatusOK {
		t.Error("the workspace itself can't read")
	}
	select {
	case r := <-sent.answers:
		t.Errorf("a write was answered while the account was held: status %d %s", r.status, r.body)
	default:
	}
	release()
	for range 2 * each {
		if r := waittest.Receive(t, "an answer", sent.answers); r.status != http.StatusOK {
			t.Errorf("a write after the release: got status %d %s", r.status, r.body)
		}
	}
}

func TestWritesThatWaitTooLongForOthersOfTheirWorkspaceAreAskedToTryAgain(t *testing.T) {
	t.Parallel()
	w := startWhole(t, func(cfg *Config) { withPatientLimiter(cfg); cfg.turnPatience = time.Millisecond })
	n := w.tenant(t, "acme")
	workflow := n.saved(t)
	var run api.TriggerResult
	n.sign(t, http.MethodPost, workflow, map[string]any{}).into(t, &run)
	release, sent := n.holdAccount(t), &writes{answers: make(chan reply, 4)}
	for held := range 4 { // one at a time, so that none waits for the others
		sent.start(t, n, workflow, map[string]any{})
		waittest.Until(t, fmt.Sprint("waiting writes: ", held+1), func() bool { return w.waiting(t) >= held+1 })
	}
	for name, path := range map[string]string{"a trigger": workflow, "a call": "/v1/sdk/components"} {
		body := map[string]any{}
		if path != workflow {
			body = call
		}
		fifth := &writes{answers: make(chan reply, 1)}
		fifth.start(t, n, path, body)
		if r := waittest.Receive(t, "an answer", fifth.answers); r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
			t.Errorf("%s: got status %d, Retry-After %q: %s; want 503", name, r.status, r.header.Get("Retry-After"), r.body)
		}
	}
	cancel := n.sign(t, http.MethodPut, "/v1/sdk/workflows/executions/"+run.RunID.String()+"/cancellation", nil)
	if cancel.status != http.StatusOK {
		t.Errorf("cancel: got status %d %s", cancel.status, cancel.body)
	}
	release()
	for range cap(sent.answers) {
		if r := waittest.Receive(t, "an answer", sent.answers); r.status != http.StatusOK {
			t.Errorf("a trigger after the release: got status %d %s", r.status, r.body)
		}
	}
}
