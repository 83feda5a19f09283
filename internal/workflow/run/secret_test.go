package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/logic"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// withSecrets returns a bench whose WORK and PURE have only secret outputs.
func withSecrets(t *testing.T, more ...component.Module) *bench {
	t.Helper()
	b := newBench(t)
	secret, computed := workflowtest.Work(), workflowtest.Pure()
	secret.Output = json.RawMessage(`{"type":"object","properties":{"value":{"type":"integer","x-secret":true},"list":{"type":"array","items":{"type":"integer","x-secret":true}}}}`)
	computed.Output = secret.Output
	var err error
	if b.modules, err = component.NewRegistry(append(append(logic.Modules(), secret, computed), more...)...); err != nil {
		t.Fatal(err)
	}
	return b
}

// On two processes, runs with secret outputs behave like runs without. Only their stored form
// differs.
func TestRandomRunsMatchReferenceWithSecrets(t *testing.T) {
	t.Parallel()
	b := withSecrets(t)
	other := b.start(t, options{slots: 4})
	n := b.start(t, options{slots: 16, sweep: time.Second, also: other.engine.FinishStage})
	passOn := []uint64{5, 8} // drawings in which sealed outputs become outputs of other components
	for _, seed := range append(passOn, workflowtest.Seeds(t, size(2, 1_000))...) {
		n.play(t, seed, seed%4 == 3)
	}
	var sealed, plain, after int
	err := b.pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE module IN ('WORK', 'PURE') AND json_typeof(output) = 'string'),
		count(*) FILTER (WHERE module IN ('WORK', 'PURE') AND json_typeof(output) <> 'string'),
		count(*) FILTER (WHERE module NOT IN ('WORK', 'PURE') AND json_typeof(output) = 'string') FROM run_stages`).Scan(&sealed, &plain, &after)
	if err != nil || sealed == 0 || plain > 0 || after == 0 {
		t.Errorf("%d outputs of WORK are sealed and %d are not, and %d that were made of them, %v", sealed, plain, after, err)
	}
	b.balanced(t)
}

// A rerun reuses secrets: the output of the run, the outputs of stages, and the outputs of
// iterations.
func TestRerunReusesSecrets(t *testing.T) {
	t.Parallel()
	b := withSecrets(t)
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, `[{"id":"start","module":"ON_API_CALLED","config":{"inputSchema":{"type":"object","properties":{"key":{"type":"string","x-secret":true}}}}},
		{"id":"work","module":"WORK"},{"id":"loop","module":"FOR_EACH"},{"id":"inside","module":"WORK"},
		{"id":"answer","module":"RESPOND"},{"id":"last","module":"TRANSFORM","config":{"expression":"[w, all, key]"}}]`,
		`[{"id":"1","from":"start","to":"work"},{"id":"2","from":"work","to":"loop"},{"id":"3","from":"loop","to":"inside","port":"each"},
		{"id":"4","from":"loop","to":"answer","port":"done"},{"id":"5","from":"answer","to":"last"}]`,
		`[{"id":"a","from":{"componentId":"start","output":"items"},"to":{"componentId":"loop","input":"items"}},
		{"id":"b","from":{"componentId":"loop","output":"item"},"to":{"componentId":"inside","input":"item"}},
		{"id":"c","from":{"componentId":"work","output":"value"},"to":{"componentId":"answer","input":"w"}},
		{"id":"d","from":{"componentId":"work","output":"value"},"to":{"componentId":"last","input":"w"}},
		{"id":"e","from":{"componentId":"inside","output":"value"},"to":{"componentId":"last","input":"all"}},
		{"id":"f","from":{"componentId":"start","output":"key"},"to":{"componentId":"last","input":"key"}}]`)
	key := n.trigger(t, run.TriggerParams{WorkflowID: id, Input: json.RawMessage(`{"key":"the key of the house","items":["one","two"]}`)})
	first, stages := n.end(t, key)
	last := stages["last@[]"]
	if first.Status != status.RunCompleted || len(first.Output) < 5 || !strings.Contains(string(last.Output), "the key of the house") {
		t.Fatalf("it ended %s with %s, and last %s", first.Status, first.Output, last.Output)
	}
	n.stop() // clears the caches
	n = b.start(t, options{slots: 8, sweep: time.Second})
	second, again := n.rerun(t, first, &last)
	if got := kept(stages, again); got != "answer inside@[0] inside@[1] loop start work" {
		t.Errorf("it took over %s", got)
	}
	if string(second.Output) != string(first.Output) || string(again["last@[]"].Output) != string(last.Output) {
		t.Errorf("it gave %s and %s, and before %s and %s", second.Output, again["last@[]"].Output, first.Output, last.Output)
	}
	if want := `"key":"[redacted]"`; !strings.Contains(string(first.Input), want) || !strings.Contains(string(second.Input), want) {
		t.Errorf("the inputs are shown as %s and %s", first.Input, second.Input)
	}
}

// If a stage receives more secrets than the redactor searches for, its whole error is redacted.
func TestErrorWithTooManySecretsIsRedactedAsAWhole(t *testing.T) {
	t.Parallel()
	many := workflowtest.Made("MANY", 0, `{"type":"object","properties":{"keys":{"type":"array","items":{"type":"string","x-secret":true}}}}`,
		func(context.Context, component.Call) (component.Result, error) {
			keys := make([]string, 2*component.MaxSecrets)
			for i := range keys {
				keys[i] = fmt.Sprintf("the secret key %06d", i)
			}
			output, err := json.Marshal(map[string]any{"keys": keys})
			return component.Result{Output: output}, err
		})
	quotes := workflowtest.Made("QUOTES", 0, workflowtest.Anything, func(_ context.Context, call component.Call) (component.Result, error) {
		var input struct{ Keys []string }
		if err := json.Unmarshal(call.Input, &input); err != nil {
			return component.Result{}, err
		}
		return component.Result{}, component.Permanent("BROKEN", "it broke at %s", input.Keys[len(input.Keys)-1])
	})
	b := withSecrets(t, many, quotes)
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, `[{"id":"many","module":"MANY"},{"id":"quotes","module":"QUOTES"},{"id":"wait","module":"WAIT_UNTIL"}]`,
		`[{"id":"1","from":"many","to":"quotes"},{"id":"2","from":"many","to":"wait"}]`,
		`[{"id":"a","from":{"componentId":"many","output":"keys"},"to":{"componentId":"quotes","input":"keys"}},
		{"id":"b","from":{"componentId":"many","output":"keys.0"},"to":{"componentId":"wait","input":"timestamp"}}]`)
	_, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	for at, code := range map[string]string{"quotes@[]": "BROKEN", "wait@[]": "INVALID_INPUT"} {
		var why api.ExecutionError
		if err := json.Unmarshal(stages[at].Error, &why); err != nil || why.Code != code || strings.Contains(string(stages[at].Error), "the secret key") {
			t.Errorf("%s says %s, %v", at, stages[at].Error, err)
		}
	}
	if got := string(stages["quotes@[]"].Error); !strings.Contains(got, component.Redacted) {
		t.Errorf("the error is %s", got)
	}
}

// A secret that is also a word in errors is redacted from messages. It is not redacted from codes
// and the names of fields.
func TestSecretThatIsAWordOfErrorsKeepsTheirForm(t *testing.T) {
	t.Parallel()
	words := workflowtest.Made("WORDS", 0, `{"type":"object","properties":{"code":{"type":"string","x-secret":true},"name":{"type":"string","x-secret":true}}}`,
		func(context.Context, component.Call) (component.Result, error) {
			return component.Result{Output: json.RawMessage(`{"code":"INVALID_INPUT","name":"retryable"}`)}, nil
		})
	n := withSecrets(t, words).start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, `[{"id":"words","module":"WORDS"},{"id":"code","module":"WAIT_UNTIL"},{"id":"name","module":"WAIT_UNTIL"}]`,
		`[{"id":"1","from":"words","to":"code"},{"id":"2","from":"words","to":"name"}]`,
		`[{"id":"a","from":{"componentId":"words","output":"code"},"to":{"componentId":"code","input":"timestamp"}},
		{"id":"b","from":{"componentId":"words","output":"name"},"to":{"componentId":"name","input":"timestamp"}}]`)
	_, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	for _, at := range []string{"code@[]", "name@[]"} {
		var why map[string]json.RawMessage
		if err := json.Unmarshal(stages[at].Error, &why); err != nil || string(why["code"]) != `"INVALID_INPUT"` || string(why["retryable"]) != "false" {
			t.Errorf("%s says %s, %v", at, stages[at].Error, err)
		}
	}
}

// Outputs that an earlier version stored unsealed stay readable, and can be inputs of new stages.
func TestOutputsStoredUnsealedStayReadable(t *testing.T) {
	t.Parallel()
	b := newBench(t) // its WORK has no secret outputs
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, `[{"id":"work","module":"WORK"},{"id":"wait","module":"WAIT_FOR_SIGNAL","config":{"name":"on","timeoutMs":60000}},{"id":"then","module":"WORK"}]`,
		`[{"id":"1","from":"work","to":"wait"},{"id":"2","from":"wait","to":"then"}]`,
		`[{"id":"a","from":{"componentId":"work","output":"value"},"to":{"componentId":"then","input":"v"}}]`)
	key := n.trigger(t, run.TriggerParams{WorkflowID: id})
	n.awaitEvents(key, 2)
	n.stop()
	var keys int
	if err := b.pool.QueryRow(t.Context(), "SELECT count(*) FROM output_keys").Scan(&keys); err != nil || keys != 0 {
		t.Errorf("without secrets there are %d keys, %v", keys, err)
	}
	b.modules = withSecrets(t).modules
	n = b.start(t, options{slots: 8, sweep: time.Second})
	if _, err := n.runs.Signal(n.ctx, key, anyone{}, "on", json.RawMessage(`{}`)); err != nil {
		t.Fatal(err)
	}
	got, stages := n.end(t, key)
	if got.Status != status.RunCompleted || stages["work@[]"].Output == nil || stages["then@[]"].Output == nil {
		t.Errorf("it ended %s %s: %v", got.Status, got.Error, stages)
	}
	_, again := n.rerun(t, got, nil)
	if string(again["work@[]"].Output) != string(stages["work@[]"].Output) || string(again["then@[]"].Output) != string(stages["then@[]"].Output) {
		t.Errorf("again it is %v", again)
	}
}

// If the wait for a signal is marked secret, the payload is sealed on arrival, even if the run
// does not wait for the signal yet, and also in loops and reruns. Payloads of other waits are not
// sealed.
func TestMT05SecretSignalIsSealedOnArrival(t *testing.T) {
	t.Parallel()
	const canary = "c4n4ry-of-the-approver"
	b := newBench(t)
	other := b.start(t, options{slots: 4})
	n := b.start(t, options{slots: 8, sweep: time.Second, also: other.engine.FinishStage})
	id := n.draw(t, `[{"id":"open","module":"WAIT_FOR_SIGNAL","config":{"name":"open","timeoutMs":60000}},
		{"id":"early","module":"WAIT_FOR_SIGNAL","config":{"name":"early","timeoutMs":60000,"secret":true}},
		{"id":"loop","module":"FOR_EACH","input":{"items":[1,2]}},
		{"id":"late","module":"WAIT_FOR_SIGNAL","config":{"name":"late","timeoutMs":60000,"secret":true}},
		{"id":"never","module":"WAIT_FOR_SIGNAL","config":{"name":"never","timeoutMs":1,"secret":true}},
		{"id":"answer","module":"RESPOND"}]`,
		`[{"id":"1","from":"open","to":"early"},{"id":"2","from":"early","to":"loop"},{"id":"3","from":"loop","to":"late","port":"each"},
		{"id":"4","from":"loop","to":"never","port":"done"},{"id":"5","from":"never","to":"answer","port":"timeout"}]`,
		`[{"id":"a","from":{"componentId":"early","output":"payload.code"},"to":{"componentId":"answer","input":"early"}},
		{"id":"b","from":{"componentId":"late","output":"payload"},"to":{"componentId":"answer","input":"late"}}]`)
	key := n.trigger(t, run.TriggerParams{WorkflowID: id})
	signal := func(name, payload string, again ...string) {
		for _, of := range append([]string{payload}, again...) {
			if got, err := n.runs.Signal(n.ctx, key, anyone{}, name, json.RawMessage(of)); err != nil || string(got.Payload) != payload {
				t.Errorf("the signal %s is %s, %v", name, got.Payload, err)
			}
		}
	}
	signal("early", `{"code":"`+canary+`"}`, `{"again":true}`)
	signal("open", `{"by":"ada lovelace"}`)
	n.awaitEvents(key, 3)
	signal("late", `{"code":["`+canary+`"]}`)
	first, stages := n.end(t, key)
	if want := `{"early":"` + canary + `","late":[{"code":["` + canary + `"]},{"code":["` + canary + `"]}]}`; first.Status != status.RunCompleted || string(first.Output) != want {
		t.Fatalf("it ended %s %s with %s", first.Status, first.Error, first.Output)
	}
	if got := string(stages["never@[]"].Output); got != `{}` {
		t.Errorf("the missing signal is %s", got)
	}
	answer := stages["answer@[]"]
	second, again := n.rerun(t, first, &answer)
	if string(second.Output) != string(first.Output) || string(again["late@[1]"].Output) != string(stages["late@[1]"].Output) {
		t.Errorf("in the rerun its output is %s", second.Output)
	}
	var rows string
	if err := b.pool.QueryRow(t.Context(), `SELECT concat((SELECT string_agg(r::text, ' ') FROM workflow_runs r), (SELECT string_agg(s::text, ' ') FROM run_stages s),
		(SELECT string_agg(e::text, ' ') FROM run_events e), (SELECT string_agg(g::text, ' ') FROM run_signals g))`).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(rows, canary) || !strings.Contains(rows, "ada lovelace") {
		t.Errorf("the rows are %s", rows)
	}
}

// If many stages wait for a secret signal, the run fails once the copies of the payload exceed the
// limit of a run. No more copies are stored.
func TestSecretSignalForManyStagesKeepsTheLimitOfARun(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/workflow/run.TestAB11OutputsAndItemsOfARunAreLimited") { // it copies 64 MiB
		return
	}
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4, sweep: time.Second})
	id := n.draw(t, `[{"id":"loop","module":"FOR_EACH","input":{"items":[1,2,3,4,5,6,7,8,9,10,11,12]},"config":{"concurrency":12}},
		{"id":"wait","module":"WAIT_FOR_SIGNAL","config":{"name":"go","timeoutMs":60000,"secret":true}}]`,
		`[{"id":"1","from":"loop","to":"wait","port":"each"}]`, `[]`)
	key := n.trigger(t, run.TriggerParams{WorkflowID: id})
	const size = 8 << 20
	if _, err := n.runs.Signal(n.ctx, key, anyone{}, "go", json.RawMessage(`{"code":"`+strings.Repeat("c", size)+`"}`)); err != nil {
		t.Fatal(err)
	}
	got, _ := n.end(t, key)
	if got.Status != status.RunFailed || !strings.Contains(string(got.Error), "OUTPUT_TOO_LARGE") {
		t.Errorf("it ended %s %s", got.Status, got.Error)
	}
	if kept := b.number(t, "SELECT count(*) FROM run_stages WHERE run_id = $1 AND component_id = 'wait' AND output IS NOT NULL", key.ID); kept != 8 {
		t.Errorf("%d stages have it, want 8", kept) // the eighth copy of a little more than 8 MiB exceeds 64 MiB
	}
}

// During a rollout, a process may lack a module of the workflow. It accepts signals as secret
// signals, and responds to repeated signals after the run has finished.
func TestSignalIsAcceptedIfAModuleIsUnknown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4, sweep: time.Second})
	id := n.draw(t, `[{"id":"wait","module":"WAIT_FOR_SIGNAL","config":{"name":"go","timeoutMs":60000,"secret":true}}]`, `[]`, `[]`)
	key := n.trigger(t, run.TriggerParams{WorkflowID: id})
	given, err := n.runs.Signal(n.ctx, key, anyone{}, "go", json.RawMessage(`{"code":"of the approver"}`))
	if err != nil {
		t.Fatal(err)
	}
	n.end(t, key)
	open := n.trigger(t, run.TriggerParams{WorkflowID: id})
	if _, err := b.pool.Exec(t.Context(), `SET session_replication_role = replica;
		UPDATE workflow_versions SET definition = replace(definition::text, 'WAIT_FOR_SIGNAL', 'GONE')::json; RESET session_replication_role`); err != nil {
		t.Fatal(err)
	}
	later := b.start(t, options{slots: 4})
	again, err := later.runs.Signal(later.ctx, key, anyone{}, "go", json.RawMessage(`{}`))
	if err != nil || string(again.Payload) != string(given.Payload) {
		t.Errorf("again it is %s, %v", again.Payload, err)
	}
	if _, err := later.runs.Signal(later.ctx, key, anyone{}, "stop", nil); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("another one is %v", err)
	}
	first, err := later.runs.Signal(later.ctx, open, anyone{}, "stop", json.RawMessage(`{"code":"of another"}`))
	if err != nil || string(first.Payload) != `{"code":"of another"}` {
		t.Errorf("that of a run that lives is %s, %v", first.Payload, err)
	}
	if sealed := b.number(t, "SELECT count(*) FROM run_signals WHERE run_id = $1 AND json_typeof(payload) = 'string'", open.ID); sealed != 1 {
		t.Errorf("%d signals are sealed", sealed)
	}
}

// The input from a hook's delivery is not validated against the input schema, but it is hidden
// where the schema marks it as secret.
func TestMT05HookDeliveryIsSealedIfTheInputSchemaMarksIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4})
	id := n.save(t, workflow.Draft{
		InputSchema: json.RawMessage(`{"type":"object","required":["never"],"properties":{"body":{"type":"object","properties":{"token":{"type":"string","x-secret":true}}}}}`),
		Components:  json.RawMessage(`[{"id":"start","module":"ON_WEBHOOK"},{"id":"answer","module":"RESPOND"}]`), SequenceEdges: json.RawMessage(`[{"id":"1","from":"start","to":"answer"}]`),
		DataConnections: json.RawMessage(`[{"id":"a","from":{"componentId":"start","output":"body"},"to":{"componentId":"answer","input":"got"}}]`),
	})
	for body, secret := range map[string]bool{`{"kind":"order","token":"c4n4ry-of-the-hook"}`: true, `{"kind":"order"}`: false} {
		key := n.trigger(t, run.TriggerParams{WorkflowID: id, By: run.Cause{Trigger: "WEBHOOK"}, Input: json.RawMessage(`{"headers":{},"body":` + body + `}`)})
		got, _ := n.end(t, key)
		if want := `{"got":` + body + `}`; string(got.Output) != want || strings.Contains(string(got.Input), "c4n4ry") || strings.Contains(string(got.Input), component.Redacted) != secret {
			t.Errorf("of %s it ended %s %s with %s, and shows the input %s", body, got.Status, got.Error, got.Output, got.Input)
		}
		var row string
		if err := b.pool.QueryRow(t.Context(), "SELECT concat(r::text, (SELECT string_agg(s::text, ' ') FROM run_stages s WHERE s.run_id = r.id)) FROM workflow_runs r WHERE id = $1", key.ID).Scan(&row); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(row, "c4n4ry") || strings.Contains(row, "order") == secret {
			t.Errorf("of %s the rows are %s", body, row)
		}
	}
}

// Values that a run's input schema marks as secret are also redacted in the output of the trigger.
// Components still receive these values.
func TestTriggerStageHidesSecretInputs(t *testing.T) {
	t.Parallel()
	const secret, nested = "the key of the house", "the key of the cellar"
	n := withSecrets(t).start(t, options{slots: 8, sweep: time.Second})
	const schema = `{"type":"object","properties":{"key":{"type":"string","x-secret":true},"deep":{"type":"array","items":{"type":"object","properties":{"pin":{"type":"string","x-secret":true}}}},"name":{"type":"string"}}}`
	const input = `{"key":"` + secret + `","deep":[{"pin":"` + nested + `","at":1}],"name":"open"}`
	const hidden = `"deep":[{"at":1,"pin":"[redacted]"}],`
	const shown = hidden + `"key":"[redacted]","name":"open"`
	edges := `[{"id":"1","from":"start","to":"takes"}]`
	takes := `{"id":"takes","module":"TRANSFORM","config":{"expression":"key"}}`
	connected := func(output string) json.RawMessage {
		return json.RawMessage(`[{"id":"a","from":{"componentId":"start","output":"` + output + `"},"to":{"componentId":"takes","input":"key"}}]`)
	}
	by := func(trigger string) run.Cause {
		if trigger == "" {
			return run.Cause{}
		}
		return run.Cause{Trigger: trigger, ID: uuid.Must(uuid.NewV7())}
	}
	for _, c := range []struct{ module, config, by, output, want string }{
		{"ON_API_CALLED", `{"inputSchema":` + schema + `}`, "", "key", `{` + hidden + `"input":{` + shown + `},"key":"[redacted]","name":"open","triggeredAt":"`},
		{"ON_SCHEDULE", `{"cron":"@daily"}`, "SCHEDULE", "scheduledAt", `{` + shown + `,"scheduledAt":"`},
		{"ON_WEBHOOK", `{}`, "WEBHOOK", "body", `{` + shown + `,"triggeredAt":"`},
	} {
		draft := workflow.Draft{
			Components:    json.RawMessage(`[{"id":"start","module":"` + c.module + `","config":` + c.config + `},` + takes + `]`),
			SequenceEdges: json.RawMessage(edges), DataConnections: connected(c.output),
		}
		if c.by != "" {
			draft.InputSchema = json.RawMessage(schema)
		}
		ended := n.trigger(t, run.TriggerParams{WorkflowID: n.save(t, draft), Input: json.RawMessage(input), By: by(c.by)})
		got, stages := n.end(t, ended)
		first := got
		for _, again := range []string{"", "of a rerun "} {
			start := string(stages["start@[]"].Output)
			if !strings.HasPrefix(start, c.want) || strings.Contains(start, secret) || strings.Contains(start, nested) {
				t.Errorf("%s: the trigger's stage %sshows %s, want %s", c.module, again, start, c.want)
			}
			if taken := string(stages["takes@[]"].Output); c.output == "key" && taken != `{"result":"`+secret+`"}` {
				t.Errorf("%s: what takes the secret %sgave %s", c.module, again, taken)
			}
			page, err := n.runs.StagePage(n.ctx, notify.Key{WorkspaceID: n.workspace, ID: got.ID}, anyone{}, run.StageParams{Limit: 100})
			if err != nil || len(page.Data) != 2 || string(page.Data[0].Output) != start {
				t.Errorf("%s: a page of stages %shas %s, %v", c.module, again, page.Data[0].Output, err)
			}
			if again == "" {
				last := stages["takes@[]"]
				got, stages = n.rerun(t, first, &last)
			}
		}
	}
}
