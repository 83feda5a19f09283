package chaos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/storage"
	"github.com/weft-automation/weft/internal/kit/credit"
)

// fanOut has two branches for each item, which join, and a final join.
const fanOut = `{"name": "fan out", "components": [
	{"id": "start", "module": "ON_API_CALLED", "name": "start", "input": {}, "config": {}},
	{"id": "each", "module": "FOR_EACH", "name": "each", "input": {}, "config": {"concurrency": 20}},
	{"id": "left", "module": "HASH", "name": "left", "input": {"algorithm": "sha256"}, "config": {}},
	{"id": "right", "module": "HASH", "name": "right", "input": {"algorithm": "sha512"}, "config": {}},
	{"id": "join", "module": "TRANSFORM", "name": "join", "input": {}, "config": {"expression": "l + r"}},
	{"id": "answer", "module": "RESPOND", "name": "answer", "input": {}, "config": {}}],
	"sequenceEdges": [{"id": "1", "from": "start", "to": "each"}, {"id": "2", "from": "each", "to": "left", "port": "each"},
	{"id": "3", "from": "each", "to": "right", "port": "each"}, {"id": "4", "from": "left", "to": "join"}, {"id": "5", "from": "right", "to": "join"},
	{"id": "6", "from": "each", "to": "answer", "port": "done"}],
	"dataConnections": [{"id": "a", "from": {"componentId": "start", "output": "items"}, "to": {"componentId": "each", "input": "items"}},
	{"id": "b", "from": {"componentId": "each", "output": "item"}, "to": {"componentId": "left", "input": "data"}},
	{"id": "c", "from": {"componentId": "each", "output": "item"}, "to": {"componentId": "right", "input": "data"}},
	{"id": "d", "from": {"componentId": "left", "output": "digest"}, "to": {"componentId": "join", "input": "l"}},
	{"id": "e", "from": {"componentId": "right", "output": "digest"}, "to": {"componentId": "join", "input": "r"}},
	{"id": "f", "from": {"componentId": "join", "output": "result"}, "to": {"componentId": "answer", "input": "all"}}]}`

// secretFanOut is fanOut with secret items, so that everything derived from them is secret too.
var secretFanOut = strings.Replace(fanOut, `"name": "start", "input": {}, "config": {}`, `"name": "start", "input": {}, "config": {"inputSchema":
	{"type": "object", "properties": {"items": {"type": "array", "items": {"type": "string", "x-secret": true}}}}}`, 1)

// calling returns fanOut or secretFanOut with a call of the upstream on the left, whose stages are
// executions. The run itself computes a HASH.
func (s *scene) calling(definition string) string {
	call := fmt.Sprintf(`"API_CALL", "name": "left", "input": {"headers": {}}, "config": {"apiUrl": %q, "method": "PUT", "outputMapping": {"digest": "ref"}}}`, s.upstream.URL)
	called := strings.NewReplacer(`"HASH", "name": "left", "input": {"algorithm": "sha256"}, "config": {}}`, call, `"componentId": "left", "input": "data"`, `"componentId": "left", "input": "body"`).Replace(definition)
	if !strings.Contains(called, "API_CALL") {
		s.t.Fatal("the definition has no HASH on the left")
	}
	return called
}

// EX-19: workers are killed between stages, in parallel branches, in iterations and at joins.
// Finished stages are not repeated, each join fires once, no counter becomes negative, and the
// charge is exact. In the soak each point has its own scene, all runs have a thousand items, and
// each run loses two workers.
func TestEX19RunsSurviveTheirWorkers(t *testing.T) {
	t.Parallel()
	for i, points := range size([]string{"P4 P3"}, []string{"P8", "P5", "P1", "P4", "P3", "P2"}) {
		t.Run(points, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, shared)
			s.start("serve")
			workflow := s.makeWorkflow(s.calling([]string{fanOut, secretFanOut}[i%2]))
			for _, point := range strings.Fields(points) {
				items := size(100, 1_000)
				for i := range size(1, 10) {
					s.killAt(workflow, point, items, []int{2 + i*6%17, 2 + (i*6+3)%17}[:size(1, 2)])
				}
			}
			s.start("work")
			s.finish(30 * time.Second)
			plain := s.number("SELECT count(*) FROM run_stages WHERE json_typeof(output) = 'object' AND module <> 'FOR_EACH'")
			if secret := i%2 == 1; secret != (plain == 0) {
				s.t.Errorf("%d secret outputs are stored in plain text", plain)
			}
		})
	}
}

// killAt makes workers crash at a point of the run: the first worker when it reaches the point for
// the turns[0]-th time, the second for the turns[1]-th time, and so on. Then a worker that does not
// crash finishes the run.
func (s *scene) killAt(workflow uuid.UUID, point string, items int, turns []int) {
	s.t.Helper()
	var run uuid.UUID
	for i, turn := range turns {
		dies := s.start("work", fmt.Sprintf("WEFT_CRASH_AT=%s:%d", point, turn))
		if i == 0 {
			run = s.trigger(workflow, items)
		}
		eventually(s.t, 60*time.Second, "the crash at "+point, func() (bool, string) { return dies.ended(), "the worker still runs" })
	}
	stays := s.start("work")
	took := eventually(s.t, 90*time.Second, "the run to finish", func() (bool, string) {
		status := s.run(run, "?stages=none").Status
		return status.Terminal(), string(status)
	})
	s.checkRun(run, items)
	figures.note(s.t, "%d items, killed at %s: finished %.1f s after the next worker started", items, point, took.Seconds())
	stays.kill()
}

func (s *scene) makeWorkflow(definition string) uuid.UUID {
	s.t.Helper()
	var made api.Workflow
	s.ask(http.MethodPost, "/v1/sdk/workflows", []byte(definition), &made)
	return made.ID
}

func (s *scene) trigger(workflow uuid.UUID, items int) uuid.UUID {
	s.t.Helper()
	texts := make([]string, items)
	for i := range texts {
		texts[i] = fmt.Sprintf("item %d", i)
	}
	body, err := json.Marshal(map[string]any{"input": map[string]any{"items": texts}})
	if err != nil {
		s.t.Fatal(err)
	}
	var begun api.TriggerResult
	s.ask(http.MethodPost, "/v1/sdk/workflows/"+workflow.String(), body, &begun)
	return begun.RunID
}

func (s *scene) run(id uuid.UUID, query string) (run api.WorkflowRun) {
	s.t.Helper()
	s.ask(http.MethodGet, "/v1/sdk/workflows/executions/"+id.String()+query, nil, &run)
	return run
}

func (s *scene) ask(method, path string, body []byte, into any) {
	s.t.Helper()
	raw, err := s.client(s.node(), s.tenants[0]).Call(s.t.Context(), method, path, body, nil)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
}

// checkRun checks a finished run.
func (s *scene) checkRun(id uuid.UUID, items int) {
	s.t.Helper()
	run := s.run(id, "")
	perComponent := map[string]int{}
	calls := 0
	seen := map[string]bool{}
	for _, stage := range run.RunStages {
		perComponent[stage.ComponentID]++
		if stage.Module == "API_CALL" {
			calls++
		}
		place := fmt.Sprint(stage.ComponentID, stage.Iteration)
		if seen[place] {
			s.t.Errorf("%s has two stages", place)
		}
		seen[place] = true
		if stage.Status != "COMPLETED" {
			s.t.Errorf("%s is %s: %s", place, stage.Status, stage.Error)
		}
	}
	for component, want := range map[string]int{"start": 1, "each": 1, "left": items, "right": items, "join": items, "answer": 1} {
		if perComponent[component] != want {
			s.t.Errorf("%s has %d stages, want %d", component, perComponent[component], want)
		}
	}
	var output struct {
		All []string `json:"all"`
	}
	if err := json.Unmarshal(run.Output, &output); err != nil || len(output.All) != items {
		s.t.Errorf("the output has %d items, want %d (%v)", len(output.All), items, err)
	}
	// 1 credit for each HASH, 2 for each call, plus the fee for stages beyond the free stages.
	price := credit.Credits(int64(2*items+calls)) + storage.Usage{Stages: int64(3*items + 3)}.Fee()
	if want := price.String(); run.TotalUsage.String() != want || run.Status != "COMPLETED" || run.PendingStageCount != 0 {
		s.t.Errorf("the run is %s with a charge of %s and %d pending stages, want COMPLETED with a charge of %s", run.Status, run.TotalUsage, run.PendingStageCount, want)
	}
	if n := s.number("SELECT count(*) FROM credit_postings WHERE kind = 'RUN' AND reference = $1", id.String()); n != 1 {
		s.t.Errorf("the run has %d postings, want 1", n)
	}
	// A repeated execution keeps its row: there are no additional rows.
	if n := s.number("SELECT count(*) FROM component_executions WHERE run_id = $1 AND module = 'API_CALL'", id); n != calls {
		s.t.Errorf("the run has %d executions of API_CALL, want %d", n, calls)
	}
}
