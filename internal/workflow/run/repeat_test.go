package run_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/workflow/engine"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// counting is a REPEAT that counts up by its state. The arguments are the config of the loop and the input of
// its CONTINUE.
func counting(config, next string) string {
	return fmt.Sprintf(`[{"id":"start","module":"ON_API_CALLED"},{"id":"l","module":"REPEAT","input":{"state":0},"config":%s},
		{"id":"add","module":"TRANSFORM","input":{"state":"{{ l.state }}"},"config":{"expression":"state + 1"}},
		{"id":"next","module":"CONTINUE","input":%s},
		{"id":"answer","module":"RESPOND","input":{"state":"{{ l.state }}","count":"{{ l.count }}","all":"{{ add.result }}"}}]`, config, next)
}

const countingEdges = `[{"id":"0","from":"start","to":"l"},{"id":"1","from":"l","to":"add","port":"each"},{"id":"2","from":"add","to":"next"},{"id":"3","from":"l","to":"answer","port":"done"}]`

func TestRepeatRunsItsBodyUntilItIsDone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 8, sweep: time.Second})
	for name, c := range map[string]struct{ config, next, edges, want string }{
		"a CONTINUE says so":             {`{"maxIterations":10}`, `{"state":"{{ add.result }}","done":"{{ add.result == 3 }}"}`, countingEdges, `{"all":[1,2,3],"count":3,"state":3}`},
		"the state stays without one":    {`{"maxIterations":10}`, `{"done":"{{ l.index == 2 }}"}`, countingEdges, `{"all":[1,1,1],"count":3,"state":0}`},
		"no CONTINUE is reached":         {`{"maxIterations":10}`, `{"state":"{{ add.result }}"}`, strings.Replace(countingEdges, `"from":"add","to":"next"`, `"from":"add","to":"next","port":"error"`, 1), `{"all":[1],"count":1,"state":0}`},
		"the limits end it":              {`{"maxIterations":4}`, `{"state":"{{ add.result }}"}`, strings.Replace(countingEdges, `"done"`, `"exhausted"`, 1), `{"all":[1,2,3,4],"count":4,"state":4}`},
		"done in the last iteration":     {`{"maxIterations":3}`, `{"state":"{{ add.result }}","done":"{{ add.result == 3 }}"}`, countingEdges, `{"all":[1,2,3],"count":3,"state":3}`},
		"with a pause between them":      {`{"maxIterations":10,"delayMs":20}`, `{"state":"{{ add.result }}","done":"{{ add.result == 3 }}"}`, countingEdges, `{"all":[1,2,3],"count":3,"state":3}`},
		"a next pause would be too long": {`{"maxIterations":10,"delayMs":60000,"maxDurationMs":1000}`, `{"state":"{{ add.result }}"}`, strings.Replace(countingEdges, `"done"`, `"exhausted"`, 1), `{"all":[1],"count":1,"state":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, counting(c.config, c.next), c.edges, ``)}))
			if text := workflowtest.Canonical(got.Output); got.Status != status.RunCompleted || text != c.want {
				t.Errorf("%s %s gave %s", got.Status, got.Error, text)
			}
		})
	}
	b.balanced(t)
}

// A loop of many iterations takes several advances, and each knows the state that the one before it left.
func TestAdvancesShareTheIterationsOfARepeat(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, counting(`{"maxIterations":2000}`, `{"state":"{{ add.result }}","done":"{{ add.result == 1200 }}"}`), countingEdges, ``)
	got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	if of := string(stages["l@[]"].Output); got.Status != status.RunCompleted || of != `{"count":1200,"state":1200}` {
		t.Errorf("%s %s, and the loop gave %s", got.Status, got.Error, of)
	}
	b.balanced(t)
}

func TestRepeatFails(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 8, sweep: time.Second})
	twice := strings.Replace(counting(`{"maxIterations":3}`, `{}`), `{"id":"answer"`, `{"id":"other","module":"CONTINUE"},{"id":"answer"`, 1)
	fails := strings.Replace(counting(`{"maxIterations":3}`, `{"state":"{{ add.result }}"}`), `"state + 1"`, `"l.index == 1 ? 1 / 0 : state + 1"`, 1)
	for name, c := range map[string]struct{ components, edges, code, message string }{
		"without a port for its limits": {counting(`{"maxIterations":3}`, `{}`), countingEdges, "LOOP_EXHAUSTED", "the loop was not done within its maxIterations of 3"},
		"after its time":                {counting(`{"maxIterations":3,"delayMs":5000,"maxDurationMs":1000}`, `{}`), countingEdges, "LOOP_EXHAUSTED", "the loop was not done within its maxDurationMs of 1000"},
		"if an iteration fails":         {fails, countingEdges, "ITEM_FAILED", "the iteration at index 1 failed in component add: INVALID_INPUT"},
		"if an iteration continues twice": {twice, strings.Replace(countingEdges, `{"id":"2"`, `{"id":"4","from":"l","to":"other","port":"each"},{"id":"2"`, 1),
			"ITEM_FAILED", "the iteration at index 0 failed: it reached next and other; one iteration can reach only one CONTINUE"},
	} {
		t.Run(name, func(t *testing.T) {
			got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, c.components, c.edges, ``)}))
			var failure api.ExecutionError
			if err := json.Unmarshal(stages["l@[]"].Error, &failure); err != nil || got.Status != status.RunFailed || failure.Code != c.code || !strings.HasPrefix(failure.Message, c.message) {
				t.Errorf("%s %s, and the loop failed with %s", got.Status, got.Error, stages["l@[]"].Error)
			}
		})
	}
	b.balanced(t)
}

// A rerun keeps the iterations before the one that it repeats, and the states between them. It repeats all
// later ones.
func TestRerunResumesARepeat(t *testing.T) {
	t.Parallel()
	bank := &bank{refuses: []string{`{"n":2}`}}
	b := newBench(t, bank.module())
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, `[{"id":"l","module":"REPEAT","input":{"state":0},"config":{"maxIterations":9}},
		{"id":"pay","module":"PAY","input":{"n":"{{ l.state }}"}},
		{"id":"next","module":"CONTINUE","input":{"state":"{{ l.state + 1 }}","done":"{{ l.state == 4 }}"}}]`,
		`[{"id":"1","from":"l","to":"pay","port":"each"},{"id":"2","from":"pay","to":"next"}]`, ``)
	first, before := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	if first.Status != status.RunFailed || inputs(bank.take()) != `{"n":0} {"n":1} {"n":2}` {
		t.Fatalf("%s %s", first.Status, first.Error)
	}
	n.stop() // clears the caches
	n = b.start(t, options{slots: 8, sweep: time.Second})
	second, after := n.rerun(t, first, nil)
	if paid := inputs(bank.take()); second.Status != status.RunCompleted || paid != `{"n":2} {"n":3} {"n":4}` {
		t.Errorf("%s %s, paid: %s", second.Status, second.Error, paid)
	}
	if taken := kept(before, after); taken != "next@[0] next@[1] pay@[0] pay@[1]" {
		t.Errorf("reused stages: %s", taken)
	}
	if output := string(after["l@[]"].Output); output != `{"count":5,"state":5}` {
		t.Errorf("the loop gave %s", output)
	}
	from := after["pay@[3]"]
	third, again := n.rerun(t, second, &from)
	if paid := inputs(bank.take()); third.Status != status.RunCompleted || paid != `{"n":3} {"n":4}` {
		t.Errorf("from an iteration: %s %s, paid: %s", third.Status, third.Error, paid)
	}
	if taken := kept(after, again); taken != "next@[0] next@[1] next@[2] pay@[0] pay@[1] pay@[2]" {
		t.Errorf("from an iteration, reused stages: %s", taken)
	}
	b.balanced(t)
}

// A secret in the state is sealed wherever it is stored: in the loop, in each CONTINUE, and in their outputs.
func TestASecretStateIsSealed(t *testing.T) {
	t.Parallel()
	b := withSecrets(t)
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, `[{"id":"start","module":"ON_API_CALLED","config":{"inputSchema":{"type":"object","properties":{"key":{"type":"string","x-secret":true}}}}},
		{"id":"l","module":"REPEAT","input":{"state":{"key":"{{ start.key }}"}},"config":{"maxIterations":5}},
		{"id":"work","module":"WORK","input":{"key":"{{ l.state.key }}"}},
		{"id":"next","module":"CONTINUE","input":{"done":"{{ l.index == 2 }}"}},
		{"id":"last","module":"TRANSFORM","input":{"state":"{{ l.state }}"},"config":{"expression":"state.key"}}]`,
		`[{"id":"1","from":"start","to":"l"},{"id":"2","from":"l","to":"work","port":"each"},{"id":"3","from":"work","to":"next"},{"id":"4","from":"l","to":"last","port":"done"}]`, ``)
	got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id, Input: json.RawMessage(`{"key":"the key of the house"}`)}))
	if got.Status != status.RunCompleted || !strings.Contains(string(stages["last@[]"].Output), "the key of the house") {
		t.Fatalf("%s %s, and last gave %s", got.Status, got.Error, stages["last@[]"].Output)
	}
	if plain := b.number(t, `SELECT count(*) FROM run_stages WHERE position('house' IN COALESCE(output::text, '') || COALESCE(items::text, '') || COALESCE(error::text, '')) > 0`); plain != 0 {
		t.Errorf("%d stages are stored in the clear", plain)
	}
	b.balanced(t)
}

// Of the states of a loop only the last counts as output, so a long loop with a large state does not exceed
// the limit of a run.
func TestOnlyTheLastStateOfARepeatCountsAsOutput(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, `[{"id":"l","module":"REPEAT","input":{"state":""},"config":{"maxIterations":9}},
		{"id":"next","module":"CONTINUE","input":{"state":"{{ l.index == 0 ? repeat(\"x\", 100000) : l.state }}","done":"{{ l.index == 8 }}"}}]`,
		`[{"id":"1","from":"l","to":"next","port":"each"}]`, ``)
	got, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	if counted := b.number(t, "SELECT output_bytes FROM workflow_runs WHERE id = $1", got.ID); got.Status != status.RunCompleted || counted > 110_000 {
		t.Errorf("%s %s with %d bytes", got.Status, got.Error, counted)
	}
	b.balanced(t)
}

// The pause after an iteration that a rerun reuses is over: the earlier run has waited, or the owner did.
func TestRerunOfARepeatDoesNotWaitBetweenReusedIterations(t *testing.T) {
	t.Parallel()
	bank := &bank{}
	b := newBench(t, bank.module())
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, `[{"id":"l","module":"REPEAT","config":{"maxIterations":9,"delayMs":3600000}},
		{"id":"pay","module":"PAY","input":{"n":"{{ l.index }}"}},{"id":"next","module":"CONTINUE"}]`,
		`[{"id":"1","from":"l","to":"pay","port":"each"},{"id":"2","from":"pay","to":"next"}]`, ``)
	var origin *orchestrator.Origin
	for i := range 3 {
		key := n.trigger(t, run.TriggerParams{WorkflowID: id, RerunOf: origin})
		waits := fmt.Sprintf("SELECT count(*) FROM workflow_runs WHERE id = '%s' AND paces IS NOT NULL", key.ID)
		waittest.Until(t, "the run waits between two iterations", func() bool { return b.number(t, waits) == 1 })
		if paid := inputs(bank.take()); paid != fmt.Sprintf(`{"n":%d}`, i) {
			t.Errorf("run %d paid: %s", i, paid)
		}
		if _, err := n.runs.Cancel(n.ctx, key, anyone{}, engine.CancelGraceful, nil); err != nil {
			t.Fatal(err)
		}
		n.end(t, key)
		origin = &orchestrator.Origin{RunID: key.ID}
	}
	b.balanced(t)
}
