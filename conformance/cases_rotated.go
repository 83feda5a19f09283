package conformance

import (
	"net/http"
	"slices"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var rotatedCases = []Case{
	{
		Part: "D2.8.successor, D1.7.replay", Name: "restricted/200 the successor of a restricted key sees what its predecessors submitted",
		Run: rotatedSuccessor, Needs: owner,
	},
	{
		Part: "D2.8.executions, D1.7.scope", Name: "restricted/404, 409 a rotated key does not see what its successors submit",
		Run: rotatedPredecessor, Needs: owner,
	},
	{
		Part: "D2.8.runs", Name: "restricted/200 a rotated key and its successors share the runs of their workflows",
		Run: rotatedRuns, Needs: owner,
	},
}

// rotatedKeys returns the signings of three keys, oldest first: a restricted key, its successor,
// and the successor of that key. All three are valid until the returned function revokes them.
func rotatedKeys(t *probe.Trial, workflow string) (keys []probe.Signing, revoke func()) {
	boss := t.SignIn()
	first, id, _ := restrictedKey(t, boss, workflow)
	keys = append(keys, first)
	ids := []string{id}
	for range 2 {
		next, credentials := keyOf(t, within(t, boss, http.MethodPost, "/api-keys/"+id+"/rotate", object{"overlapSeconds": 600}))
		id = next.ID.String()
		keys, ids = append(keys, probe.Signing{As: &credentials}), append(ids, id)
	}
	return keys, func() {
		for _, id := range ids {
			within(t, boss, http.MethodDelete, "/api-keys/"+id, nil)
		}
	}
}

// onceAs sends a POST with a key and an Idempotency-Key.
func onceAs(t *probe.Trial, as probe.Signing, path, key string, body any) probe.Answer {
	return t.Do(probe.Request{
		Method: http.MethodPost, Path: path, Body: t.JSON(body), Sign: as, Header: http.Header{"Idempotency-Key": {key}},
	})
}

// submitOnce submits an execution with each key and returns the IDs of the executions and their
// Idempotency-Keys.
func submitOnce(t *probe.Trial, keys []probe.Signing) (ids, once []string) {
	for _, as := range keys {
		key := unique()
		ids = append(ids, probe.Decode[api.ComponentExecution](t, onceAs(t, as, probe.Components, key, identify)).ID.String())
		once = append(once, key)
	}
	return ids, once
}

// listedAs returns the ids of the executions that a key lists, newest first.
func listedAs(t *probe.Trial, as probe.Signing) []string {
	page := probe.Decode[api.ComponentExecutionPage](t, askAs(t, as, http.MethodGet, probe.Executions+"?limit=100", nil))
	t.Check(!page.HasMore, "the list goes on after %d executions", len(page.Data))
	var ids []string
	for _, e := range page.Data {
		ids = append(ids, e.ID.String())
	}
	return ids
}

func rotatedSuccessor(t *probe.Trial) {
	keys, revoke := rotatedKeys(t, draw(t, nil, nil))
	defer revoke()
	ids, once := submitOnce(t, keys)
	for i, as := range keys {
		for j, id := range ids[:i+1] {
			t.Equal("the record", askAs(t, as, http.MethodGet, probe.Execution(id), nil).Status, http.StatusOK)
			_, ok := t.StreamOf(probe.Request{Path: probe.Execution(id) + "/stream", Sign: as}).Next()
			t.Check(ok, "the stream has no event")
			t.Equal("the attempts", askAs(t, as, http.MethodGet, probe.Execution(id)+"/callback-attempts", nil).Status, http.StatusOK)
			t.Problem(askAs(t, as, http.MethodPost, probe.Execution(id)+"/replay-callback", nil), http.StatusConflict, "NO_CALLBACK")
			again := onceAs(t, as, probe.Components, once[j], identify)
			t.Equal("the repeat", probe.Decode[api.ComponentExecution](t, again).ID.String(), id)
			t.Equal("Idempotent-Replayed", again.Header.Get("Idempotent-Replayed"), "true")
		}
		listed := listedAs(t, as)
		t.Check(!slices.ContainsFunc(ids[:i+1], func(id string) bool { return !slices.Contains(listed, id) }), "key %d of the rotations lists %v of %v", i, listed, ids)
	}
}

func rotatedPredecessor(t *probe.Trial) {
	keys, revoke := rotatedKeys(t, draw(t, nil, nil))
	defer revoke()
	ids, once := submitOnce(t, keys)
	for i, as := range keys {
		for j := i + 1; j < len(keys); j++ {
			for _, request := range onExecution(t, ids[j]) {
				request.Sign = as
				t.Problem(t.Do(request), http.StatusNotFound, "NOT_FOUND")
			}
			t.Problem(onceAs(t, as, probe.Components, once[j], identify), http.StatusConflict, "IDEMPOTENCY_MISMATCH")
		}
		want := slices.Clone(ids[:i+1])
		slices.Reverse(want)
		t.Equal("the list", listedAs(t, as), want)
	}
}

// rotatedRuns triggers with each key. A run belongs to its workflow, not to a key, so that a
// restricted key may read, repeat and rerun every run of the workflows that it lists.
func rotatedRuns(t *probe.Trial) {
	workflow := draw(t, nil, nil)
	keys, revoke := rotatedKeys(t, workflow)
	defer revoke()
	body := object{"waitForMs": 15_000}
	var ids, once []string
	for _, as := range keys {
		key := unique()
		ids = append(ids, probe.Decode[api.TriggerResult](t, onceAs(t, as, workflowPath(workflow), key, body)).RunID.String())
		once = append(once, key)
	}
	for _, as := range keys {
		page := probe.Decode[api.WorkflowRunPage](t, askAs(t, as, http.MethodGet, runs+"?limit=100&workflowId="+workflow, nil))
		for i, id := range ids {
			t.Check(slices.ContainsFunc(page.Data, func(r api.WorkflowRun) bool { return r.ID.String() == id }), "the list lacks %s", id)
			t.Equal("the run", askAs(t, as, http.MethodGet, runPath(id), nil).Status, http.StatusOK)
			again := onceAs(t, as, workflowPath(workflow), once[i], body)
			t.Equal("the repeat", probe.Decode[api.TriggerResult](t, again).RunID.String(), id)
			rerun := askAs(t, as, http.MethodPost, workflowPath(workflow), object{"waitForMs": 15_000, "rerunOf": object{"runId": id}})
			t.Equal("the rerun", string(probe.Decode[api.TriggerResult](t, rerun).Run.Status), "COMPLETED")
		}
	}
}
