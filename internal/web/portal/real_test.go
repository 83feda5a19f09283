package portal_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/program/app"
	"github.com/weft-automation/weft/internal/web/browsertest"
)

// One browser opens every page and sends requests from the page to a real service.
func TestPagesWorkInRealBrowser(t *testing.T) {
	t.Parallel()
	url, dsn := startService(t)
	pool, err := postgres.Open(t.Context(), dsn, "test", postgres.Owner, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	id, err := workspace.Create(t.Context(), pool, workspace.CreateParams{Name: "Acme", Plan: plan.Enterprise, Paid: credit.Credits(1_000)})
	if err != nil {
		t.Fatal(err)
	}
	key, err := auth.NewKeys(pool).Create(t.Context(), auth.CreateParams{WorkspaceID: id, Label: "docs"})
	if err != nil {
		t.Fatal(err)
	}
	b := newBackend(t, url, key.APIKey, key.APISecret)
	execution := "/v1/sdk/components/executions/" + b.field(t, "/v1/sdk/components", `{"module":"RANDOM_UUID","input":{},"config":{},"waitForMs":15000}`, "id") + "/stream"
	workflow := b.field(t, "/v1/sdk/workflows", `{"name":"ids","components":[{"id":"start","module":"ON_API_CALLED"},{"id":"id","module":"RANDOM_UUID"}],"sequenceEdges":[{"id":"e","from":"start","to":"id"}]}`, "id")
	waiting := b.field(t, "/v1/sdk/workflows", `{"name":"wait","components":[{"id":"start","module":"ON_API_CALLED"},{"id":"wait","module":"WAIT_FOR_SIGNAL","config":{"name":"go","timeoutMs":600000}}],"sequenceEdges":[{"id":"e","from":"start","to":"wait"}]}`, "id")
	waiting = "/v1/sdk/workflows/executions/" + b.field(t, "/v1/sdk/workflows/"+waiting, `{}`, "runId") + "/stream"
	run := "/v1/sdk/workflows/executions/" + b.field(t, "/v1/sdk/workflows/"+workflow, `{"waitForMs":15000}`, "runId") + "/stream"
	output := browsertest.Run(t, "testdata/browser.mjs", "BASE_URL="+url, "API_KEY="+key.APIKey, "API_SECRET="+key.APISecret,
		"BACKEND="+b.url, "WAITING="+waiting, "AXE="+waittest.Size("quick", "full"), "STREAMS="+execution+" "+run)
	for _, stream := range []string{execution, run} {
		if !strings.Contains(output, stream+" COMPLETED\n") {
			t.Errorf("a standard EventSource of %s: %q, want one message", stream, output)
		}
		if got := b.statuses(stream); got != "200 204" {
			t.Errorf("statuses of a standard EventSource to %s: got %q, want 200 and then 204", stream, got)
		}
	}
}

// startService starts Weft on a new database, and returns its address and that of the database.
func startService(t *testing.T) (url, dsn string) {
	t.Helper()
	dsn = pgtest.DSN(t)
	cfg, err := app.ConfigFromEnv([]string{
		"DATABASE_URL=" + dsn, "WEFT_MASTER_KEY=3lbbMEpWSSOAvTGlSBeSRb1l9hAFgRtPBTOFsSwsmw8=",
		"WEFT_ADDR=127.0.0.1:0", "WEFT_OPS_ADDR=127.0.0.1:0", "WEFT_DRAIN_DELAY=0s",
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Work = true
	var log strings.Builder
	running, err := app.Start(t.Context(), cfg, telemetry.NewLogger(&log, slog.LevelDebug))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		running.Stop(context.Background())
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return running.URL(), dsn
}

// backend signs requests of a page and forwards the responses, as the guide to streams
// recommends.
type backend struct {
	url, service string
	http         *http.Client

	mu       sync.Mutex
	answered map[string][]string // statuses by target
}

func newBackend(t *testing.T, service, apiKey, apiSecret string) *backend {
	t.Helper()
	signer, err := client.NewSigner(apiKey, apiSecret)
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{service: service, http: &http.Client{Transport: &client.Transport{Signer: signer}}, answered: map[string][]string{}}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

// field sends a POST and returns a field of the response.
func (b *backend) field(t *testing.T, target, body, name string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.service+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := b.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var record map[string]any
	if err := json.NewDecoder(answer.Body).Decode(&record); err != nil {
		t.Fatal(err)
	}
	value, _ := record[name].(string)
	if value == "" {
		t.Fatalf("%s: no %s in %v", target, name, record)
	}
	return value
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/page" {
		w.Header().Set("Content-Type", "text/html")
		return
	}
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, b.service+r.URL.Path, http.NoBody)
	if err != nil {
		panic(err)
	}
	request.Header["Accept"] = r.Header["Accept"]
	if last := r.Header.Get("Last-Event-Id"); last != "" {
		request.Header.Set("Last-Event-Id", last)
	}
	answer, err := b.http.Do(request)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer answer.Body.Close()
	b.mu.Lock()
	b.answered[r.URL.Path] = append(b.answered[r.URL.Path], strconv.Itoa(answer.StatusCode))
	b.mu.Unlock()
	w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body)
}

func (b *backend) statuses(target string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.answered[target], " ")
}
