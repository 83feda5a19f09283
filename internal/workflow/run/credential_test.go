package run_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/component/modules/apicall"
	"github.com/weft-automation/weft/internal/component/modules/evm"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// expire ends the life of the token of the variable SHOP.
func (b *bench) expire(t *testing.T) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), "UPDATE environment_variables SET token_expires_at = now(), token_refresh_at = now()"); err != nil {
		t.Error(err)
	}
}

func TestAnExpiredTokenIsFetchedOnceForTheCallsOfThreeProcesses(t *testing.T) {
	t.Parallel()
	items := size(100, 1000)
	s := newShop(t)
	n := shopping(t, s)
	n.start(t, options{slots: 8})
	n.start(t, options{slots: 8})
	id := n.draw(t, fmt.Sprintf(`[{"id":"start","module":"ON_API_CALLED"},{"id":"each","module":"FOR_EACH","config":{"concurrency":100}},
		{"id":"call","module":"API_CALL","config":{"apiUrl":"%s/x","method":"GET"},"input":{"headers":{"Authorization":"Bearer {{env.SHOP}}"}}}]`, s.URL),
		`[{"id":"1","from":"start","to":"each"},{"id":"2","from":"each","to":"call","port":"each"}]`,
		`[{"id":"a","from":{"componentId":"start","output":"items"},"to":{"componentId":"each","input":"items"}}]`)
	calls := func(items int) {
		t.Helper()
		list, _ := json.Marshal(map[string]any{"items": make([]int, items)})
		if got, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id, Input: list})); got.Status != status.RunCompleted {
			t.Fatalf("%s: %s", got.Status, got.Error)
		}
	}
	calls(1)
	n.expire(t)
	s.calls = nil
	calls(items)
	if s.fetches != 2 || len(s.calls) != items {
		t.Errorf("%d fetches and %d calls, want 2 and %d", s.fetches, len(s.calls), items)
	}
	for _, call := range s.calls {
		if !strings.Contains(call, "|Bearer canary+/token=2|") {
			t.Fatalf("a call was sent with another token: %s", call)
		}
	}
}

func TestARetryAfterTheEndOfATokenSendsTheNextOne(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	n := shopping(t, s)
	s.answer = func(w http.ResponseWriter, calls int) {
		if calls == 1 {
			n.expire(t)
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	id := n.draw(t, fmt.Sprintf(`[{"id":"call","module":"API_CALL","retry":{"maxAttempts":2,"initialDelayMs":100},
		"config":{"apiUrl":"%s/x","method":"GET"},"input":{"headers":{"Authorization":"{{env.SHOP}}"}}}]`, s.URL), "", "")
	got, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	want := []string{"GET|/x|canary+/token=1|", "GET|/x|canary+/token=2|"}
	if got.Status != status.RunCompleted || fmt.Sprint(s.calls) != fmt.Sprint(want) {
		t.Errorf("%s: %s, calls %q", got.Status, got.Error, s.calls)
	}
}

// A call that ends while it waits for its token was not sent, so its outcome is known.
func TestAStageThatEndsWhileItWaitsForATokenHasNoEffect(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.hold = make(chan struct{})
	n := shopping(t, s)
	defer close(s.hold)
	id := n.draw(t, fmt.Sprintf(`[{"id":"call","module":"API_CALL","config":{"apiUrl":"%s/x","method":"POST"},
		"input":{"headers":{"Authorization":"{{env.SHOP}}"}}}]`, s.URL), "", "")
	got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id, Deadline: time.Second}))
	if why := string(stages[workflowtest.Place[int32]("call", nil)].Error); codeOf(got) != "DEADLINE_EXCEEDED" || !strings.Contains(why, "CANCELED") || strings.Contains(why, "unknown") {
		t.Errorf("%s: %s, the stage: %s", got.Status, got.Error, why)
	}
}

// A token is put in at each check of a wait, so that a wait may be longer than a token lives.
func TestAWaitOnAChainUsesTheTokenOfTheMoment(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	guard := egress.New(egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(guard.Close)
	b := newBench(t, append(apicall.Modules(guard), evm.Modules(guard)...)...)
	b.guard = guard
	n := b.start(t, options{slots: 4})
	n.setToken(t, s)
	hash := "0x" + strings.Repeat("ab", 32)
	var mu sync.Mutex
	var paths []string // of all requests
	polls := 0
	chain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var call struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		_ = json.NewDecoder(r.Body).Decode(&call)
		paths = append(paths, r.URL.EscapedPath())
		result := "null"
		switch call.Method {
		case "eth_blockNumber":
			result = `"0x10"`
		case "eth_getTransactionByHash":
			result = fmt.Sprintf(`{"hash":%q,"from":"0x0000000000000000000000000000000000000001","nonce":"0x1","input":"0x"}`, hash)
			if polls++; polls == 1 {
				n.expire(t)
			}
		case "eth_getTransactionReceipt":
			if polls > 0 {
				result = fmt.Sprintf(`{"transactionHash":%q,"transactionIndex":"0x0","blockNumber":"0xf","blockHash":%[1]q,"from":"0x0000000000000000000000000000000000000001","gasUsed":"0x1","status":"0x1","logs":[]}`, hash)
			}
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, call.ID, result)
	}))
	t.Cleanup(chain.Close)
	id := n.draw(t, fmt.Sprintf(`[{"id":"wait","module":"WAIT_FOR_EVM_TRANSACTION","input":{"jsonRpcUrl":"%s/{{env.SHOP}}","transactionHash":%q,"timeoutMs":20000}}]`, chain.URL, hash), "", "")
	key := n.trigger(t, run.TriggerParams{WorkflowID: id})
	got, _ := n.end(t, key)
	mu.Lock()
	defer mu.Unlock()
	const first, second = "/canary%2B%2Ftoken%3D1", "/canary%2B%2Ftoken%3D2"
	if got.Status != status.RunCompleted || len(paths) < 3 || paths[0] != first || paths[len(paths)-1] != second {
		t.Fatalf("%s: %s, %q", got.Status, got.Error, paths)
	}
	n.hasNoCanary(t)
}

func TestAVariableThatBecomesATokenAfterTheSaveStaysOutOfOutputs(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	n := shopping(t, s)
	value := environment.SetParams{WorkspaceID: n.workspace, Name: "SHOP", Kind: environment.KindValue, Value: "plain", Secret: new(false)}
	if _, err := n.environment.Set(n.ctx, value); err != nil {
		t.Fatal(err)
	}
	answers := n.draw(t, `[{"id":"answer","module":"RESPOND","input":{"output":"{{env.SHOP}}"}}]`, "", "")
	calls := n.draw(t, fmt.Sprintf(`[{"id":"call","module":"API_CALL","config":{"apiUrl":"%s/x","method":"GET"},"input":{"headers":{"Authorization":"{{env.SHOP}}"}}}]`, s.URL), "", "")
	computed := n.draw(t, fmt.Sprintf(`[{"id":"call","module":"API_CALL","config":{"apiUrl":"%s/x","method":"GET"},"input":{"headers":{"Authorization":"{{ upper(env.SHOP) }}"}}}]`, s.URL), "", "")
	n.setToken(t, s)
	if got, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: calls})); got.Status != status.RunCompleted || fmt.Sprint(s.calls) != "[GET|/x|canary+/token=1|]" {
		t.Errorf("a call: %s: %s, %q", got.Status, got.Error, s.calls)
	}
	for what, id := range map[string]uuid.UUID{"an output": answers, "an expression": computed} {
		got, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
		shown, _ := json.Marshal(got)
		if got.Status != status.RunFailed || !strings.Contains(string(got.Error), "access token") || strings.Contains(string(shown), "canary") {
			t.Errorf("%s: %s: %s", what, got.Status, shown)
		}
	}
	if len(s.calls) != 1 {
		t.Errorf("calls %q", s.calls)
	}
}
