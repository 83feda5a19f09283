package execution_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// Outputs count toward the month's storage, even those of free modules. Beyond the limit, no
// execution is accepted.
func TestFreeExecutionsAreRefusedBeyondTheStorageOfTheMonth(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if err := (billing.Books{}).SetPlan(t.Context(), b.pool, billing.Plan{WorkspaceID: b.workspace, Name: plan.Enterprise, Storage: new(int64(100_000))}); err != nil {
		t.Fatal(err)
	}
	large := echo()
	large.name, large.price = "LARGE", 0
	large.run = func(context.Context, component.Call) (component.Result, error) {
		return component.Result{Output: json.RawMessage(`{"text":"` + strings.Repeat("x", 60_000) + `"}`)}, nil
	}
	n := b.start(t, options{slots: 2}, large)
	for range 2 {
		b.await(t, n, b.submit(t, n, execution.SubmitParams{Module: "LARGE"}).ID)
	}
	var stored int64
	if err := b.pool.QueryRow(t.Context(), "SELECT stored FROM credit_accounts WHERE workspace_id = $1", b.workspace).Scan(&stored); err != nil || stored != 2*(60_011+1_024) {
		t.Errorf("%d bytes are counted, %v", stored, err)
	}
	_, err := n.service.Submit(t.Context(), execution.SubmitParams{WorkspaceID: b.workspace, Module: "LARGE", Attempts: 1, Input: json.RawMessage(`{}`), Config: json.RawMessage(`{}`)})
	if refusal, ok := errors.AsType[*fault.Error](err); !ok || refusal.Reason != billing.ReasonStorage {
		t.Errorf("beyond the limit: %v", err)
	}
}
