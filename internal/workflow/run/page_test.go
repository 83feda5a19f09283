package run_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/workflow/engine"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// A page of runs is at most 2 MB, however long the texts of its runs are, and all pages together have
// every run.
func TestAPageOfRunsIsAtMost2MB(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4})
	id := n.draw(t, `[{"id":"w","module":"WAIT_FOR_SIGNAL","config":{"name":"never","timeoutMs":3600000}}]`, "", "")
	metadata := json.RawMessage(`{"note":"` + strings.Repeat("m", 20_000) + `"}`)
	reason := strings.Repeat("😀", 1_000)
	const runs = 100
	for range runs {
		key := n.trigger(t, run.TriggerParams{
			WorkflowID: id, Input: metadata, Metadata: metadata,
			Callback: &callback.Params{URL: "https://example.org/" + strings.Repeat("u", 2_000)},
		})
		if _, err := n.runs.Cancel(n.ctx, key, anyone{}, engine.CancelGraceful, &reason); err != nil {
			t.Fatal(err)
		}
	}
	found, at := 0, ""
	for {
		page, err := n.runs.List(n.ctx, n.workspace, run.ListParams{Limit: 100, Cursor: at})
		if err != nil {
			t.Fatal(err)
		}
		found += len(page.Data)
		if shown, err := json.Marshal(page); err != nil || len(shown) > 2_000_000 {
			t.Errorf("a page of %d runs has %d bytes: %v", len(page.Data), len(shown), err)
		}
		if !page.HasMore {
			break
		}
		at = *page.NextCursor
	}
	if found != runs {
		t.Errorf("the pages have %d runs, want %d", found, runs)
	}
}
