package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/vault"
)

// lockRun gives a run, locked, and makes final those of its stages whose executions are
// known to have finished, which it returns. An end that is written with the fold does not
// wait for the run: where that is locked there is none, and what came in the same trip is
// rolled back.
func lockRun(ctx context.Context, tx *postgres.Tx, key notify.Key, n news) (run db.RunLockRow, ended []db.StageFinishExecutedRow, err error) {
	statements := []func(pgx.Tx) error{func(tx pgx.Tx) (err error) {
		if n.end != nil {
			var free db.RunTryLockRow
			free, err = db.New().RunTryLock(ctx, tx, db.RunTryLockParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
			run = db.RunLockRow(free)
		} else {
			run, err = db.New().RunLock(ctx, tx, db.RunLockParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
		}
		if err != nil {
			err = fmt.Errorf("lock run: %w", err)
		}
		return err
	}}
	if n.end != nil {
		statements = append(statements, func(tx pgx.Tx) error { return n.end.Write(ctx, tx) })
	}
	if len(n.executions) > 0 {
		statements = append(statements, func(tx pgx.Tx) (err error) {
			ended, err = db.New().StageFinishExecuted(ctx, tx, db.StageFinishExecutedParams{WorkspaceID: key.WorkspaceID, RunID: key.ID, Executions: n.executions})
			if err != nil {
				err = fmt.Errorf("take over finished executions: %w", err)
			}
			return err
		})
	}
	err = tx.Together(ctx, statements...)
	return run, ended, err
}

// takeOver takes over what has finished since the last fold: what the fold was told of, and
// what it finds.
func (f *fold) takeOver(n news, ended []db.StageFinishExecutedRow) error {
	for _, row := range ended {
		f.take(taken(row))
	}
	if err := f.takeOverEarlier(); err != nil {
		return err
	}
	due := f.run.Status == status.RunCreated || f.run.WakeAt != nil && !f.run.WakeAt.After(f.run.Now)
	if !due && !n.unknown {
		return nil
	}
	return f.look()
}

// take notes that a stage has become final.
func (f *fold) take(t taken) {
	f.changed, f.gone[t.ID] = true, true
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
	f.states[at(t.ComponentID, t.Iteration)] = state
	if sc.states != nil {
		sc.states[t.ComponentID] = state
	}
	f.failures[at(t.ComponentID, t.Iteration)] = failed{t.ID, t.Error}
	f.touch(sc)
	f.gave(t.Bytes)
}

// notBefore moves the time that the fold writes to t if that is later.
func (f *fold) notBefore(t time.Time) { f.stamp = later(f.stamp, t) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// gave counts the output of a stage.
func (f *fold) gave(bytes int64) {
	f.run.OutputBytes += bytes
	if bytes > 0 && f.run.OutputBytes+f.others.Bytes > maxOutput {
		f.failWith("OUTPUT_TOO_LARGE", "The stage outputs of a run and of the runs below it exceed 64 MiB in total.")
	}
}

// look takes over what nobody tells of: timers, signals, child runs; and looks at all
// that is live, so that a fold which did not come to an end, or was lost, is made up for.
func (f *fold) look() error {
	f.looked = true
	if f.run.Status != status.RunCreated { // else nothing lives
		if err := f.takeOverAll(); err != nil {
			return err
		}
	}
	if !f.run.Deadline.After(f.run.Now) {
		f.failWith("TIMEOUT", "The run took longer than a run may take.")
	}
	if err := f.tellOfCancel(); err != nil {
		return err
	}
	f.touch(f.root())
	if f.run.Status == status.RunCreated {
		return nil
	}
	return f.lookAtLive()
}

func (f *fold) takeOverAll() error {
	q, p := db.New(), db.StageFinishAllExecutedParams{WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID}
	var executions []db.StageFinishAllExecutedRow
	var secrets []db.StageListSecretSignalsRow
	err := f.tx.Together(f.ctx, func(tx pgx.Tx) (err error) {
		executions, err = q.StageFinishAllExecuted(f.ctx, tx, p)
		return err
	}, func(tx pgx.Tx) (err error) {
		secrets, err = q.StageListSecretSignals(f.ctx, tx, db.StageListSecretSignalsParams(p))
		return err
	})
	if err != nil {
		return fmt.Errorf("take over finished executions: %w", err)
	}
	for _, row := range executions {
		f.take(taken(row))
	}
	if err := f.takeSecretSignals(secrets); err != nil {
		return fmt.Errorf("take over secret signals: %w", err)
	}
	signals, err := q.StageFinishSignaled(f.ctx, f.tx, db.StageFinishSignaledParams{At: f.stamp, WorkspaceID: p.WorkspaceID, RunID: p.RunID})
	if err != nil {
		return fmt.Errorf("take over signals: %w", err)
	}
	for _, row := range signals {
		f.take(taken(row))
	}
	late := f.timed()
	if err := f.takeLate(late); err != nil {
		return err
	}
	due, err := q.StageFinishDue(f.ctx, f.tx, db.StageFinishDueParams{At: f.stamp, Now: f.run.Now, WorkspaceID: p.WorkspaceID, RunID: p.RunID})
	if err != nil {
		return fmt.Errorf("take over timers: %w", err)
	}
	for _, row := range due {
		f.take(taken(row))
	}
	children, err := q.StageFinishChildren(f.ctx, f.tx, db.StageFinishChildrenParams{
		WorkspaceID: p.WorkspaceID, RunID: p.RunID, Ending: f.ending(),
		ComponentIds: late.componentIDs, TimeoutsMs: late.timeoutsMs, Errors: late.errors,
	})
	if err != nil {
		return fmt.Errorf("take over child runs: %w", err)
	}
	for _, row := range children {
		f.run.UsageBelow += credit.Amount(row.UsedBelow)
		f.take(taken{
			ID: row.ID, ComponentID: row.ComponentID, Iteration: row.Iteration, Status: row.Status, Port: row.Port, Error: row.Error,
			Usage: row.Usage, Bytes: row.Bytes, FinishedAt: row.FinishedAt,
		})
	}
	return nil
}

// takeSecretSignals completes stages with what was sealed before it was known which of them
// take it. A signal that many wait for is held once, and once they come to more than a run may
// give, the rest end with the run.
func (f *fold) takeSecretSignals(waiting []db.StageListSecretSignalsRow) error {
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
		sealed, err := f.engine.Vault.SealJSON(f.ctx, f.place(stage.ID, vault.Output), output)
		if err != nil {
			return err
		}
		row, err := db.New().StageFinishSecretSignal(f.ctx, f.tx, db.StageFinishSecretSignalParams{
			WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, ID: stage.ID, Output: sealed, At: f.stamp,
		})
		if err != nil {
			return err
		}
		f.take(taken(row))
	}
	return nil
}

// secretSignal is what a stage gives that waited for a signal which came sealed.
func (f *fold) secretSignal(name string) (json.RawMessage, error) {
	came, err := db.New().RunSignalGet(f.ctx, f.tx, db.RunSignalGetParams{WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, Name: name})
	if err != nil {
		return nil, err
	}
	payload, err := f.engine.Vault.OpenJSON(f.ctx, f.place(f.run.ID, vault.Signal(name)), came.Payload)
	if err != nil {
		return nil, err
	}
	return strictjson.Encode(map[string]json.RawMessage{"payload": payload})
}

// SecretSignal reports whether a WAIT_FOR_SIGNAL of that name says that what it waits for is
// secret, or one does whose name is known in a run only.
func SecretSignal(plan *graph.Plan, name string) bool {
	return slices.ContainsFunc(plan.Components(), func(c graph.Component) bool {
		if c.Module != "WAIT_FOR_SIGNAL" {
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
