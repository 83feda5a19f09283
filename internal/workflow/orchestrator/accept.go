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
			Module: t.Component.Module, Input: t.Execution.Input, Config: t.Execution.Config, Attempts: t.Execution.Attempts, Retry: t.Execution.Retry,
			Timeout: t.Execution.Timeout, Reserve: t.Execution.Reserve, Secrets: t.Execution.Secrets, Tokens: t.Execution.Tokens, Secret: t.Secret, Nested: a.row.ParentRunID != nil,
			At: a.unlessFirst(a.At),
		}
		if a.row.Traceparent != nil {
			e.Traceparent = *a.row.Traceparent
		}
		all = append(all, e)
	}
	return all
}

// admit charges the fee of the advance and accepts its executions.
func (a *advance) admit(w wakeup, l *locked) error {
	if !w.exact {
		if err := a.chargeFee(); err != nil {
			return err
		}
	}
	if err := a.accept(l.items, l.ends); err != nil {
		return err
	}
	if w.exact { // the budget covers the stages, but perhaps not the fee in addition
		return a.chargeFee()
	}
	return nil
}

// accept accepts the executions of new stages. It locks the account.
func (a *advance) accept(items *execution.Items, ends *execution.Finishing) error {
	executions := a.executions()
	if len(executions) == 0 {
		return nil
	}
	if err := a.countInTree(); err != nil {
		return err
	}
	var batch postgres.Batch
	err := items.Queue(&batch, executions, ends)
	if err == nil {
		err = a.tx.Send(a.ctx, &batch)
	}
	if err != nil {
		return fmt.Errorf("accept stages: %w", err)
	}
	return nil
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

// writeTree adds the stages and bytes of this advance to the totals of the tree. The first change of a
// tree also contains all earlier stages and bytes of the root. writeTree locks the tree's row, so it must
// be called after all locks of runs and before the lock of the account.
func (a *advance) writeTree(conn db.DBTX) error {
	made, live := a.Run.Made(), int32(len(a.Children))
	if a.row.InTree {
		made.Stages, made.Bytes = made.Stages-a.Own.Stages, made.Bytes-a.Own.Bytes
	}
	if a.Run.Status.Terminal() {
		live--
	}
	return db.New().RunTreeAdd(a.ctx, conn, db.RunTreeAddParams{
		WorkspaceID: a.row.WorkspaceID, RootRunID: a.row.RootRunID, Stages: made.Stages, Bytes: made.Bytes, Live: live, Most: engine.MaxLive,
	})
}

// countInTree calls writeTree once, if the run is part of a tree. It must be called before the
// account is locked.
func (a *advance) countInTree() error {
	if a.counted || !a.row.InTree && len(a.Children) == 0 {
		return nil
	}
	a.counted = true
	if err := a.writeTree(a.tx); err != nil {
		return fmt.Errorf("update the totals of the run's tree: %w", err)
	}
	return nil
}

// countedFrom is the number of bytes after which a run adds its storage to the workspace's account.
const countedFrom = 16 << 10

// stored returns the bytes that this advance stores.
func (a *advance) stored() int64 {
	return a.Run.Made().Counted() - a.Own.Counted() + a.events + a.StateBytes
}

// chargeFee reserves the fee of this advance. If the workspace cannot pay the fee, the run fails and
// this advance is free. chargeFee locks the account.
func (a *advance) chargeFee() error {
	fee := a.Fee()
	if fee == 0 || a.ExceededBy(fee) {
		return nil
	}
	if err := a.countInTree(); err != nil { // the tree's row is locked before the account
		return err
	}
	more := max(0, a.Run.Committed+fee-a.Run.Reserved)
	err := (billing.Books{}).ReserveTx(a.ctx, a.tx, billing.Want{WorkspaceID: a.row.WorkspaceID, Amount: more, Run: true})
	a.LockAccount()
	if refusal, refused := errors.AsType[*fault.Error](err); refused {
		a.FailWith(codeOf(refusal), refusal.Message)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reserve the storage fee: %w", err)
	}
	a.Charge(fee, more)
	return nil
}
