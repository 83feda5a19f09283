package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// calledAttempts is the number of attempts of a callback.
const calledAttempts = 3

// called is a receiver of callbacks. It answers as its kind says, and records what arrived by run.
type called struct {
	*httptest.Server
	mu   sync.Mutex
	seen map[string][]string // bodies
}

// arrived returns the number of earlier deliveries of a run.
func (l *called) arrived(r *http.Request) int {
	body, _ := io.ReadAll(r.Body)
	l.mu.Lock()
	defer l.mu.Unlock()
	run := r.Header.Get("X-Svc-Run-Id")
	l.seen[run] = append(l.seen[run], string(body))
	return len(l.seen[run]) - 1
}

func (l *called) bodies(run string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen[run])
}

func receive(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, earlier int)) *called {
	l := &called{seen: map[string][]string{}}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r, l.arrived(r)) }))
	t.Cleanup(func() { l.CloseClientConnections(); l.Close() })
	return l
}

// A run calls back when it ends, whatever started it and however it ends. The callback is delivered or given
// up by the rules of decisions 5, with the same bytes in each attempt.
func TestRunsCallBackWhateverStartsAndEndsThem(t *testing.T) {
	t.Parallel()
	w := startWhole(t, func(cfg *Config) {
		cfg.CallbackSchedule = slices.Repeat([]time.Duration{100 * time.Millisecond}, calledAttempts)
	})
	up := receive(t, func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusNoContent) })
	hangUp := func() { panic(http.ErrAbortHandler) }
	receivers := map[string]struct {
		*called
		attempts int // until the callback is delivered or given up
		class    string
		given    bool // it is delivered at last
	}{
		"up":   {up, 1, "", true},
		"down": {receive(t, func(http.ResponseWriter, *http.Request, int) { hangUp() }), calledAttempts, "connection", false},
		"down, then up": {receive(t, func(w http.ResponseWriter, _ *http.Request, earlier int) {
			if earlier < calledAttempts-1 {
				hangUp()
			}
			w.WriteHeader(http.StatusOK)
		}), calledAttempts, "connection", true},
		"slow once": {receive(t, func(w http.ResponseWriter, r *http.Request, earlier int) {
			if earlier == 0 {
				<-r.Context().Done()
			}
		}), 2, "timeout", true},
		"redirecting": {receive(t, func(w http.ResponseWriter, r *http.Request, _ int) {
			http.Redirect(w, r, up.URL, http.StatusTemporaryRedirect)
		}), calledAttempts, "redirect", false},
	}
	workflows := map[string]string{
		"COMPLETED": `{"id":"a","module":"RANDOM_UUID"}`, "FAILED": `{"id":"a","module":"TRANSFORM","config":{"expression":"int(\"x\")"}}`,
		"CANCELED": `{"id":"a","module":"WAIT_FOR_SIGNAL","config":{"name":"never","timeoutMs":3600000}}`,
	}
	for end, component := range workflows {
		var made api.Workflow
		w.call(t, http.MethodPost, "/v1/sdk/workflows", `{"name":"`+end+`","components":[`+component+`]}`, &made)
		for kind, receiver := range receivers {
			for _, starter := range []string{"trigger", "schedule", "hook"} {
				t.Run(strings.Join([]string{starter, end, kind}, ", "), func(t *testing.T) {
					t.Parallel()
					run := w.startedBy(t, starter, made.ID.String(), receiver.URL)
					path := "/v1/sdk/workflows/executions/" + run
					if end == "CANCELED" {
						w.call(t, http.MethodPut, path+"/cancellation", `{}`, &api.WorkflowRun{})
					}
					var got api.WorkflowRun
					waittest.Until(t, "the callback to be delivered or given up", func() bool {
						got = api.WorkflowRun{}
						w.call(t, http.MethodGet, path, "", &got)
						return got.Status.Terminal() && got.Callback != nil && int(got.Callback.AttemptCount) == receiver.attempts
					})
					if string(got.Status) != end || (got.Callback.DeliveredAt != nil) != receiver.given {
						t.Errorf("it is %s, delivered at %v", got.Status, got.Callback.DeliveredAt)
					}
					var log api.CallbackAttemptPage
					w.call(t, http.MethodGet, path+"/callback/attempts", "", &log)
					for i, attempt := range log.Data { // the newest first
						var why api.CallbackError
						_ = json.Unmarshal(attempt.Error, &why)
						last := i == 0 && receiver.given
						if attempt.Delivered != last || !last && why.Class != receiver.class && (receiver.class != "connection" || why.Class != "reset") {
							t.Errorf("attempt %d: delivered %v, %s", attempt.Attempt, attempt.Delivered, attempt.Error)
						}
					}
					bodies := receiver.bodies(run)
					var sent api.WorkflowRun
					if len(bodies) != receiver.attempts || len(log.Data) != receiver.attempts || len(slices.Compact(bodies)) != 1 || json.Unmarshal([]byte(bodies[0]), &sent) != nil {
						t.Fatalf("%d attempts sent %d bodies: %q", len(log.Data), len(bodies), bodies)
					}
					if sent.ID != got.ID || sent.Status != got.Status || sent.Callback.AttemptCount != 0 || len(sent.RunStages) != 0 {
						t.Errorf("the body is %s", bodies[0])
					}
					if kind == "redirecting" && len(up.bodies(run)) > 0 {
						t.Error("a redirect was followed")
					}
				})
			}
		}
	}
}

// startedBy starts a run that calls back.
func (w *whole) startedBy(t *testing.T, starter, workflow, receiver string) (run string) {
	t.Helper()
	fields := fmt.Sprintf(`"callbackUrl":%q,"callbackSecret":"correct-horse-battery-staple"`, receiver)
	switch starter {
	case "trigger":
		var begun api.TriggerResult
		w.call(t, http.MethodPost, "/v1/sdk/workflows/"+workflow, `{`+fields+`}`, &begun)
		return begun.RunID.String()
	case "schedule":
		var made api.Schedule
		w.call(t, http.MethodPost, "/v1/sdk/schedules", `{"workflowId":"`+workflow+`","cron":"0 0 1 1 *",`+fields+`}`, &made)
		if _, err := w.app.pools.system.Exec(t.Context(), "UPDATE schedules SET next_at = now() WHERE id = $1", made.ID); err != nil {
			t.Fatal(err)
		}
		waittest.Until(t, "the schedule to start a run", func() bool {
			w.call(t, http.MethodGet, "/v1/sdk/schedules/"+made.ID.String(), "", &made)
			return made.LastRunID != nil
		})
		return made.LastRunID.String()
	}
	var made api.Hook
	w.call(t, http.MethodPost, "/v1/sdk/hooks", `{"workflowId":"`+workflow+`","verification":{"scheme":"token","secret":"correct-horse"},`+fields+`}`, &made)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.app.URL()+made.Path, strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer correct-horse")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var begun api.DeliveryResult
	if err := json.NewDecoder(answer.Body).Decode(&begun); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("the delivery got %d (%v)", answer.StatusCode, err)
	}
	return begun.RunID.String()
}

// call sends a signed request and decodes the response.
func (w *whole) call(t *testing.T, method, path, body string, into any) {
	t.Helper()
	raw, err := w.client.Call(t.Context(), method, path, []byte(body), nil)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
}

// A run ends and calls back although its input can't be decrypted any more. The record that it sends has
// no input.
func TestRunWhoseInputCannotBeDecryptedCallsBack(t *testing.T) {
	t.Parallel()
	w := startWhole(t, nil)
	up := receive(t, func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusNoContent) })
	var made api.Workflow
	w.call(t, http.MethodPost, "/v1/sdk/workflows", `{"name":"waits","inputSchema":{"type":"object","properties":{"token":{"type":"string","x-secret":true}}},
		"components":[{"id":"start","module":"ON_API_CALLED"},{"id":"wait","module":"WAIT_FOR_SIGNAL","config":{"name":"never","timeoutMs":3600000}}],
		"sequenceEdges":[{"id":"1","from":"start","to":"wait"}]}`, &made)
	var begun api.TriggerResult
	w.call(t, http.MethodPost, "/v1/sdk/workflows/"+made.ID.String(), `{"input":{"token":"`+canary+`"},"callbackUrl":"`+up.URL+`"}`, &begun)
	w.app.Stop(t.Context())
	if tag, err := w.owner(t).Exec(t.Context(), "DELETE FROM output_keys"); err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("no key was deleted (%v)", err)
	}
	w.restart(t)
	path := "/v1/sdk/workflows/executions/" + begun.RunID.String()
	if _, err := w.client.Call(t.Context(), http.MethodPut, path+"/cancellation", []byte(`{"mode":"immediate"}`), nil); err == nil {
		t.Error("the input can be decrypted, so this proves nothing")
	}
	waittest.Until(t, "the callback", func() bool { return len(up.bodies(begun.RunID.String())) > 0 })
	var sent api.WorkflowRun
	if err := json.Unmarshal([]byte(up.bodies(begun.RunID.String())[0]), &sent); err != nil || sent.Status != "CANCELED" || string(sent.Input) != "null" {
		t.Errorf("the body is %s (%v)", up.bodies(begun.RunID.String())[0], err)
	}
}

// owner returns a connection that may change any table.
func (w *whole) owner(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), w.dsn, "test", postgres.Owner, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// restart starts another process on the database, for the same client.
func (w *whole) restart(t *testing.T) {
	t.Helper()
	ring, err := keyring(goodKey, "")
	if err != nil {
		t.Fatal(err)
	}
	w.app = startOn(t, w.dsn, w.log, func(cfg *Config) { cfg.Keyring = ring })
	signer, err := client.NewSigner(w.key.APIKey, w.key.APISecret)
	if err == nil {
		w.client, err = client.New(w.app.URL(), signer, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}
