package execution_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/idempotency"
)

// A lost response of COMMIT is not a refusal: a caller who repeats the request would pay twice.
func TestACommitInDoubtIsLookedUpOrReportedAsUnknown(t *testing.T) {
	t.Parallel()
	for name, tc := range waittest.Chosen(map[string]struct {
		direct, keyed, down, callback bool
	}{
		"direct":                         {direct: true},
		"direct, keyed":                  {direct: true, keyed: true},
		"direct, with a callback":        {direct: true, callback: true},
		"accepted":                       {},
		"accepted, keyed":                {keyed: true},
		"direct, database down":          {direct: true, down: true},
		"direct, keyed, database down":   {direct: true, keyed: true, down: true},
		"accepted, database down":        {down: true},
		"accepted, keyed, database down": {keyed: true, down: true},
	}, "direct", "direct, with a callback", "accepted, keyed", "direct, keyed, database down", "accepted, database down") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			c := pgtest.NewCutter(t, b.dsn)
			n := b.behind(t, c, options{slots: 4}, computes())
			p := execution.SubmitParams{
				WorkspaceID: b.workspace, Module: "COMPUTES", Input: json.RawMessage(`{}`), Config: json.RawMessage(`{}`), Attempts: 1,
			}
			if tc.direct {
				p.WaitFor = time.Minute
			}
			if tc.keyed {
				p.Idempotency = &idempotency.Key{WorkspaceID: b.workspace, Operation: "x", Path: "/x", Key: uuid.NewString()}
			}
			if tc.callback {
				p.Callback = &callback.Params{URL: "https://example.com/"}
			}
			loss := acceptance(b.workspace, tc.direct || tc.keyed)
			loss.Down = tc.down
			c.Lose(loss)
			got, err := n.service.Submit(t.Context(), p)
			if !c.Lost() {
				t.Fatal("no response was lost")
			}
			var id uuid.UUID
			if scanErr := b.pool.QueryRow(t.Context(), "SELECT id FROM component_executions").Scan(&id); scanErr != nil {
				t.Fatal(scanErr)
			}
			if count, _ := b.postings(t); tc.direct && count != 1 {
				t.Errorf("%d postings, want 1", count)
			}
			if !tc.down {
				if err != nil || got.Record.ID != id || got.Replayed || tc.direct && got.Record.Status != status.ExecutionCompleted {
					t.Errorf("returned %+v, %v; want execution %s", got, err, id)
				}
				return
			}
			failure, ok := errors.AsType[*fault.Error](err)
			if !ok || failure.Reason != fault.ReasonOutcomeUnknown || failure.Extra["executionId"] != id {
				t.Errorf("returned %v, want outcome_unknown with execution %s", err, id)
			}
		})
	}
}
