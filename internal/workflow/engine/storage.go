package engine

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/storage"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// made returns what the run itself has made.
func made(run db.RunLockRow) storage.Usage {
	return storage.Usage{Stages: int64(run.StageCount), Bytes: run.OutputBytes}
}

// madeByOthers returns what the other runs of its tree had made when the fold locked the run.
func madeByOthers(run db.RunLockRow) storage.Usage {
	if !run.InTree {
		return storage.Usage{}
	}
	return storage.Usage{Stages: run.TreeStages, Bytes: run.TreeBytes}.Less(made(run))
}

// writeTree adds what this fold made to the tree of the run. It locks the tree's row, so it
// must come after all locks of runs and before the lock of the account.
func (f *fold) writeTree(tx pgx.Tx) error {
	p := f.treeChange()
	if f.run.Status.Terminal() && p.RootRunID == f.run.ID {
		return db.New().RunTreeDelete(f.ctx, tx, db.RunTreeDeleteParams{WorkspaceID: p.WorkspaceID, RootRunID: p.RootRunID})
	}
	return db.New().RunTreeAdd(f.ctx, tx, p)
}

// countInTree writes what this fold made to the tree, before an account is locked.
func (f *fold) countInTree() error {
	if f.counted || !f.run.InTree && len(f.children) == 0 {
		return nil
	}
	f.counted = true
	if err := f.writeTree(f.tx); err != nil {
		return fmt.Errorf("count in the tree of runs: %w", err)
	}
	return nil
}

// treeChange is what this fold changes in the totals of the tree. The first change of a tree
// contains all that its root has made.
func (f *fold) treeChange() db.RunTreeAddParams {
	p := db.RunTreeAddParams{WorkspaceID: f.run.WorkspaceID, RootRunID: f.run.RootRunID, Live: int32(len(f.children)), Most: maxLive}
	now := made(f.run)
	p.Stages, p.Bytes = now.Stages, now.Bytes
	if f.run.InTree {
		p.Stages, p.Bytes = now.Stages-f.own.Stages, now.Bytes-f.own.Bytes
	}
	if f.run.Status.Terminal() {
		p.Live--
	}
	return p
}

// codeStorage is why a run or a stage fails whose workspace may store no more in this month.
const codeStorage = "STORAGE_EXHAUSTED"

// countedFrom is how many bytes a run stores before its workspace's account counts them.
const countedFrom = 16 << 10

// stored returns the bytes that this fold has stored so far.
func (f *fold) stored() int64 {
	return made(f.run).Counted() - f.own.Counted() + f.events
}

// fee returns what the stages and outputs of this fold cost beyond the free part of the tree.
func (f *fold) fee() credit.Amount {
	before := f.own.Plus(f.others).Plus(f.taken)
	return storage.Fee(before, made(f.run).Plus(f.others))
}

// chargeFee charges the fee of this fold. If it cannot be paid, the run ends and what this fold
// made is free. The account is locked afterwards.
func (f *fold) chargeFee() error {
	fee := f.fee()
	if fee == 0 {
		return nil
	}
	if most, err := f.beyond(fee); err != nil || most != nil {
		if err == nil {
			f.failWith(string(fault.InsufficientCredits), fmt.Sprintf("The storage fee would make this run, or one above it, cost more than its maxCredits of %s.", *most))
		}
		return err
	}
	if err := f.countInTree(); err != nil { // it locks the row of the tree, which comes before the account
		return err
	}
	more := max(0, f.run.Committed+fee-f.run.Reserved)
	refusals, _, err := (billing.Books{}).DecideTx(f.ctx, f.tx, []billing.Want{{WorkspaceID: f.run.WorkspaceID, Amount: more, Run: true}})
	if err != nil {
		return fmt.Errorf("reserve the storage fee: %w", err)
	}
	f.charged = true
	if refusal, refused := errors.AsType[*fault.Error](refusals[0]); refused {
		f.failWith(codeOf(refusal), refusal.Message)
		return nil
	}
	f.run.Committed += fee
	f.run.Reserved += more
	f.run.StorageFee += fee
	f.run.Usage += fee
	f.spent += fee
	return nil
}
