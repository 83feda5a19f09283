package execution_test

import (
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/idempotency"
)

// poor creates a workspace on the starter plan with the specified paid credits.
func (b *bench) poor(t *testing.T, paid credit.Amount) uuid.UUID {
	t.Helper()
	id, err := workspace.Create(t.Context(), b.pool, workspace.CreateParams{Name: uuid.NewString(), Plan: plan.Starter, Paid: paid})
	if err == nil {
		err = billing.Books{}.Renew(t.Context(), b.pool, id) // starts the first period
	}
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (b *bench) audit(t *testing.T, workspaceID uuid.UUID) []string {
	t.Helper()
	broken, _, err := billing.Audit(t.Context(), b.pool, workspaceID)
	if err != nil {
		t.Fatal(err)
	}
	lines := make([]string, len(broken))
	for i, drift := range broken {
		lines[i] = drift.String()
	}
	return lines
}

// The test submits 1,000 executions in parallel in a workspace with credits for 500. It sends each
// twice with the same Idempotency-Key, to two processes at once. Exactly 500 run, the ledger sums
// to zero, and an audit finds rows that the test corrupts.
func TestLE01SubmitsOnCreditForHalfOfThem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	nodes := []*node{b.start(t, ways["in the accepting process"], echo()), b.start(t, options{idle: true}, echo())}
	each := waittest.Size(10, 50)
	half := 10 * each
	id := b.poor(t, credit.Credits(int64(half)))
	var mu sync.Mutex
	made := map[uuid.UUID]string{} // execution to Idempotency-Key
	var refused atomic.Int64
	send := func(n *node, key string) {
		got, err := n.service.Submit(t.Context(), execution.SubmitParams{
			WorkspaceID: id, Module: "ECHO", Attempts: 1, Input: json.RawMessage(`{}`), Config: json.RawMessage(`{}`),
			Idempotency: &idempotency.Key{WorkspaceID: id, Operation: "executeComponent", Path: "/", Key: key},
		})
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			made[got.Record.ID] = key
		case fault.CodeOf(err) == fault.InsufficientCredits:
			refused.Add(1)
		case fault.CodeOf(err) != fault.IdempotencyInFlight: // the same request is in flight in the other process
			t.Error(err)
		}
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range each {
				key := uuid.NewString()
				var twice sync.WaitGroup
				for _, n := range nodes {
					twice.Go(func() { send(n, key) })
				}
				twice.Wait()
			}
		})
	}
	all.Wait()
	keys := map[string]bool{}
	for _, key := range made {
		keys[key] = true
	}
	if len(made) != half || len(keys) != half || refused.Load() < int64(half) {
		t.Fatalf("%d were accepted under %d keys, %d refused", len(made), len(keys), refused.Load())
	}
	if broken := b.audit(t, uuid.Nil); len(broken) > 0 {
		t.Errorf("while they run: %s", strings.Join(broken, "\n"))
	}
	b.workspace = id
	worker := b.start(t, options{workers: 8}, echo())
	for executionID := range made {
		b.await(t, worker, executionID)
	}
	count, sum := b.postings(t)
	if count != int64(half) || sum != int64(credit.Credits(int64(half))) {
		t.Errorf("%d postings of %d micro-credits", count, sum)
	}
	var rest, left int64
	err := b.pool.QueryRow(t.Context(), `SELECT (SELECT sum(plan + paid + allowance + usage + granted + released + expired)::bigint FROM credit_postings),
		(SELECT plan + paid + reserved + live + allowance_used FROM credit_accounts WHERE workspace_id = $1)`, id).Scan(&rest, &left)
	if err != nil || rest != 0 || left != 0 {
		t.Errorf("the ledger sums to %d, %d is left, %v", rest, left, err)
	}
	if broken := b.audit(t, uuid.Nil); len(broken) > 0 {
		t.Errorf("when all has ended: %s", strings.Join(broken, "\n"))
	}
	for executionID := range made {
		b.breakByHand(t, id, executionID)
		return
	}
}

// breakByHand corrupts one row after the other, bypassing every constraint. An audit must report
// each row.
func (b *bench) breakByHand(t *testing.T, id, executionID uuid.UUID) {
	t.Helper()
	unguarded := "SET session_replication_role = replica; "
	for _, c := range []struct{ breaks, repairs, named string }{
		{
			"UPDATE credit_accounts SET paid = 7000000 WHERE workspace_id = '" + id.String() + "'",
			"UPDATE credit_accounts SET paid = 0 WHERE workspace_id = '" + id.String() + "'",
			"account " + id.String() + " has 7 paid credits, but its postings sum to 0",
		},
		{
			"UPDATE credit_accounts SET reserved = 3 WHERE workspace_id = '" + id.String() + "'",
			"UPDATE credit_accounts SET reserved = 0 WHERE workspace_id = '" + id.String() + "'",
			"account " + id.String() + " reserves 0.000003, but its live executions and runs need 0",
		},
		{
			"UPDATE component_executions SET usage = 2000000 WHERE id = '" + executionID.String() + "'",
			"UPDATE component_executions SET usage = 1000000 WHERE id = '" + executionID.String() + "'",
			"execution " + executionID.String() + " is COMPLETED, used 2 and was charged 1",
		},
		{
			"ALTER TABLE credit_postings DROP CONSTRAINT credit_postings_check; UPDATE credit_postings SET granted = 5 WHERE reference = '" + executionID.String() + "'",
			"UPDATE credit_postings SET granted = 0 WHERE reference = '" + executionID.String() + "'",
			"(EXECUTION " + executionID.String() + ") has entries that sum to 0.000005",
		},
		{
			"DELETE FROM component_executions WHERE id = '" + executionID.String() + "'", "",
			"charges execution " + executionID.String() + ", which does not exist",
		},
	} {
		for step, statement := range []string{c.breaks, c.repairs} {
			if _, err := b.pool.Exec(t.Context(), unguarded+statement+"; RESET session_replication_role"); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
			broken := strings.Join(b.audit(t, id), "\n")
			if step == 0 && !strings.Contains(broken, c.named) {
				t.Errorf("%s: the audit says %q, want %q", c.breaks, broken, c.named)
			}
			if step == 1 && c.repairs != "" && broken != "" {
				t.Errorf("%s: the audit says %q", c.repairs, broken)
			}
		}
	}
}
