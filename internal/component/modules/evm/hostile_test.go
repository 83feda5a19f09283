package evm

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/egress/egresstest"
)

// breaker is a node that works for a number of calls and then breaks. It has a bench for the
// module that queries it.
type breaker struct {
	*httptest.Server
	module string
	input  object
	bench  *componenttest.Bench
	guard  *egress.Guard

	good    int64 // calls that succeed before the node breaks
	calls   atomic.Int64
	broken  http.HandlerFunc
	mutex   sync.Mutex
	open    map[net.Conn]bool
	changed chan struct{}
}

func newBreaker(t *testing.T, module string, input object) *breaker {
	t.Helper()
	if module == waitModule {
		input["timeoutMs"] = 1 // until then, a wait outlives a node that is down
	}
	b := &breaker{module: module, input: input, guard: opened(t), open: map[net.Conn]bool{}, changed: make(chan struct{}, 1)}
	for _, m := range Modules(b.guard) {
		if m.Describe().Module == module {
			b.bench = componenttest.New(t, m)
		}
	}
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(b.serve))
	b.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		b.mutex.Lock()
		defer b.mutex.Unlock()
		if state == http.StateClosed || state == http.StateHijacked {
			delete(b.open, conn)
		} else {
			b.open[conn] = true
		}
		select {
		case b.changed <- struct{}{}:
		default:
		}
	}
	b.Start()
	t.Cleanup(b.Close)
	return b
}

func (b *breaker) serve(w http.ResponseWriter, r *http.Request) {
	if b.calls.Add(1) > b.good {
		b.broken(w, r)
		return
	}
	var asked request
	body, _ := io.ReadAll(r.Body)
	if json.Unmarshal(body, &asked) != nil {
		w.WriteHeader(400)
		return
	}
	if result, ok := canned(asked); ok {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":%s}`, result)
		return
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"the canned node has no %s"}}`, asked.Method)
}

// run runs the module until it has an output or an error. The node breaks after the given number of
// good calls.
func (b *breaker) run(t *testing.T, good int64, broken http.HandlerFunc, timeout time.Duration) (json.RawMessage, *component.Error) {
	t.Helper()
	b.good, b.broken = good, broken
	b.calls.Store(0)
	b.input["jsonRpcUrl"] = b.URL + "/v3/key-0123456789abcdef"
	call := component.Call{ExecutionID: uuid.Must(uuid.NewV7()), Attempt: 1, Input: json.RawMessage(text(t, b.input)), Config: json.RawMessage(`{}`)}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	for {
		result, err := b.bench.Registry.Run(ctx, b.module, call)
		if err != nil {
			failed, ok := err.(*component.Error)
			if !ok || failed.Code == component.CodeInternal || failed.Message == "" || len(failed.Message) > 1<<10 {
				t.Fatalf("no clear error: %T %v", err, err)
			}
			if strings.Contains(failed.Error()+string(failed.Details), "0123456789abcdef") {
				t.Errorf("the key is in %s %s", failed.Error(), failed.Details)
			}
			return nil, failed
		}
		if result.Wait == nil {
			return result.Output, nil
		}
		call.State = result.Wait.State
	}
}

// left returns the number of connections that are still open after the pool has closed its idle
// connections.
func (b *breaker) left(t *testing.T) int {
	b.guard.Close()
	over := waittest.Context(t).Done()
	for {
		b.mutex.Lock()
		left := len(b.open)
		b.mutex.Unlock()
		if left == 0 {
			return 0
		}
		select {
		case <-b.changed:
		case <-over:
			return left
		}
	}
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func result(value string) http.HandlerFunc {
	return says(200, `{"jsonrpc":"2.0","id":1,"result":`+value+`}`)
}

// breaks are failures of a node that a module must not accept as a result, each with the error
// code for the caller.
var breaks = map[string]struct {
	broken http.HandlerFunc
	code   string
	class  string
}{
	"a page":            {says(200, `<html><body>nginx</body></html>`), component.CodeUpstream, "malformed"},
	"nothing":           {says(200, ``), component.CodeUpstream, "malformed"},
	"half":              {says(200, `{"jsonrpc":"2.0","id":1,"result":"0x`), component.CodeUpstream, "malformed"},
	"another id":        {says(200, `{"jsonrpc":"2.0","id":2,"result":"0x1"}`), component.CodeUpstream, "malformed"},
	"another version":   {says(200, `{"id":1,"result":"0x1"}`), component.CodeUpstream, "malformed"},
	"neither":           {says(200, `{"jsonrpc":"2.0","id":1}`), component.CodeUpstream, "malformed"},
	"a batch":           {says(200, `[{"jsonrpc":"2.0","id":1,"result":"0x1"}]`), component.CodeUpstream, "malformed"},
	"a number":          {result(`12`), component.CodeUpstream, "malformed"},
	"a boolean":         {result(`true`), component.CodeUpstream, "malformed"},
	"a string":          {result(`"latest"`), component.CodeUpstream, "malformed"},
	"missing fields":    {result(`{}`), component.CodeUpstream, "malformed"},
	"fields of no type": {result(`{"hash":1,"number":[],"transactions":{},"logs":"x","status":null,"blockHash":0.5}`), component.CodeUpstream, "malformed"},
	"a list of numbers": {result(`[7]`), component.CodeUpstream, "malformed"},
	"deep":              {result(strings.Repeat(`[`, 20_000)), component.CodeUpstream, "malformed"},
	"an error":          {says(200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"invalid params at /v3/key-0123456789abcdef"}}`), component.CodeUpstream, "rpc"},
	"unauthorized":      {says(401, `no such key`), component.CodeUpstream, "status"},
	"overloaded":        {says(503, ``), component.CodeUpstream, "status"},
	"cut off": {func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"jsonrpc"`)
		panic(http.ErrAbortHandler)
	}, component.CodeUpstream, ""},
	"hung up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, component.CodeUpstream, ""},
	"too much, as it says": {func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(5<<20+1))
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0"`)
	}, component.CodeUpstream, "too_large"},
	"without end": {egresstest.Endless(func(int) {}), component.CodeUpstream, "too_large"},
	"elsewhere inside": {func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://10.0.0.1:8545/", http.StatusSeeOther)
	}, component.CodeAddressBlocked, "blocked_address"},
	"elsewhere with the body": {func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://10.0.0.1:8545/", http.StatusTemporaryRedirect)
	}, component.CodeUpstream, "redirect"},
	"around": {func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.RequestURI, http.StatusTemporaryRedirect)
	}, component.CodeUpstream, "redirect"},
}

// TestBrokenNodeFailsEveryModule breaks the node at each call of each module. It covers new modules
// automatically.
func TestBrokenNodeFailsEveryModule(t *testing.T) {
	t.Parallel()
	for module, input := range nodeQueries(t, modules(t)) {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			node := newBreaker(t, module, input)
			calls := node.goodCalls(t)
			for name, c := range breaks {
				for good := range calls {
					if module == "GET_EVM_GAS_PRICE" && good == calls-1 {
						continue // the tip, which the gas price replaces
					}
					output, failed := node.run(t, good, c.broken, time.Minute)
					code := c.code
					if module == waitModule && failed != nil && failed.Retryable {
						code = component.CodeTimeout
					}
					if failed == nil || failed.Code != code || !strings.Contains(string(failed.Details), `"class":"`+c.class) {
						t.Errorf("%s at call %d of %d: %.300s, %v %s", name, good+1, calls, output, failed, details(failed))
					}
					if left := node.left(t); left > 0 || node.bench.Registry.Stuck() > 0 {
						t.Fatalf("%s: %d connections and %d calls are left", name, left, node.bench.Registry.Stuck())
					}
				}
			}
		})
	}
}

// goodCalls returns the number of calls that the module makes to a working node.
func (b *breaker) goodCalls(t *testing.T) int64 {
	t.Helper()
	output, failed := b.run(t, 1<<30, nil, time.Minute)
	if failed != nil {
		t.Fatalf("the example fails at the canned node: %v", failed)
	}
	calls := b.calls.Load()
	if output == nil || calls == 0 {
		t.Fatalf("%s after %d calls", output, calls)
	}
	return calls
}

func opened(t *testing.T) *egress.Guard {
	guard := egress.New(egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(guard.Close)
	return guard
}

// TestSlowNodeTimesOutEveryModule uses a node that never responds, and a node that sends a few
// bytes at a time.
func TestSlowNodeTimesOutEveryModule(t *testing.T) {
	t.Parallel()
	for module, input := range nodeQueries(t, modules(t)) {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			node := newBreaker(t, module, input)
			calls := node.goodCalls(t)
			for name, broken := range egresstest.Slow {
				for good := range calls {
					output, failed := node.run(t, good, broken, 100*time.Millisecond)
					if failed == nil || failed.Code != component.CodeTimeout || !failed.Retryable {
						t.Errorf("%s at call %d of %d: %s, %v", name, good+1, calls, output, failed)
					}
					if left := node.left(t); left > 0 || node.bench.Registry.Stuck() > 0 {
						t.Fatalf("%s: %d connections and %d calls are left", name, left, node.bench.Registry.Stuck())
					}
				}
			}
			if entry := mustLookup(t, node.bench, module); entry.Timeout <= callTimeout {
				t.Errorf("its timeout, %s, leaves one call no time: %s", entry.Timeout, callTimeout)
			}
		})
	}
}

// TestPlausibleResponseIsDecodedOrRejected uses responses that are valid for some methods. The
// other modules reject them, and no output violates its schema.
func TestPlausibleResponseIsDecodedOrRejected(t *testing.T) {
	t.Parallel()
	answers := []string{
		`null`, `[]`, `[null]`, `"0x"`, `"0x0"`, `"0x1"`, `"0x7fffffffffffffff"`, `"0xffffffffffffffff"`, `"0x` + strings.Repeat("f", 64) + `"`, `"` + someHash + `"`, `"0x` + strings.Repeat("00", 96) + `"`,
		cannedBlock(`[]`), cannedBlock(`["` + someHash + `"]`), cannedBlock(`[` + cannedTransaction(someHash, 0) + `]`), cannedTransaction(someHash, 0), cannedReceipt(someHash), `[` + cannedLog() + `]`,
		strings.Replace(cannedBlock(`[]`), `"0x4a817c800"`, `"0x`+strings.Repeat("f", 64)+`"`, 1), strings.Replace(cannedBlock(`[]`), `"0x65a0c5f3"`, `"0x7fffffffffffffff"`, 1),
		strings.Replace(cannedReceipt(someHash), `"status":"0x1"`, `"status":"0x2"`, 1), strings.ReplaceAll(cannedReceipt(someHash), `"0x`, `"0X`),
	}
	for module, input := range nodeQueries(t, modules(t)) {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			node := newBreaker(t, module, input)
			schema := componenttest.Compile(t, mustLookup(t, node.bench, module).Output)
			calls := node.goodCalls(t)
			for _, value := range answers {
				for good := range calls {
					output, failed := node.run(t, good, result(value), time.Second)
					if failed != nil {
						continue
					}
					var read any
					if err := json.Unmarshal(output, &read); err != nil {
						t.Fatal(err)
					}
					if err := schema.Validate(read); err != nil {
						t.Errorf("%.200s at call %d gives %s: %v", value, good+1, output, err)
					}
				}
			}
		})
	}
}

func TestUnreachableNodeIsReported(t *testing.T) {
	t.Parallel()
	for module, input := range nodeQueries(t, modules(t)) {
		node := newBreaker(t, module, input)
		node.Close()
		output, failed := node.run(t, 0, nil, time.Minute)
		code := component.CodeUpstream
		if module == waitModule {
			code = component.CodeTimeout
		}
		if failed == nil || failed.Code != code || !failed.Retryable || details(failed) != `{"class":"refused","sent":"no"}` {
			t.Errorf("%s: %s, %v %s", module, output, failed, details(failed))
		}
	}
}

func mustLookup(t *testing.T, bench *componenttest.Bench, module string) *component.Entry {
	t.Helper()
	entry, ok := bench.Registry.Lookup(module)
	if !ok {
		t.Fatalf("there is no %s", module)
	}
	return entry
}

func TestEveryNodeQueryKeepsTheURLSecret(t *testing.T) {
	bench := componenttest.New(t, modules(t)...)
	for module := range nodeQueries(t, modules(t)) {
		if entry := mustLookup(t, bench, module); !slices.Contains(entry.SecretPaths.Input, "/jsonRpcUrl") {
			t.Errorf("%s shows the node's address: %v", module, entry.SecretPaths.Input)
		}
	}
}
