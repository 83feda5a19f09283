package orchestrator

import (
	"errors"
	"fmt"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// writeTree adds the stages and bytes of this advance to the totals of the tree. The first change of a
// tree also contains all earlier stages and bytes of the root. writeTree locks the tree's row, so it must
// be called after all locks of runs and before the lock of the account.
func (a *advance) writeTree(conn db.DBTX) error {
	made, live := a.Run.Made(), int32(len(a.Children))
	if a.row.InTree {
		made.Stages, made.Bytes = made.Stages-a.Own.Stages, made.Bytes-a.Own.Bytes
	}
	if a.Run.Status.Terminal() {
		if a.row.RootRunID == a.Run.ID {
			return db.New().RunTreeDelete(a.ctx, conn, db.RunTreeDeleteParams{WorkspaceID: a.row.WorkspaceID, RootRunID: a.Run.ID})
		}
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
	return a.Run.Made().Counted() - a.Own.Counted() + a.events
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
