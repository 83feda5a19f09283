package orchestrator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/storage"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// locked holds the statements of queueLock, and the rows that they return.
type locked struct {
	key     notify.Key
	batch   postgres.Batch // is sent first in the transaction
	run     *postgres.Rows[db.RunLockRow]
	waiting *postgres.Rows[db.StageListWaitingRow] // nil: none
	ends    *execution.Finishing                   // the execution that finishes with the advance; nil: none
	items   *execution.Items                       // what the advance accepts
}

// queueLock locks a run and reads its unfinished stages: all of them if the wake-up requests it, and
// otherwise those whose executions are known to have finished. If an execution finishes with the advance,
// out is its outcome. Then no run is returned if another transaction has locked it.
func (o *Orchestrator) queueLock(key notify.Key, w wakeup, out *execution.Outcome) *locked {
	l, lock := &locked{key: key, items: o.Executions.NewItems()}, db.RunLock
	if out != nil {
		lock = db.RunTryLock
	}
	l.run = postgres.Returning[db.RunLockRow](&l.batch, lock, db.RunLockParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
	if out != nil {
		l.ends = out.QueueFinish(&l.batch)
	}
	if w.recheck || len(w.executions) > 0 {
		p := db.StageListWaitingParams{WorkspaceID: key.WorkspaceID, RunID: key.ID, Executions: w.executions, MaxRows: engine.MaxStages}
		if w.recheck {
			p.Executions = nil
		}
		l.waiting = postgres.Returning[db.StageListWaitingRow](&l.batch, db.StageListWaiting, p)
	}
	return l
}

// stages returns the unfinished stages that were read.
func (l *locked) stages() []db.StageListWaitingRow {
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

// stateOf returns what an advance of a run starts from, as far as the row of the run contains it.
func stateOf(row db.RunLockRow) engine.State {
	state := engine.State{Run: engine.Run{
		ID: row.ID, EffectRoot: row.ID, ParentRunID: row.ParentRunID, Rerun: len(row.RerunOf) > 0, Scheduled: row.ScheduleID != nil, Status: row.Status, Trigger: row.Trigger, Error: row.Error, Output: row.Output,
		Counts: engine.Counts{StageCount: row.StageCount, FailedCount: row.FailedCount, PendingCount: row.PendingCount, OutputBytes: row.OutputBytes},
		Credits: engine.Credits{
			Committed: row.Committed, Below: row.Below, Reserved: row.Reserved, Usage: row.Usage, UsageBelow: row.UsageBelow,
			StorageFee: row.StorageFee, MaxCredits: row.MaxCredits, Solvent: row.Solvent, StorageFull: row.StorageFull,
		},
		Cancel: engine.Cancel{CancelRequestedAt: row.CancelRequestedAt, CancelMode: row.CancelMode, CancelReason: row.CancelReason, CancelShown: row.CancelShown},
		Times:  engine.Times{CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt, Deadline: row.Deadline, Limited: row.Limited, WakeAt: row.WakeAt, Now: row.Now},
	}}
	_ = json.Unmarshal(row.Paces, &state.Run.Paces) // null, or what storedPaces returned
	if row.EffectRootID != nil {
		state.EffectRoot = *row.EffectRootID
	}
	state.Own = state.Run.Made()
	if row.InTree {
		state.Others = storage.Usage{Stages: row.TreeStages, Bytes: row.TreeBytes}.Less(state.Own)
	}
	state.Live = int(row.TreeLive)
	return state
}

// openVariables decrypts the variables of a run.
func (o *Orchestrator) openVariables(row db.RunLockRow) engine.Variables {
	if row.Variables == nil {
		return engine.Variables{}
	}
	opened, err := o.Environment.Open(row.WorkspaceID, row.ID, row.Variables)
	secrets := slices.Concat(opened.Secrets, component.TokenMarks(opened.Tokens))
	return engine.Variables{
		Values: opened.Values, Secrets: secrets, Changed: opened.Changed, Tokens: opened.Tokens, Hidden: component.NewRedactor(secrets...), Err: err,
	}
}

// openInput decrypts the input of a run.
func (o *Orchestrator) openInput(ctx context.Context, row db.RunLockRow) engine.Input {
	input, hidden, err := OpenInput(ctx, o.Vault, row.WorkspaceID, row.ID, row.Input)
	return engine.Input{JSON: input, Secret: len(hidden) > 0, Err: err}
}

// load reads what the advance starts from, besides the run: its unfinished stages, which stages holds
// if they were read with the lock, and the signals that have arrived. It copies what a rerun reuses.
func (a *advance) load(w wakeup, stages []db.StageListWaitingRow) (err error) {
	if err := a.copyReused(); err != nil {
		return err
	}
	if err := a.readAbout(nil); err != nil {
		return err
	}
	due := a.Run.Status == status.RunCreated || a.Run.WakeAt != nil && !a.Run.WakeAt.After(a.Run.Now)
	if a.Scanned = due || w.recheck; a.Scanned && !w.recheck && a.Run.Status != status.RunCreated {
		stages, err = db.New().StageListWaiting(a.ctx, a.tx, db.StageListWaitingParams{WorkspaceID: a.row.WorkspaceID, RunID: a.row.ID, MaxRows: engine.MaxStages})
		if err != nil {
			return fmt.Errorf("list unfinished stages: %w", err)
		}
	}
	a.Waiting = make([]engine.Waiting, len(stages))
	for i, row := range stages {
		a.Waiting[i] = engine.Waiting(row)
	}
	if err := a.readSignals(); err != nil || !w.exact {
		return err
	}
	return a.lockBudget()
}

// readAbout reads what references to the run can read, if there are any. metadata is that of a run that
// is not stored yet.
func (a *advance) readAbout(metadata []byte) error {
	if !a.Plan.ReadsRun() {
		return nil
	}
	row, err := db.New().RunGetAbout(a.ctx, a.tx, db.RunGetAboutParams{WorkspaceID: a.row.WorkspaceID, RunID: a.row.ID, WorkflowID: a.row.WorkflowID})
	if err != nil {
		return fmt.Errorf("read what references to the run need: %w", err)
	}
	a.About = engine.About{WorkflowID: a.row.WorkflowID, WorkflowName: row.Name, WorkflowKey: row.Key, WorkflowVersion: a.row.WorkflowVersion, Metadata: row.Metadata}
	if metadata != nil {
		a.About.Metadata = metadata
	}
	if a.o.PublicURL != "" {
		a.About.URL = fmt.Sprintf("%s/console/%s/runs/%s", a.o.PublicURL, a.row.WorkspaceID, a.row.ID)
	}
	if len(a.row.RerunOf) == 0 {
		return nil
	}
	origin, err := originOf(a.row.RerunOf)
	a.About.RerunOf = &origin.RunID
	return err
}

// maxSignals limits the signals that one advance reads, because each may have a large payload.
const maxSignals = 16

// readSignals reads the signals that stages wait for and that have arrived.
func (a *advance) readSignals() error {
	a.Signals = map[string]engine.Value{}
	var r reader
	asked := map[string]bool{}
	for _, w := range a.Waiting {
		if !w.Signaled || asked[*w.Signal] {
			continue
		}
		if len(asked) == maxSignals {
			a.More = true
			break
		}
		name := *w.Signal
		asked[name] = true
		ask(&r, db.RunSignalGet, db.RunSignalGetParams{WorkspaceID: a.row.WorkspaceID, RunID: a.Run.ID, Name: name}, func(row db.RunSignalGetRow) error {
			payload, err := a.o.Vault.OpenJSON(a.ctx, a.vaultPlace(a.Run.ID, vault.Signal(name)), row.Payload)
			if err == nil {
				payload, err = strictjson.Encode(map[string]json.RawMessage{"payload": payload})
			}
			a.Signals[name] = engine.Value{Output: payload, Secret: vault.Sealed(row.Payload)}
			return err
		})
	}
	if err := a.read(&r); err != nil {
		return fmt.Errorf("read signals: %w", err)
	}
	return nil
}
