package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/workflow/engine"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
)

// from returns a client that has the attacker's key and connects from 127.0.<network>.1.
func (h *hostile) from(network byte) *client.Client {
	base, _ := h.process.addresses()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, network, 1)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	h.t.Cleanup(transport.CloseIdleConnections)
	c, err := client.New(base, h.evil.signer, transport)
	if err != nil {
		panic(err) // cannot happen: the process reported the address
	}
	return c
}

// draw saves a workflow and returns its path, or "" if that failed.
func (h *hostile) draw(ctx context.Context, c *client.Client, definition string) string {
	raw, err := c.Call(ctx, http.MethodPost, "/v1/sdk/workflows", []byte(definition), nil)
	var made api.Workflow
	if err == nil {
		err = json.Unmarshal(raw, &made)
	}
	if err != nil {
		if ctx.Err() == nil {
			h.t.Errorf("save a workflow for an attack: %v", err)
		}
		return ""
	}
	return "/v1/sdk/workflows/" + made.ID.String()
}

func idOf(path string) string { return path[strings.LastIndex(path, "/")+1:] }

// of returns a count of rows of the attacker's workspace. The query's $1 is the workspace's ID.
func (h *hostile) of(query string) int { return h.number(query, h.evil.id) }

const hostileStorage = 32 << 20 // bytes that the workspace without credits may store in a month

// storeForFree triggers runs that store constants in nested loops and child runs. Each trigger
// would store 100 MB, and all triggers together 500 MB.
func storeForFree(ctx context.Context, h *hostile) {
	limit := int64(hostileStorage)
	if err := (billing.Books{}).SetPlan(ctx, h.pool, billing.Plan{WorkspaceID: h.evil.id, Name: plan.Enterprise, Storage: &limit}); err != nil {
		h.t.Errorf("limit the storage of a workspace: %v", err)
		return
	}
	c := h.from(4)
	inner := h.draw(ctx, c, fmt.Sprintf(`{"name": "inner", "components": [
		{"id": "l", "module": "FOR_EACH", "name": "l", "input": {"items": [1,2,3,4,5,6,7,8,9,10]}, "config": {}},
		{"id": "m", "module": "FOR_EACH", "name": "m", "input": {"items": [1,2,3,4,5]}, "config": {}},
		{"id": "k", "module": "JSON_CONSTANT", "name": "k", "input": {}, "config": {"value": %q}}],
		"sequenceEdges": [{"id": "1", "from": "l", "to": "m", "port": "each"}, {"id": "2", "from": "m", "to": "k", "port": "each"}]}`, strings.Repeat("a", 100_000)))
	outer := h.draw(ctx, c, fmt.Sprintf(`{"name": "outer", "components": [
		{"id": "l", "module": "FOR_EACH", "name": "l", "input": {"items": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]}, "config": {"onItemFailure": "continue"}},
		{"id": "c", "module": "RUN_WORKFLOW", "name": "c", "input": {}, "config": {"workflowId": %q}}],
		"sequenceEdges": [{"id": "1", "from": "l", "to": "c", "port": "each"}]}`, idOf(inner)))
	n := 0
	during(ctx, hostileTime, 3*time.Second, func() {
		if n++; n <= 5 {
			_, _ = c.Call(ctx, http.MethodPost, outer, nil, nil)
		}
	})
}

// storageIsBounded checks how much a workspace without credits stored. It may store its budget,
// plus the output of the advances that were in flight when the budget was used up: about 16 MiB for
// each advance.
func storageIsBounded(t *testing.T, h *hostile) {
	h.allFinal(t)
	stored := h.of(`SELECT (SELECT COALESCE(sum(octet_length(input::text) + COALESCE(octet_length(output::text), 0)), 0) FROM workflow_runs WHERE workspace_id = $1)
		+ (SELECT COALESCE(sum(COALESCE(octet_length(output::text), 0) + COALESCE(octet_length(items::text), 0)), 0) FROM run_stages WHERE workspace_id = $1)
		+ (SELECT COALESCE(sum(COALESCE(octet_length(output::text), 0)), 0) FROM run_events WHERE workspace_id = $1)`)
	figures.note(t, "a workspace without credits stored %d MiB in %d runs, with a budget of %d MiB", stored>>20,
		h.of("SELECT count(*) FROM workflow_runs WHERE workspace_id = $1"), hostileStorage>>20)
	if most := hostileStorage + orchestrator.AdvancesAtOnce*(17<<20); stored < 0 || stored > most {
		t.Errorf("a workspace without credits stored %d bytes, want at most %d", stored, most)
	}
	if full := h.of("SELECT count(*) FROM credit_accounts WHERE workspace_id = $1 AND stored >= storage_limit"); full != 1 {
		t.Errorf("the attack did not use up the workspace's storage")
	}
	if used := h.of("SELECT COALESCE(sum(usage), 0)::bigint FROM workflow_runs WHERE workspace_id = $1"); used != 0 {
		t.Errorf("a workspace without credits used %d micro-credits", used)
	}
}

const hostileFaults = 32_000 // invalid items of an input

func inputOfFaults() []byte {
	return []byte(`{"input":{"items":[` + strings.TrimSuffix(strings.Repeat(`"x",`, hostileFaults), ",") + `]}}`)
}

// typedItems requires numbers, in the workflow's schema and in the trigger's.
const typedItems = `{"name": "typed", "inputSchema": {"type": "object", "properties": {"items": {"type": "array", "items": {"type": "integer"}}}}, "components": [
	{"id": "s", "module": "ON_API_CALLED", "name": "s", "input": {}, "config": {"inputSchema": {"type": "object", "properties": {"items": {"type": "array", "items": {"type": "integer"}}}}}}],
	"sequenceEdges": []}`

// sendFaults triggers a workflow with inputs of 32,000 invalid items. It disconnects after every
// second request, and reads the responses to the other requests.
func sendFaults(ctx context.Context, h *hostile) {
	c := h.from(5)
	typed := h.draw(ctx, c, typedItems)
	body := inputOfFaults()
	n := 0
	during(ctx, hostileTime, 500*time.Millisecond, func() {
		ctx, hangUp := context.WithCancel(ctx)
		defer hangUp()
		if n++; n%2 == 0 {
			ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { hangUp() }})
		}
		_, _ = c.Call(ctx, http.MethodPost, typed, body, nil)
	})
}

// faultsAreCounted checks that an input with invalid items is rejected with its first 100 errors,
// and that no run started.
func faultsAreCounted(t *testing.T, h *hostile) {
	c := h.from(5)
	_, err := c.Call(t.Context(), http.MethodPost, h.draw(t.Context(), c, typedItems), inputOfFaults(), nil)
	if err == nil || !strings.Contains(err.Error(), "and more: errors has the first 100") {
		t.Errorf("an input with %d faults: %v", hostileFaults, err)
	}
	if runs := h.of("SELECT count(*) FROM workflow_runs WHERE workspace_id = $1"); runs != 0 {
		t.Errorf("%d runs started with an invalid input", runs)
	}
}

const (
	slowPath  = "/slow"
	slowCalls = 24
)

// slowly responds to callbacks at slowPath once released is closed, and to all others immediately.
func slowly(released <-chan struct{}) func(w http.ResponseWriter, r *http.Request, id string) {
	return func(w http.ResponseWriter, r *http.Request, _ string) {
		code := http.StatusNoContent
		if r.URL.Path == slowPath {
			select {
			case <-released:
			case <-r.Context().Done():
				code = http.StatusServiceUnavailable
			}
		}
		w.WriteHeader(code)
	}
}

// receiveSlowly submits executions whose callbacks go to a slow path of the well-behaved workspace's
// receiver.
func receiveSlowly(ctx context.Context, h *hostile) {
	c := h.from(6)
	for range slowCalls {
		wanted := h.request(order{module: "RANDOM_UUID", callback: true, to: h.receiver.URL + slowPath})
		if _, _, err := c.Execute(ctx, wanted, http.Header{}); err != nil && ctx.Err() == nil {
			h.t.Errorf("submit an execution with a slow receiver: %v", err)
			return
		}
	}
}

// callbacksOvertake checks that every callback of the well-behaved workspace arrives while earlier
// callbacks of the slow receiver wait for their first attempt.
func callbacksOvertake(t *testing.T, h *hostile) {
	eventually(t, time.Minute, "the well-behaved workspace's callbacks", func() (bool, string) {
		n := h.number("SELECT count(*) FROM callbacks WHERE workspace_id = $1 AND delivered_at IS NULL", h.tenants[0].id)
		return n == 0, fmt.Sprintf("%d wait", n)
	})
	const behind = `SELECT count(*) FROM callbacks c WHERE workspace_id = $1 AND attempt_count = 0 AND delivered_at IS NULL
		AND created_at < (SELECT max(created_at) FROM callbacks WHERE delivered_at IS NOT NULL AND workspace_id <> c.workspace_id)`
	waiting := h.of(behind)
	figures.note(t, "%d of %d callbacks of a slow receiver wait, and none of the well-behaved workspace behind them", waiting, slowCalls)
	if waiting <= 0 {
		t.Error("no callback of the slow receiver waits, so this proves nothing")
	}
}

const (
	treesCanceled = 5
	treeCanceled  = 40 // size at which a tree of runs is canceled
)

// cancelTrees repeatedly triggers a workflow that runs itself four times, and cancels the tree once
// it has grown.
func cancelTrees(ctx context.Context, h *hostile) {
	c := h.from(7)
	definition := func(of string) string {
		return fmt.Sprintf(`{"name": "tree", "components": [
			{"id": "l", "module": "FOR_EACH", "name": "l", "input": {"items": [1,2,3,4]}, "config": {"concurrency": 2, "onItemFailure": "continue"}},
			{"id": "c", "module": %s}], "sequenceEdges": [{"id": "1", "from": "l", "to": "c", "port": "each"}]}`, of)
	}
	tree := h.draw(ctx, c, definition(`"TRANSFORM", "name": "c", "input": {}, "config": {"expression": "1"}`))
	if tree == "" {
		return
	}
	recursive := definition(fmt.Sprintf(`"RUN_WORKFLOW", "name": "c", "input": {}, "config": {"workflowId": %q}`, idOf(tree)))
	if _, err := c.Call(ctx, http.MethodPut, tree, []byte(recursive), nil); err != nil && ctx.Err() == nil {
		h.t.Errorf("make a workflow that runs itself: %v", err)
		return
	}
	n := 0
	during(ctx, hostileTime, 3*time.Second, func() {
		if n++; n <= treesCanceled {
			h.cancelTree(ctx, c, tree, []string{engine.CancelGraceful, engine.CancelImmediate}[n%2])
		}
	})
}

// cancelTree triggers one tree of runs and cancels it once it has grown.
func (h *hostile) cancelTree(ctx context.Context, c *client.Client, tree, mode string) {
	raw, err := c.Call(ctx, http.MethodPost, tree, nil, nil)
	var begun api.TriggerResult
	if err != nil || json.Unmarshal(raw, &begun) != nil {
		return
	}
	grown, cancel := context.WithCancel(ctx)
	defer cancel()
	during(grown, hostileTime, 50*time.Millisecond, func() {
		if n := h.number("SELECT count(*) FROM workflow_runs WHERE root_run_id = $1", begun.RunID); n >= treeCanceled {
			cancel()
		}
	})
	// Also after the attack: a tree that is not canceled would keep growing.
	_, err = c.Call(context.WithoutCancel(ctx), http.MethodPut, "/v1/sdk/workflows/executions/"+begun.RunID.String()+"/cancellation", fmt.Appendf(nil, `{"mode":%q}`, mode), nil)
	if err != nil {
		h.t.Errorf("cancel a tree of runs: %v", err)
	}
}

// treesAreFinal checks that all runs of the canceled trees finish.
func treesAreFinal(t *testing.T, h *hostile) {
	h.allFinal(t)
	roots := h.of("SELECT count(*) FROM workflow_runs WHERE workspace_id = $1 AND parent_run_id IS NULL AND status = 'CANCELED'")
	below := h.of("SELECT count(*) FROM workflow_runs WHERE workspace_id = $1 AND parent_run_id IS NOT NULL AND status = 'CANCELED'")
	figures.note(t, "%d trees of %d runs were canceled", roots, below)
	if triggered := h.of("SELECT count(*) FROM workflow_runs WHERE workspace_id = $1 AND parent_run_id IS NULL"); roots != triggered || roots == 0 {
		t.Errorf("%d of %d trees are CANCELED", roots, triggered)
	}
	if below == 0 {
		t.Error("no cancellation reached a child run")
	}
	if trees := h.of("SELECT count(*) FROM run_trees WHERE workspace_id = $1"); trees != 0 {
		t.Errorf("%d trees were not deleted", trees)
	}
}

// allFinal waits until all runs of the attacker's workspace are final.
func (h *hostile) allFinal(t *testing.T) {
	t.Helper()
	eventually(t, time.Minute, "all runs of a hostile workspace to be final", func() (bool, string) {
		n := h.of("SELECT count(*) FROM workflow_runs WHERE workspace_id = $1 AND finished_at IS NULL")
		return n == 0, fmt.Sprintf("%d are not", n)
	})
}

// settles waits until the released callbacks are settled.
func (h *hostile) settles() {
	h.t.Helper()
	eventually(h.t, 3*time.Minute, "the slow receiver's callbacks to be settled", func() (bool, string) {
		n := h.number("SELECT count(*) FROM callbacks WHERE state IN ('PENDING', 'QUEUED')")
		return n == 0, fmt.Sprintf("%d are not", n)
	})
}
