package execution_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

func (b *bench) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

const insertRun = `INSERT INTO workflow_runs
	(workspace_id, id, workflow_id, workflow_version, status, trigger, input, reserved, deadline, job_id, created_at, updated_at)
	VALUES ($1, $2, $2, 1, 'EXECUTING', 'API', '{}', $3, now() + interval '1 hour', 1, now(), now())`

// run inserts a run that reserves the specified amount.
func (b *bench) run(t *testing.T, n *node, reserve credit.Amount) uuid.UUID {
	t.Helper()
	id := uuid.Must(uuid.NewV7())
	err := postgres.InTx(t.Context(), n.pool, nil, func(tx *postgres.Tx) error {
		if _, err := tx.Exec(t.Context(), insertRun, b.workspace, id, int64(reserve)); err != nil {
			return err
		}
		return billing.Books{}.ReserveTx(t.Context(), tx, billing.Want{WorkspaceID: b.workspace, Amount: reserve, Run: true})
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// accept accepts stages of a run as an advance does. It returns the stages, or the reason why they were
// refused.
func (b *bench) accept(t *testing.T, n *node, count int, like execution.Stage) (ids []uuid.UUID, refused error) {
	t.Helper()
	items := n.service.NewItems()
	err := postgres.InTx(t.Context(), n.pool, nil, func(tx *postgres.Tx) error {
		stages := make([]execution.Stage, count)
		for i := range stages {
			stages[i] = like
			stages[i].WorkspaceID, stages[i].ExecutionID = b.workspace, uuid.Must(uuid.NewV7())
			stages[i].Config = json.RawMessage(`{}`)
			if like.Input == nil {
				stages[i].Input = json.RawMessage(`{}`)
			}
			_, err := tx.Exec(t.Context(), `INSERT INTO run_stages (workspace_id, run_id, id, component_id, module, name, status, execution_id, created_at, updated_at)
				VALUES ($1, $2, $3::uuid, $3::text, $4, 'n', 'CREATED', $3::uuid, now(), now())`, b.workspace, like.RunID, stages[i].ExecutionID, like.Module)
			if err != nil {
				return err
			}
			ids = append(ids, stages[i].ExecutionID)
		}
		if err := items.Queue(tx.AtCommit(), stages, nil); err != nil {
			return err
		}
		_, err := tx.AtCommit().Exec(t.Context(), "UPDATE workflow_runs SET reserved = reserved + $2 WHERE id = $1", like.RunID, int64(count)*int64(like.Reserve))
		return err
	})
	items.Done(t.Context(), err)
	if billing.Uncovered(err) {
		return nil, err
	}
	if err != nil {
		t.Fatal(err)
	}
	return ids, nil
}

// conclude finishes a run with the usage of its stages.
func (b *bench) conclude(t *testing.T, runID uuid.UUID) {
	t.Helper()
	b.exec(t, `UPDATE run_stages s SET status = 'COMPLETED', usage = e.usage, finished_at = now()
		FROM component_executions e WHERE s.run_id = $1 AND e.id = s.execution_id`, runID)
	err := postgres.InTx(t.Context(), b.pool, nil, func(tx *postgres.Tx) error {
		var usage, reserved credit.Amount
		err := tx.QueryRow(t.Context(), `UPDATE workflow_runs SET status = 'COMPLETED', finished_at = now(),
			usage = (SELECT sum(usage) FROM run_stages WHERE run_id = $1) WHERE id = $1 RETURNING usage, reserved`, runID).Scan(&usage, &reserved)
		if err != nil {
			return err
		}
		billing.Books{}.QueueSettleRun(tx.AtCommit(), billing.Charge{WorkspaceID: b.workspace, ExecutionID: runID, Amount: usage, Reserved: reserved})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// account returns a description of the counters of the workspace's account.
func (b *bench) account(t *testing.T) string {
	t.Helper()
	var text string
	err := b.pool.QueryRow(t.Context(), `SELECT format('reserves %s, %s live, %s parked', reserved, live, parked)
		FROM credit_accounts WHERE workspace_id = $1`, b.workspace).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (b *bench) balanced(t *testing.T, when string) {
	t.Helper()
	if broken := b.audit(t, b.workspace); len(broken) > 0 {
		t.Errorf("%s the audit says %s", when, strings.Join(broken, "\n"))
	}
}

// finishedRuns collects the runs whose executions a node finished.
type finishedRuns struct {
	mu   sync.Mutex
	runs []notify.Key
}

func (e *finishedRuns) add(_ context.Context, out execution.Outcome) error {
	if !out.Stored() {
		return errors.New("finish it separately")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runs = append(e.runs, out.Run)
	return nil
}

func (e *finishedRuns) has(of uuid.UUID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.runs, func(k notify.Key) bool { return k.ID == of })
}
