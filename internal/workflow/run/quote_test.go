package run_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// quote returns the quote of a workflow.
func (n *node) quote(t testing.TB, id uuid.UUID) api.RunQuote {
	t.Helper()
	quote, err := n.runs.Quote(n.ctx, n.workspace, id, nil, anyone{})
	if err != nil {
		t.Fatal(err)
	}
	return quote
}

// within checks that the charge of a run and its descendants is within the quote.
func within(t testing.TB, seed uint64, quote api.RunQuote, of api.WorkflowRun) {
	t.Helper()
	charged := of.TotalUsageWithChildren
	if of.Status == status.RunCompleted && charged < quote.MinimumCredits {
		t.Errorf("seed %d, run %s: charged %s, and the minimum is %s", seed, of.ID, charged, quote.MinimumCredits)
	}
	if quote.MaximumCredits != nil && charged > *quote.MaximumCredits {
		t.Errorf("seed %d, run %s: charged %s, and the maximum is %s", seed, of.ID, charged, *quote.MaximumCredits)
	}
}

// shown returns a quote in one line.
func shown(quote api.RunQuote) string {
	most := "?"
	if quote.MaximumCredits != nil {
		most = quote.MaximumCredits.String()
	}
	text := fmt.Sprintf("%s to %s", quote.MinimumCredits, most)
	for _, u := range quote.UnknownBounds {
		text += " " + u.ComponentID + ":" + u.Reason
	}
	return text
}

// each draws a FOR_EACH "l" with the specified number of items and config, and with one WORK in
// its body.
func each(items int, config string) string {
	list := strings.TrimSuffix(strings.Repeat("1,", items), ",")
	return fmt.Sprintf(`[{"id":"l","module":"FOR_EACH","input":{"items":[%s]},"config":%s},{"id":"w","module":"WORK"}]`, list, config)
}

func TestQuotesOfKnownWorkflows(t *testing.T) {
	t.Parallel()
	n := newBench(t).start(t, options{slots: 1})
	inLoop := `[{"id":"1","from":"l","to":"w","port":"each"}]`
	runs := func(id uuid.UUID, version int) string {
		return fmt.Sprintf(`[{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":%q,"version":%d}},{"id":"w","module":"WORK"}]`, id, version)
	}
	three := n.draw(t, each(3, `{}`), inLoop, "")
	twice := n.draw(t, runs(three, 1), `[{"id":"1","from":"c","to":"w","port":"next"}]`, "")
	open := n.openLoop(t, "WORK")
	for what, c := range map[string]struct{ components, edges, want string }{
		"literal items":                              {each(3, `{}`), inLoop, "3 to 3"},
		"items that may fail":                        {each(3, `{"onItemFailure":"continue"}`), inLoop, "0 to 3"},
		"a variable that may let items fail":         {each(3, `{"onItemFailure":"{{env.MODE}}"}`), inLoop, "0 to 3"},
		"no items":                                   {each(0, `{}`), inLoop, "0 to 0"},
		"stages beyond the free ones":                {strings.Replace(each(2_000, `{}`), `"WORK"`, `"TRANSFORM","config":{"expression":"1"}`, 1), inLoop, "1.001 to 1.32868"},
		"alternatives by an error port":              {`[{"id":"a","module":"WORK"},{"id":"b","module":"WORK"},{"id":"c","module":"WORK"}]`, `[{"id":"1","from":"a","to":"b","port":"next"},{"id":"2","from":"a","to":"c","port":"error"}]`, "1 to 2"},
		"a child run of a fixed version":             {runs(three, 1), "", "4 to 4"},
		"a child run by key":                         {strings.Replace(runs(three, 1), fmt.Sprintf(`"workflowId":%q`, three), fmt.Sprintf(`"workflow":%q`, n.key(t, three)), 1), "", "4 to 4"},
		"a child run by an unknown key":              {strings.Replace(runs(three, 1), fmt.Sprintf(`"workflowId":%q`, three), `"workflow":"nobody"`, 1), "", "1 to ? c:workflow"},
		"a child run of a child run":                 {runs(twice, 1), "", "5 to 5"},
		"child runs in a loop":                       {strings.Replace(each(2, `{}`), `"WORK"`, fmt.Sprintf(`"RUN_WORKFLOW","config":{"workflowId":%q,"version":1}`, twice), 1), inLoop, "8 to 8"},
		"a child run of the present version":         {strings.Replace(runs(three, 1), `,"version":1`, "", 1), "", "1 to ? c:workflow"},
		"a child run of a version that is not there": {runs(three, 2), "", "1 to ? c:workflow"},
		"a child run without a bound":                {runs(open, 1), "", "1 to ? c:workflow"},
	} {
		quote := n.quote(t, n.draw(t, c.components, c.edges, ""))
		if got := shown(quote); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
	id := n.draw(t, runs(three, 1), "", "")
	quote, err := n.runs.Quote(n.ctx, n.workspace, id, nil, nobody{})
	if got := shown(quote); err != nil || got != "1 to ? c:workflow" {
		t.Errorf("for a key that may not use the child's workflow: %s, %v", got, err)
	}
	draft := workflow.Draft{Name: "test", Components: []byte(runs(id, 2))}
	if _, err := n.workflows.Replace(n.ctx, workflow.ReplaceParams{WorkspaceID: n.workspace, WorkflowID: id, Draft: draft}); err != nil {
		t.Fatal(told(err))
	}
	if got := shown(n.quote(t, id)); got != "1 to ? c:workflow" {
		t.Errorf("a version that runs itself: %s", got)
	}
	draft.Components = []byte(strings.Replace(runs(id, 3), fmt.Sprintf(`"workflowId":%q`, id), fmt.Sprintf(`"workflow":%q`, n.key(t, id)), 1))
	if _, err := n.workflows.Replace(n.ctx, workflow.ReplaceParams{WorkspaceID: n.workspace, WorkflowID: id, Draft: draft}); err != nil {
		t.Fatal(told(err))
	}
	if got := shown(n.quote(t, id)); got != "1 to ? c:workflow" {
		t.Errorf("a version that runs itself by its key: %s", got)
	}
}

// nobody may use no workflow.
type nobody struct{}

func (nobody) MayUse(uuid.UUID) bool { return false }

// A trigger is refused if its maxCredits is below the minimum of the quote, which includes child
// runs and iterations. Child runs and iterations are not reserved.
func TestTriggerComparesMaxCreditsWithQuote(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.workspace = b.account(t, credit.Credits(7), plan.Starter)
	n := b.start(t, options{slots: 4, sweep: time.Second})
	child := n.draw(t, each(3, `{}`), `[{"id":"1","from":"l","to":"w","port":"each"}]`, "")
	id := n.draw(t, fmt.Sprintf(`[{"id":"a","module":"WORK"},{"id":"l","module":"FOR_EACH","input":{"items":[1,2,3]}},{"id":"w","module":"WORK"},
		{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":%q,"version":1}}]`, child), `[{"id":"1","from":"l","to":"w","port":"each"},{"id":"2","from":"a","to":"l","port":"next"},{"id":"3","from":"l","to":"c","port":"done"}]`, "")
	p := run.TriggerParams{WorkspaceID: n.workspace, WorkflowID: id, Access: anyone{}, MaxCredits: new(credit.Credits(7) - 1)}
	if _, err := n.runs.Trigger(n.ctx, p); reason(err) != string(fault.InsufficientCredits)+" max_credits" {
		t.Errorf("less than the minimum: %v", err)
	}
	p.MaxCredits = new(credit.Credits(7))
	key := n.trigger(t, p)
	if got, _ := n.end(t, key); got.Status != status.RunCompleted || got.TotalUsage != credit.Credits(4) {
		t.Errorf("the minimum: %s %s, used %s", got.Status, got.Error, got.TotalUsage)
	}
	b.balanced(t)
}
