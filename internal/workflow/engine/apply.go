package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/vault"
)

// locked is what the statements of queueLock return.
type locked struct {
	run    *postgres.Rows[db.RunLockRow]
	stages *postgres.Rows[db.StageFinishExecutedRow] // nil: none
}

// queueLock locks a run and marks stages whose executions are known to have finished as final. If
// w.end is set, an execution finishes with the fold. Then the batch fails at once if another
// transaction has locked the run.
func queueLock(batch *postgres.Batch, key notify.Key, w wakeup) (l locked) {
	lock := db.RunLock
	if w.end != nil {
		lock = db.RunTryLock
	}
	l.run = postgres.Returning[db.RunLockRow](batch, lock, db.RunLockParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
	if w.end != nil {
		w.end.Queue(batch)
	}
	if len(w.executions) > 0 {
		l.stages = postgres.Returning[db.StageFinishExecutedRow](batch, db.StageFinishExecuted, db.StageFinishExecutedParams{
			WorkspaceID: key.WorkspaceID, RunID: key.ID, Executions: w.executions,
		})
	}
	return l
}

// finished returns the stages that were marked as final.
func (l locked) finished() []db.StageFinishExecutedRow {
	if l.stages == nil {
		return nil
	}
	return l.stages.All()
}

// RunTryLock has the parameters and the columns of RunLock.
var (
	_ = db.RunLockParams(db.RunTryLockParams{})
	_ = db.RunLockRow(db.RunTryLockRow{})
)

// applyFinished applies what has finished since the last fold: the specified stages and, if the
// wake-up requests it or a timer is due, everything else.
func (f *fold) applyFinished(w wakeup, finished []db.StageFinishExecutedRow) error {
	for _, row := range finished {
		f.apply(finishedStage(row))
	}
	if err := f.copyReused(); err != nil {
		return err
	}
	due := f.run.Status == status.RunCreated || f.run.WakeAt != nil && !f.run.WakeAt.After(f.run.Now)
	if !due && !w.recheck {
		return nil
	}
	return f.scan()
}

// apply records that a stage has become final, and enqueues its scope.
func (f *fold) apply(t finishedStage) {
	f.changed, f.finished[t.ID] = true, true
	f.notBefore(t.FinishedAt)
	f.run.PendingCount--
	f.run.Usage += t.Usage
	if t.Status == status.StageFailed {
		f.run.FailedCount++
	}
	state := graph.State{Status: t.Status}
	if t.Port != nil {
		state.Port = *t.Port
	}
	sc := f.scopeOf(t.ComponentID, t.Iteration)
	f.states[placeOf(t.ComponentID, t.Iteration)] = state
	if sc.states != nil {
		sc.states[t.ComponentID] = state
	}
	f.failures[placeOf(t.ComponentID, t.Iteration)] = stageFailure{t.ID, t.Error}
	f.enqueue(sc)
	f.countOutput(t.Bytes)
}

// notBefore moves the fold's time stamp to t if t is later.
func (f *fold) notBefore(t time.Time) { f.stamp = later(f.stamp, t) }

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// countOutput counts the bytes of a stage's output, and fails the run if it exceeds the limit.
func (f *fold) countOutput(bytes int64) {
	f.run.OutputBytes += bytes
	if bytes > 0 && f.run.OutputBytes+f.others.Bytes > maxOutput {
		f.failWith("OUTPUT_TOO_LARGE", "The stage outputs of a run and of the runs below it exceed 64 MiB in total.")
	}
}

// scan checks everything the run may wait for: executions, timers, signals, child runs, its
// deadline and a cancel request. It also applies what lost or incomplete folds left unapplied.
func (f *fold) scan() error {
	f.scanned = true
	if f.run.Status != status.RunCreated { // else the run has no stages yet
		if err := f.applyAll(); err != nil {
			return err
		}
	}
	if !f.run.Deadline.After(f.run.Now) {
		f.failWith("TIMEOUT", "The run exceeded its deadline.")
	}
	if err := f.announceCancel(); err != nil {
		return err
	}
	f.enqueue(f.root())
	if f.run.Status == status.RunCreated {
		return nil
	}
	return f.scanLive()
}

// applyAll applies all finished executions, signals, timeouts, timers and child runs.
func (f *fold) applyAll() error {
	q, p := db.New(), db.StageFinishAllExecutedParams{WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID}
	var batch postgres.Batch
	executions := postgres.Returning[db.StageFinishAllExecutedRow](&batch, db.StageFinishAllExecuted, p)
	secrets := postgres.Returning[db.StageListSecretSignalsRow](&batch, db.StageListSecretSignals, db.StageListSecretSignalsParams(p))
	if err := f.tx.Send(f.ctx, &batch); err != nil {
		return err
	}
	for _, row := range executions.All() {
		f.apply(finishedStage(row))
	}
	if err := f.applySecretSignals(secrets.All()); err != nil {
		return fmt.Errorf("finish stages with secret signals: %w", err)
	}
	signals, err := q.StageFinishSignaled(f.ctx, f.tx, db.StageFinishSignaledParams{At: f.stamp, WorkspaceID: p.WorkspaceID, RunID: p.RunID})
	if err != nil {
		return fmt.Errorf("finish stages with signals: %w", err)
	}
	for _, row := range signals {
		f.apply(finishedStage(row))
	}
	late := f.timed()
	if err := f.failLate(late); err != nil {
		return err
	}
	due, err := q.StageFinishDue(f.ctx, f.tx, db.StageFinishDueParams{At: f.stamp, Now: f.run.Now, WorkspaceID: p.WorkspaceID, RunID: p.RunID})
	if err != nil {
		return fmt.Errorf("finish stages with due timers: %w", err)
	}
	for _, row := range due {
		f.apply(finishedStage(row))
	}
	children, err := q.StageFinishChildren(f.ctx, f.tx, db.StageFinishChildrenParams{
		WorkspaceID: p.WorkspaceID, RunID: p.RunID, Ending: f.ending(),
		ComponentIds: late.componentIDs, TimeoutsMs: late.timeoutsMs, Errors: late.errors,
	})
	if err != nil {
		return fmt.Errorf("finish stages with finished child runs: %w", err)
	}
	for _, row := range children {
		f.run.UsageBelow += credit.Amount(row.UsedBelow)
		f.apply(finishedStage{
			ID: row.ID, ComponentID: row.ComponentID, Iteration: row.Iteration, Status: row.Status, Port: row.Port, Error: row.Error,
			Usage: row.Usage, Bytes: row.Bytes, FinishedAt: row.FinishedAt,
		})
	}
	return nil
}

// applySecretSignals completes stages that wait for a sealed signal. It decrypts each signal once
// and encrypts it for each stage. If the outputs exceed the limit of the run, applySecretSignals
// stops, and the remaining stages end with the run.
func (f *fold) applySecretSignals(waiting []db.StageListSecretSignalsRow) error {
	var output json.RawMessage
	for i, stage := range waiting {
		if f.run.OutputBytes+f.others.Bytes > maxOutput {
			return nil
		}
		if i == 0 || stage.Name != waiting[i-1].Name {
			var err error
			if output, err = f.secretSignal(stage.Name); err != nil {
				return err
			}
		}
		sealed, err := f.engine.Vault.SealJSON(f.ctx, f.vaultPlace(stage.ID, vault.Output), output)
		if err != nil {
			return err
		}
		row, err := db.New().StageFinishSecretSignal(f.ctx, f.tx, db.StageFinishSecretSignalParams{
			WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, ID: stage.ID, Output: sealed, At: f.stamp,
		})
		if err != nil {
			return err
		}
		f.apply(finishedStage(row))
	}
	return nil
}

// secretSignal returns the output of a stage that waited for a sealed signal.
func (f *fold) secretSignal(name string) (json.RawMessage, error) {
	signal, err := db.New().RunSignalGet(f.ctx, f.tx, db.RunSignalGetParams{WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, Name: name})
	if err != nil {
		return nil, err
	}
	payload, err := f.engine.Vault.OpenJSON(f.ctx, f.vaultPlace(f.run.ID, vault.Signal(name)), signal.Payload)
	if err != nil {
		return nil, err
	}
	return strictjson.Encode(map[string]json.RawMessage{"payload": payload})
}

// SecretSignal reports whether the payload of a signal is secret. It is secret if a
// WAIT_FOR_SIGNAL with that name marks it as secret. It is also secret if a WAIT_FOR_SIGNAL that
// marks its payload has an environment variable in its name, because only a run can resolve the
// name.
func SecretSignal(plan *graph.Plan, name string) bool {
	return slices.ContainsFunc(plan.Components(), func(c graph.Component) bool {
		if c.Module != component.WaitForSignal {
			return false
		}
		var config map[string]json.RawMessage
		var waits string
		_ = json.Unmarshal(c.Config, &config)
		_ = json.Unmarshal(config["name"], &waits)
		secret := string(config["secret"])
		return secret != "" && secret != "false" && (waits == name || envref.In(waits))
	})
}
