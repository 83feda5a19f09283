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
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
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

// applyFinished applies what has finished since the last fold: the stages that were read with the lock
// and, if the wake-up requests it or a timer is due, everything else.
func (f *fold) applyFinished(w wakeup, stages []waiting) (err error) {
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
	if err := f.finishStages(stages); err != nil || !f.scanned {
		return err
	}
	return f.scan(stages)
}

// finishStages finishes the stages that have nothing more to wait for. Child runs come last, because their result
// depends on whether the run is ending.
func (f *fold) finishStages(stages []waiting) error {
	for _, children := range []bool{false, true} {
		for _, w := range stages {
			if (w.ChildRunID != nil) != children {
				continue
			}
			e, ends, err := f.endOf(w)
			if err != nil {
				return err
			}
			if ends {
				f.run.UsageBelow += credit.Amount(w.UsedBelow)
				f.finish(e)
			}
		}
	}
	return nil
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
func (f *fold) scan(stages []waiting) error {
	if !f.run.Deadline.After(f.run.Now) {
		f.failWith("TIMEOUT", "The run exceeded its deadline.")
	}
	if f.run.CancelRequestedAt != nil && !f.run.CancelShown {
		f.changed, f.halted = true, true
	}
	f.enqueue(f.root())
	return f.scanUnfinished(stages)
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
