package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/graph"
	"github.com/weft-automation/weft/internal/notify"
	"github.com/weft-automation/weft/internal/postgres"
	"github.com/weft-automation/weft/internal/status"
	"github.com/weft-automation/weft/internal/storage"
	"github.com/weft-automation/weft/internal/strictjson"
	"github.com/weft-automation/weft/internal/variable"
	"github.com/weft-automation/weft/internal/vault"
)

// lockRun gives a run, locked, and makes final those of its stages whose executions are
// known to have finished, which it returns. An end that is written with the fold does not
// wait for the run: where that is locked there is none, and what came in the same trip is
// rolled back.
func lockRun(ctx context.Context, tx *postgres.Tx, key notify.Key, n news) (run db.RunLockRow, ended []db.StageTakeOverRow, err error) {
	statements := []func(pgx.Tx) error{func(tx pgx.Tx) (err error) {
		if n.end != nil {
			var free db.RunLockFreeRow
			free, err = db.New().RunLockFree(ctx, tx, db.RunLockFreeParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
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
			ended, err = db.New().StageTakeOver(ctx, tx, db.StageTakeOverParams{WorkspaceID: key.WorkspaceID, RunID: key.ID, Executions: n.executions})
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
func (f *fold) takeOver(n news, ended []db.StageTakeOverRow) error {
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
	q, p := db.New(), db.StageTakeSignalsParams{WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID}
	var executions []db.StageTakeOverAllRow
	var secrets []db.StageListSecretSignalsRow
	err := f.tx.Together(f.ctx, func(tx pgx.Tx) (err error) {
		executions, err = q.StageTakeOverAll(f.ctx, tx, db.StageTakeOverAllParams(p))
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
	signals, err := q.StageTakeSignals(f.ctx, f.tx, p)
	if err != nil {
		return fmt.Errorf("take over signals: %w", err)
	}
	for _, row := range signals {
		f.take(taken(row))
	}
	due, err := q.StageTakeDue(f.ctx, f.tx, db.StageTakeDueParams(p))
	if err != nil {
		return fmt.Errorf("take over timers: %w", err)
	}
	for _, row := range due {
		f.take(taken(row))
	}
	children, err := q.StageTakeChildren(f.ctx, f.tx, db.StageTakeChildrenParams{WorkspaceID: p.WorkspaceID, RunID: p.RunID, Ending: f.ending()})
	if err != nil {
		return fmt.Errorf("take over child runs: %w", err)
	}
	for _, row := range children {
		f.take(taken(row))
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
		row, err := db.New().StageTakeSecretSignal(f.ctx, f.tx, db.StageTakeSecretSignalParams{
			WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, ID: stage.ID, Output: sealed,
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
		return secret != "" && secret != "false" && (waits == name || variable.In(waits))
	})
}

// Origin is the run that another one repeats (decisions 8.10).
type Origin struct {
	RunID       uuid.UUID  `json:"runId"`
	FromStageID *uuid.UUID `json:"fromStageId,omitempty"` // nil: all that is complete is taken over
}

// Kept are the components of the root whose stages are taken over from an earlier run, each
// loop with all that is in it: those that are complete there and come neither after the given
// stage nor after one that is not complete, whose outcome may be another one this time.
func Kept(ctx context.Context, conn db.DBTX, plan *graph.Plan, workspaceID uuid.UUID, of Origin) (kept []string, err error) {
	var again []string
	if of.FromStageID != nil {
		id, err := db.New().StageComponent(ctx, conn, db.StageComponentParams{WorkspaceID: workspaceID, RunID: of.RunID, ID: *of.FromStageID})
		if err != nil {
			return nil, fmt.Errorf("look for a stage: %w", err)
		}
		again = append(again, plan.Outermost(id))
	}
	var places []place
	for _, id := range plan.Members("") {
		places = append(places, at(id, nil))
	}
	components, iterations := sortedPlaces(places)
	rows, err := db.New().StageListStates(ctx, conn, db.StageListStatesParams{
		WorkspaceID: workspaceID, RunID: of.RunID, ComponentIds: components, Iterations: iterations,
	})
	if err != nil {
		return nil, fmt.Errorf("read the stages of the earlier run: %w", err)
	}
	for _, row := range rows {
		if row.Status != status.StageCompleted {
			again = append(again, row.ComponentID)
		}
	}
	again = append(again, plan.After(again...)...)
	for _, row := range rows {
		if !slices.Contains(again, row.ComponentID) {
			kept = append(kept, row.ComponentID)
		}
	}
	return kept, nil
}

// takeOverEarlier takes what is complete over from the run that this one repeats.
func (f *fold) takeOverEarlier() error {
	if f.run.Status != status.RunCreated || len(f.run.RerunOf) == 0 {
		return nil
	}
	var origin Origin
	if err := json.Unmarshal(f.run.RerunOf, &origin); err != nil {
		return fmt.Errorf("read what is repeated: %w", err)
	}
	kept, err := Kept(f.ctx, f.tx, f.plan, f.run.WorkspaceID, origin)
	if err != nil || len(kept) == 0 {
		return err
	}
	for _, id := range kept {
		if _, m := f.plan.Component(id); m.Loop {
			kept = append(kept, f.plan.Below(id)...)
		}
	}
	row, err := db.New().StageCopyMany(f.ctx, f.tx, db.StageCopyManyParams{
		WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, EarlierRunID: origin.RunID, ComponentIds: kept,
	})
	if err != nil {
		return fmt.Errorf("take stages over: %w", err)
	}
	f.copied, f.changed = true, f.changed || row.Stages > 0
	f.run.StageCount += row.Stages
	f.run.FailedCount += row.Failed
	f.run.Output = row.Response
	f.gave(row.Bytes)
	f.taken = storage.Usage{Stages: int64(row.Stages), Bytes: row.Bytes}
	from, err := f.opened(row.ResponseID, row.Response)
	if err != nil || !from.secret {
		return err
	}
	return f.answer(from.output)
}
