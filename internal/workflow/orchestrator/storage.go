package orchestrator

import (
	"errors"
	"fmt"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/storage"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// made returns the number of stages and output bytes of the run itself.
func made(run db.RunLockRow) storage.Usage {
	return storage.Usage{Stages: int64(run.StageCount), Bytes: run.OutputBytes}
}

// madeByOthers returns the stages and bytes of the other runs in its tree at the time when the fold
// locked the run.
func madeByOthers(run db.RunLockRow) storage.Usage {
	if !run.InTree {
		return storage.Usage{}
	}
	return storage.Usage{Stages: run.TreeStages, Bytes: run.TreeBytes}.Less(made(run))
}

// writeTree adds the stages and bytes of this fold to the totals of the tree. It locks the tree's
// row, so it must be called after all locks of runs and before the lock of the account.
func (f *fold) writeTree(conn db.DBTX) error {
	p := f.treeChange()
	if f.run.Status.Terminal() && p.RootRunID == f.run.ID {
		return db.New().RunTreeDelete(f.ctx, conn, db.RunTreeDeleteParams{WorkspaceID: p.WorkspaceID, RootRunID: p.RootRunID})
	}
	return db.New().RunTreeAdd(f.ctx, conn, p)
}

// countInTree calls writeTree once, if the run is part of a tree. It must be called before the
// account is locked.
func (f *fold) countInTree() error {
	if f.counted || !f.run.InTree && len(f.children) == 0 {
		return nil
	}
	f.counted = true
	if err := f.writeTree(f.tx); err != nil {
		return fmt.Errorf("update the totals of the run's tree: %w", err)
	}
	return nil
}

// treeChange returns the change of the tree's totals. The first change of a tree also contains all
// earlier stages and bytes of the root.
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

// codeStorage is the code of a run or stage that fails because the workspace has reached its
// storage limit for the month.
const codeStorage = "STORAGE_EXHAUSTED"

// countedFrom is the number of bytes after which a run adds its storage to the workspace's account.
const countedFrom = 16 << 10

// stored returns the bytes that this fold stores.
func (f *fold) stored() int64 {
	return made(f.run).Counted() - f.own.Counted() + f.events
}

// chargeFee reserves the fee of this fold. If the workspace cannot pay the fee, the run fails and
// this fold is free. chargeFee locks the account.
func (f *fold) chargeFee() error {
	fee := f.fee()
	if fee == 0 {
		return nil
	}
	if f.need = (need{}); !f.knowsLimits() {
		if err := f.answer(); err != nil {
			return err
		}
	}
	if most := f.exceeded(fee); most != nil {
		f.failWith(string(fault.InsufficientCredits), fmt.Sprintf("The storage fee would make this run, or one above it, cost more than its maxCredits of %s.", *most))
		return nil
	}
	if err := f.countInTree(); err != nil { // the tree's row is locked before the account
		return err
	}
	more := max(0, f.run.Committed+fee-f.run.Reserved)
	err := (billing.Books{}).ReserveTx(f.ctx, f.tx, billing.Want{WorkspaceID: f.run.WorkspaceID, Amount: more, Run: true})
	f.charged = true
	if refusal, refused := errors.AsType[*fault.Error](err); refused {
		f.failWith(codeOf(refusal), refusal.Message)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reserve the storage fee: %w", err)
	}
	f.run.Committed += fee
	f.run.Reserved += more
	f.run.StorageFee += fee
	f.run.Usage += fee
	f.spent += fee
	return nil
}
