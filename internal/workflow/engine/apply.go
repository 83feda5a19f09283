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

// applyFinished applies what has finished since the last fold: the stages that wait for nothing more
// and, if all stages were read, everything else.
func (f *fold) applyFinished() error {
	f.finishStages()
	if !f.scanned {
		return nil
	}
	return f.scan()
}

// finishStages finishes the stages that have nothing more to wait for. Child runs come last, because their result
// depends on whether the run is ending.
func (f *fold) finishStages() {
	for _, children := range []bool{false, true} {
		for _, w := range f.waiting {
			if (w.ChildRunID != nil) != children {
				continue
			}
			if e, ends := f.endOf(w); ends {
				f.run.UsageBelow += credit.Amount(w.UsedBelow)
				f.finish(e)
			}
		}
	}
}

// finish finishes a stage of an earlier fold, and enqueues its scope.
func (f *fold) finish(e end) {
	f.ends = append(f.ends, e)
	f.changed, f.finished[e.id] = true, true
	f.notBefore(e.at)
	f.run.PendingCount--
	f.run.Usage += e.usage
	if e.status == status.StageFailed {
		f.run.FailedCount++
	}
	p := placeOf(e.componentID, e.iteration)
	if len(e.output) > 0 {
		f.values[p] = outputValue{e.output, e.secret}
	}
	f.failures[p] = stageFailure{e.id, e.failure}
	f.setState(f.scopeOf(e.componentID, e.iteration), e.componentID, graph.State{Status: e.status, Port: e.port})
	f.countOutput(e.bytes)
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

// scan checks the deadline of the run, a cancel request, and the stages that are still unfinished. It
// also applies what lost or incomplete folds left unapplied.
func (f *fold) scan() error {
	if !f.run.Deadline.After(f.run.Now) {
		f.failWith("TIMEOUT", "The run exceeded its deadline.")
	}
	if f.run.CancelRequestedAt != nil && !f.run.CancelShown {
		f.changed, f.halted = true, true
	}
	f.enqueue(f.root())
	return f.scanUnfinished()
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
