package execution_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// An output that cannot be decrypted does not fail the page that contains it. Get for that
// execution returns the error.
func TestAPageOmitsAnOutputThatCannotBeDecrypted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	echoes := withSecret{module{name: "ECHOES", price: 1, repeat: component.RepeatPure, timeout: time.Minute,
		run: func(_ context.Context, call component.Call) (component.Result, error) {
			return component.Result{Output: call.Input}, nil
		}}}
	const plain, secret = `{"kind":"application/json"}`, `{"token":"a token that comes back"}`
	n := b.start(t, options{slots: 2}, echoes)
	var ids []uuid.UUID
	for _, input := range []string{plain, secret, plain} {
		ids = append(ids, b.submit(t, n, execution.SubmitParams{Module: "ECHOES", Input: json.RawMessage(input)}).ID)
		if got := b.await(t, n, ids[len(ids)-1]); got.Status != status.ExecutionCompleted || string(got.Output) != input || got.OutputProblem != nil {
			t.Fatalf("it ended %s with %s", got.Status, got.Output)
		}
	}
	keyring, err := seal.NewKeyring(seal.Key{ID: "other", Secret: [32]byte{9, 8, 7, 6, 5, 4, 3, 2, 1}})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := &bench{dsn: b.dsn, pool: b.pool, workspace: b.workspace, keyring: keyring}
	page := func(n *node, want fault.Code) {
		t.Helper()
		page, err := n.service.List(t.Context(), b.workspace, execution.ListParams{Limit: 10})
		if err != nil || len(page.Data) != len(ids) {
			t.Fatalf("%d of %d, %v", len(page.Data), len(ids), err)
		}
		for i, got := range page.Data { // the newest first
			problem := got.OutputProblem
			switch {
			case got.ID != ids[len(ids)-1-i] || got.Status != status.ExecutionCompleted:
				t.Errorf("at %d is %s, %s", i, got.ID, got.Status)
			case i != 1 && (problem != nil || string(got.Output) != plain):
				t.Errorf("another execution has %s, %v", got.Output, problem)
			case i == 1 && (got.Output != nil || problem == nil || problem.Code != want || problem.Message == ""):
				t.Errorf("it is %s, %+v, want %s", got.Output, problem, want)
			}
		}
		if _, err := n.service.Get(t.Context(), b.workspace, ids[1]); fault.CodeOf(err) != want {
			t.Errorf("Get returned %v, want %s", err, want)
		}
	}
	page(elsewhere.start(t, options{idle: true}, echoes), fault.Unavailable)
	if _, err := b.pool.Exec(t.Context(), "DELETE FROM output_keys"); err != nil {
		t.Fatal(err)
	}
	page(b.start(t, options{idle: true}, echoes), fault.Internal)
}
