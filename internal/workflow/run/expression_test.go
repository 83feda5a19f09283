package run_test

import (
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// The value of a variable in an expression is data: it changes neither a branch nor a result, and no
// value makes an expression invalid.
func TestVariableInAnExpressionIsData(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4, sweep: time.Second})
	id := n.draw(t, `[
		{"id":"check","module":"IF","input":{"name":"Eve"},"config":{"expression":"name == \"{{env.OWNER}}\""}},
		{"id":"greet","module":"TRANSFORM","config":{"expression":"{to: \"Dear {{env.OWNER}}\", rate: {{env.RATE}} * 2}"}}]`,
		`[{"id":"1","from":"check","to":"greet","port":"else"}]`, "")
	for owner, want := range map[string]string{
		`Ada`:            `{"result":{"rate":3,"to":"Dear Ada"}}`,
		`" or true or "`: `{"result":{"rate":3,"to":"Dear \" or true or \""}}`,
		`O"Brien\`:       `{"result":{"rate":3,"to":"Dear O\"Brien\\"}}`,
	} {
		for name, value := range map[string]string{"OWNER": owner, "RATE": "1.5"} {
			if _, err := n.environment.Set(n.ctx, environment.SetParams{WorkspaceID: n.workspace, Name: name, Value: value}); err != nil {
				t.Fatal(err)
			}
		}
		got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
		if got.Status != status.RunCompleted || len(stages) != 2 || string(stages["greet@[]"].Output) != want {
			t.Errorf("with %s: %s %s, %+v; want %s", owner, got.Status, got.Error, stages, want)
		}
	}
}
