package chaos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
)

// runEnds are the middle components of workflows whose runs end differently. Each run calls the upstream
// before, and a child run.
var runEnds = map[string]string{
	"COMPLETED": `"module": "RANDOM_UUID", "config": {}`,
	"FAILED":    `"module": "TRANSFORM", "config": {"expression": "int(\"x\")"}`,
	"CANCELED":  `"module": "WAIT_FOR_SIGNAL", "config": {"name": "never", "timeoutMs": 3600000}`,
}

// EX-24: workers are killed while runs execute, end and call back. Each run that a request starts calls back
// with the same bytes in each attempt, and is posted once. Its child run never calls back.
func TestEX24RunsCallBackUnderKills(t *testing.T) {
	t.Parallel()
	s := newScene(t, shared)
	s.expect.again = 1
	s.start("serve")
	s.receiver.answer = func(w http.ResponseWriter, _ *http.Request, id string) {
		if got := s.receiver.of(id); got.count == 1 && id[len(id)-1]%2 == 0 { // half of them need another attempt
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
	below := s.makeWorkflow(`{"name": "below", "components": [{"id": "a", "module": "RANDOM_UUID"}]}`)
	workflows := map[string]uuid.UUID{}
	for end, last := range runEnds {
		workflows[end] = s.makeWorkflow(fmt.Sprintf(`{"name": %q, "components": [
			{"id": "call", "module": "API_CALL", "input": {"headers": {}}, "config": {"apiUrl": %q, "method": "PUT"}},
			{"id": "below", "module": "RUN_WORKFLOW", "config": {"workflowId": %q}}, {"id": "last", %s}],
			"sequenceEdges": [{"id": "1", "from": "call", "to": "below"}, {"id": "2", "from": "below", "to": "last"}]}`, end, s.upstream.URL, below, last))
	}
	ends := map[uuid.UUID]string{}
	points := []string{"P8", "P6", "P4", "P7", "P5", "P3"}
	kills := size(2, 30)
	for i := range kills {
		point := fmt.Sprintf("%s:%d", points[i%len(points)], 1+i*5%4)
		dies := s.start("work", "WEFT_CRASH_AT="+point)
		for end, workflow := range workflows {
			for range 2 {
				id := s.triggerCalling(workflow)
				if ends[id] = end; end == "CANCELED" {
					s.ask(http.MethodPut, "/v1/sdk/workflows/executions/"+id.String()+"/cancellation", []byte(`{}`), &api.WorkflowRun{})
				}
			}
		}
		eventually(t, 60*time.Second, "the crash at "+point, func() (bool, string) { return dies.ended(), "the worker still runs" })
	}
	s.start("work")
	took := eventually(t, 60*time.Second, "every run to be final", func() (bool, string) {
		n := s.number("SELECT count(*) FROM workflow_runs WHERE finished_at IS NULL")
		return n == 0, fmt.Sprintf("%d are not", n)
	})
	s.finish(30 * time.Second)
	s.checkRunCallbacks(ends)
	figures.note(t, "%d kills, %d runs with %d child runs, %d deliveries: all final %.1f s after the last worker started", kills, len(ends),
		s.number("SELECT count(*) FROM workflow_runs WHERE parent_run_id IS NOT NULL"), s.receiver.total(), took.Seconds())
}

// triggerCalling starts a run that calls back.
func (s *scene) triggerCalling(workflow uuid.UUID) uuid.UUID {
	s.t.Helper()
	var begun api.TriggerResult
	s.ask(http.MethodPost, "/v1/sdk/workflows/"+workflow.String(), fmt.Appendf(nil, `{"callbackUrl":%q,"callbackSecret":%q}`, s.receiver.URL, callbackSecret), &begun)
	return begun.RunID
}

// checkRunCallbacks checks the callbacks of runs, given how each run has to end.
func (s *scene) checkRunCallbacks(ends map[uuid.UUID]string) {
	s.t.Helper()
	for id, end := range ends {
		run, got := s.run(id, "?stages=none"), s.receiver.of(id.String())
		if got == nil || !got.answered || got.differ || got.forged || got.after2xx > s.expect.again {
			s.t.Errorf("run %s: what arrived is %+v", id, got)
			continue
		}
		raw, err := json.Marshal(run)
		if err != nil {
			s.t.Fatal(err)
		}
		var sent api.WorkflowRun
		if err := json.Unmarshal(got.body, &sent); err != nil {
			s.t.Fatal(err)
		}
		body, _ := json.Marshal(sent)
		if string(run.Status) != end || run.Callback.DeliveredAt == nil || finality(body) != finality(raw) {
			s.t.Errorf("run %s should be %s: the body is %s, but the record is %s", id, end, got.body, raw)
		}
		if n := s.number("SELECT count(*) FROM credit_postings WHERE kind = 'RUN' AND reference = $1", id.String()); n != 1 {
			s.t.Errorf("run %s has %d postings, want 1", id, n)
		}
	}
	if n := s.receiver.delivered(); n != len(ends) {
		s.t.Errorf("%d runs called back, want %d", n, len(ends))
	}
	if n := s.number("SELECT count(*) FROM workflow_runs WHERE parent_run_id IS NOT NULL"); n == 0 {
		s.t.Error("no run has a child run")
	}
	if n := s.number("SELECT count(*) FROM callbacks c JOIN workflow_runs r ON r.id = c.execution_id WHERE r.parent_run_id IS NOT NULL"); n != 0 {
		s.t.Errorf("%d child runs have a callback", n)
	}
}
