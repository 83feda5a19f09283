package orchestrator

import (
	"errors"
	"fmt"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// executions returns the executions of new stages.
func (a *advance) executions() (all []execution.Stage) {
	for _, t := range a.Stages {
		if t.Execution == nil {
			continue
		}
		e := execution.Stage{
			WorkspaceID: a.row.WorkspaceID, RunID: a.row.ID, ExecutionID: t.Execution.ID, EffectKey: t.Execution.EffectKey,
			Module: t.Component.Module, Input: t.Execution.Input, Config: t.Execution.Config, Attempts: t.Execution.Attempts,
			Timeout: t.Execution.Timeout, Reserve: t.Execution.Reserve, Secrets: t.Execution.Secrets, Secret: t.Secret, Nested: a.row.ParentRunID != nil,
			At: a.unlessFirst(a.At),
		}
		if a.row.Traceparent != nil {
			e.Traceparent = *a.row.Traceparent
		}
		all = append(all, e)
	}
	return all
}

// admit charges the fee of the advance and accepts its executions. It reports whether it has settled the
// execution whose completion is committed with the advance.
func (a *advance) admit(w wakeup, how *execution.Acceptance) (settled bool, err error) {
	if !w.exact {
		if err := a.chargeFee(); err != nil {
			return false, err
		}
	}
	executions := a.executions()
	if len(executions) > 0 {
		// The new stages use the capacity and the credits that the finished execution releases.
		if err := a.countInTree(); err != nil {
			return false, err
		}
		if w.end != nil {
			if err := w.end.SettleTx(a.ctx, a.tx, how); err != nil {
				return false, err
			}
		}
		if err := how.AcceptTx(a.ctx, a.tx, executions); err != nil {
			return false, fmt.Errorf("accept stages: %w", err)
		}
	}
	if w.exact { // the budget covers the stages, but perhaps not the fee in addition
		err = a.chargeFee()
	}
	return len(executions) > 0, err
}

// lockBudget makes the budget of the advance exact: it locks the account, after everything else that the
// advance may lock.
func (a *advance) lockBudget() (err error) {
	var batch postgres.Batch
	if a.row.ParentRunID != nil && a.row.MaxCredits != nil {
		postgres.Returning[db.RunLockAncestorsRow](&batch, db.RunLockAncestors, db.RunLockAncestorsParams{WorkspaceID: a.row.WorkspaceID, ID: a.row.ID, MaxDepth: engine.MaxDepth})
	}
	if a.row.InTree {
		_ = db.New().RunTreeLock(a.ctx, &batch, db.RunTreeLockParams{WorkspaceID: a.row.WorkspaceID, RootRunID: a.row.RootRunID})
	}
	if err := a.tx.Send(a.ctx, &batch); err != nil {
		return fmt.Errorf("lock the runs above and the tree: %w", err)
	}
	if a.budget, err = billing.LockBudget(a.ctx, a.tx, a.row.WorkspaceID); err != nil {
		return err
	}
	a.Budget, a.Run.StorageFull = engine.Budget{Exact: true, Left: a.budget.Available}, a.budget.StorageFull
	a.LockAccount()
	return nil
}

// withCode returns a refusal with the code of a run or stage that fails because of it.
func withCode(why error) error {
	refusal, ok := errors.AsType[*fault.Error](why)
	if !ok || refusal.Reason != billing.ReasonStorage {
		return why
	}
	return component.Permanent(engine.CodeStorage, "%s", refusal.Message).With(map[string]any{"reason": refusal.Reason})
}

// codeOf returns the error code of a run that fails because of a refusal.
func codeOf(refusal *fault.Error) string {
	if refusal.Reason == billing.ReasonStorage {
		return engine.CodeStorage
	}
	return string(refusal.Code)
}
