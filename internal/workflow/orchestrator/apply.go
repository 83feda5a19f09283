package orchestrator

import (
	"encoding/json"
	"fmt"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/vault"
)

// locked is what the statements of queueLock return.
type locked struct {
	run     *postgres.Rows[db.RunLockRow]
	waiting *postgres.Rows[waiting] // nil: none
}

// queueLock locks a run and reads its unfinished stages: all of them if the wake-up requests it, and
// otherwise those whose executions are known to have finished. If w.end is set, an execution finishes
// with the fold. Then the batch fails at once if another transaction has locked the run.
func queueLock(batch *postgres.Batch, key notify.Key, w wakeup) (l locked) {
	lock := db.RunLock
	if w.end != nil {
		lock = db.RunTryLock
	}
	l.run = postgres.Returning[db.RunLockRow](batch, lock, db.RunLockParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
	if w.end != nil {
		w.end.Queue(batch)
	}
	if w.recheck || len(w.executions) > 0 {
		p := db.StageListWaitingParams{WorkspaceID: key.WorkspaceID, RunID: key.ID, Executions: w.executions, MaxRows: MaxStages}
		if w.recheck {
			p.Executions = nil
		}
		l.waiting = postgres.Returning[waiting](batch, db.StageListWaiting, p)
	}
	return l
}

// stages returns the unfinished stages that were read.
func (l locked) stages() []waiting {
	if l.waiting == nil {
		return nil
	}
	return l.waiting.All()
}

// RunTryLock has the parameters and the columns of RunLock.
var (
	_ = db.RunLockParams(db.RunTryLockParams{})
	_ = db.RunLockRow(db.RunTryLockRow{})
)

// load reads what the fold starts from, besides the run: its unfinished stages, which stages holds if
// they were read with the lock, and the signals that have arrived. It copies what a rerun reuses.
func (f *fold) load(w wakeup, stages []waiting) (err error) {
	if err := f.copyReused(); err != nil {
		return err
	}
	due := f.run.Status == status.RunCreated || f.run.WakeAt != nil && !f.run.WakeAt.After(f.run.Now)
	if f.scanned = due || w.recheck; f.scanned && !w.recheck && f.run.Status != status.RunCreated {
		stages, err = db.New().StageListWaiting(f.ctx, f.tx, db.StageListWaitingParams{WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, MaxRows: MaxStages})
		if err != nil {
			return fmt.Errorf("list unfinished stages: %w", err)
		}
	}
	f.waiting = stages
	return f.readSignals()
}

// maxSignals limits the signals that one fold reads, because each may have a large payload.
const maxSignals = 16

// readSignals reads the signals that stages wait for and that have arrived.
func (f *fold) readSignals() error {
	var batch postgres.Batch
	asked := map[string]*postgres.Rows[db.RunSignalGetRow]{}
	for _, w := range f.waiting {
		if !w.Signaled || asked[*w.Signal] != nil {
			continue
		}
		if len(asked) == maxSignals {
			f.more = true
			break
		}
		asked[*w.Signal] = postgres.Returning[db.RunSignalGetRow](&batch, db.RunSignalGet, db.RunSignalGetParams{WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, Name: *w.Signal})
	}
	if err := f.tx.Send(f.ctx, &batch); err != nil {
		return fmt.Errorf("read signals: %w", err)
	}
	for name, rows := range asked {
		row, err := rows.One()
		if err != nil {
			return fmt.Errorf("read a signal: %w", err)
		}
		payload, err := f.engine.Vault.OpenJSON(f.ctx, f.vaultPlace(f.run.ID, vault.Signal(name)), row.Payload)
		if err != nil {
			return fmt.Errorf("read a signal: %w", err)
		}
		output, err := strictjson.Encode(map[string]json.RawMessage{"payload": payload})
		if err != nil {
			return fmt.Errorf("read a signal: %w", err)
		}
		f.signals[name] = outputValue{output, vault.Sealed(row.Payload)}
	}
	return nil
}
