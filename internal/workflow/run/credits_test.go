package run_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// chain returns three stages that cost one credit each. One of them fails.
func chain(fails string) string {
	text := `[`
	for i, id := range []string{"a", "b", "c"} {
		config := `{}`
		if id == fails {
			config = `{"fails":100}`
		}
		if i > 0 {
			text += `,`
		}
		text += `{"id":"` + id + `","module":"WORK","config":` + config + `}`
	}
	return text + `]`
}

const chained = `[{"id":"1","from":"a","to":"b","port":"next"},{"id":"2","from":"b","to":"c","port":"next"}]`

// LE-04: a run that failed, was canceled, or finished in part is charged once for its finished
// stages. The rest of its reservation is released.
func TestLE04RunIsChargedForItsFinishedStages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 8, sweep: time.Second})
	waiting := `[{"id":"a","module":"WORK"},{"id":"w","module":"WAIT_FOR_SIGNAL","config":{"name":"never","timeoutMs":3600000}},{"id":"c","module":"WORK"}]`
	for what, c := range map[string]struct {
		components, edges string
		cancel            bool
		status            status.Run
		usage             int64
	}{
		"completed": {chain(""), chained, false, status.RunCompleted, 3},
		"failed":    {chain("c"), chained, false, status.RunFailed, 2},
		"at once":   {chain("a"), chained, false, status.RunFailed, 0},
		"canceled":  {waiting, `[{"id":"1","from":"a","to":"w","port":"next"},{"id":"2","from":"w","to":"c","port":"next"}]`, true, status.RunCanceled, 1},
	} {
		t.Run(what, func(t *testing.T) {
			key := n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, c.components, c.edges, "")})
			if c.cancel {
				n.awaitEvents(key, 2)
				if _, err := n.runs.Cancel(n.ctx, key, anyone{}, "graceful", nil); err != nil {
					t.Fatal(err)
				}
			}
			got, stages := n.end(t, key)
			var sum credit.Amount
			for _, stage := range stages {
				sum += stage.CreditUsage
			}
			if got.Status != c.status || got.TotalUsage != credit.Credits(c.usage) || sum != got.TotalUsage {
				t.Errorf("%s %s, used %s, its stages %s; want %s and %d", got.Status, got.Error, got.TotalUsage, sum, c.status, c.usage)
			}
			if posted := b.number(t, "SELECT COALESCE(sum(usage), -1)::bigint FROM credit_postings WHERE kind = 'RUN' AND reference = $1", key.ID.String()); credit.Amount(posted) != got.TotalUsage {
				t.Errorf("posted are %s", credit.Amount(posted))
			}
			b.balanced(t)
		})
	}
}

// A run becomes FAILED at a stage that would cost more than maxCredits or more than the workspace
// has. Finished stages are charged.
func TestStageThatCannotBePaidFailsRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rich := b.workspace
	items, _ := json.Marshal(make([]int, 200))
	literal := `[{"id":"l","module":"FOR_EACH","input":{"items":` + string(items) + `}},{"id":"w","module":"WORK"}]`
	budget := credit.Credits(7)
	for what, most := range map[string]*credit.Amount{"the most that it may cost": &budget, "what there is": nil} {
		b.workspace = rich
		if most == nil {
			b.workspace = b.account(t, budget, plan.Starter)
		}
		n := b.start(t, options{slots: 8, sweep: time.Second})
		p := run.TriggerParams{MaxCredits: most}
		if p.WorkflowID = n.draw(t, literal, `[{"id":"1","from":"l","to":"w","port":"each"}]`, ""); most != nil { // a quote includes literal items
			p.WorkflowID, p.Input = n.openLoop(t, "WORK"), json.RawMessage(`{"items":`+string(items)+`}`)
		}
		got, stages := n.end(t, n.trigger(t, p))
		var failure api.RunError
		if err := json.Unmarshal(got.Error, &failure); err != nil || got.Status != status.RunFailed || failure.Code != string(fault.InsufficientCredits) || got.TotalUsage != budget {
			t.Errorf("%s: %s %s, used %s of %s, %d stages", what, got.Status, got.Error, got.TotalUsage, budget, len(stages))
		}
		n.stop()
		b.balanced(t)
	}
}
