package orchestrator

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// answer reads what the advance needs, in one round trip and those of child runs, and calls modules.
func (a *advance) answer(need engine.Need) (facts engine.Facts, err error) {
	var batch postgres.Batch
	answers := []func() error{
		a.askStates(&batch, need, &facts), a.askLoops(&batch, need, &facts), a.askOutputs(&batch, need, &facts), a.askBelow(&batch, need, &facts), a.askFailed(&batch, need, &facts),
		a.askItems(&batch, need, &facts), a.askFirst(&batch, need, &facts), a.askAbove(&batch, need, &facts), a.askLimits(&batch, need, &facts),
	}
	if err := a.tx.Send(a.ctx, &batch); err != nil {
		return facts, fmt.Errorf("read stages: %w", err)
	}
	for _, answer := range answers {
		if err := answer(); err != nil {
			return facts, err
		}
	}
	facts.Children = map[uuid.UUID]engine.Child{}
	for _, t := range need.Children {
		if facts.Children[t.ID], err = a.prepareChild(t); err != nil {
			return facts, err
		}
	}
	if need.Refusal > 0 {
		facts.Refusal = withCode(a.budget.Refusal(a.ctx, a.tx, a.row.WorkspaceID, need.Refusal))
	}
	if facts.Results, err = a.call(need); err != nil {
		return facts, err
	}
	facts.Stop = time.Now().After(a.until)
	return facts, nil
}

func nothing() error { return nil }

// askStates asks for the states of the components of scopes.
func (a *advance) askStates(batch *postgres.Batch, need engine.Need, facts *engine.Facts) func() error {
	missing := map[engine.Place]bool{}
	for p := range need.States {
		for _, id := range a.Plan.Members(p.Component) {
			missing[engine.Place{Component: id, Iteration: p.Iteration}] = true
		}
	}
	if len(missing) == 0 {
		return nothing
	}
	components, iterations := sortedPlaces(missing)
	rows := postgres.Returning[db.StageListStatesRow](batch, db.StageListStates, db.StageListStatesParams{
		WorkspaceID: a.row.WorkspaceID, RunID: a.row.ID, ComponentIds: components, Iterations: iterations,
	})
	return func() error {
		facts.States = map[engine.Place]map[string]graph.State{}
		for _, row := range rows.All() {
			state := graph.State{Status: row.Status}
			if row.Port != nil {
				state.Port = *row.Port
			}
			scope := engine.PlaceOf(a.Plan.Loop(row.ComponentID), row.Iteration)
			if facts.States[scope] == nil {
				facts.States[scope] = map[string]graph.State{}
			}
			facts.States[scope][row.ComponentID] = state
		}
		return nil
	}
}

// askLoops asks for unfinished loops.
func (a *advance) askLoops(batch *postgres.Batch, need engine.Need, facts *engine.Facts) func() error {
	if len(need.Loops) == 0 {
		return nothing
	}
	components, iterations := sortedPlaces(need.Loops)
	rows := postgres.Returning[db.StageListLoopsRow](batch, db.StageListLoops, db.StageListLoopsParams{
		WorkspaceID: a.row.WorkspaceID, RunID: a.row.ID, ComponentIds: components, Iterations: iterations,
	})
	return func() error {
		for _, row := range rows.All() {
			facts.Loops = append(facts.Loops, engine.StoredLoop(row))
		}
		return nil
	}
}

// askOutputs asks for outputs of components. A stage whose execution or child run completed, and that
// completes in this advance, has no output yet: its output is read from the execution or child run.
func (a *advance) askOutputs(batch *postgres.Batch, need engine.Need, facts *engine.Facts) func() error {
	if len(need.Outputs) == 0 {
		return nothing
	}
	components, iterations := sortedPlaces(need.Outputs)
	stored := postgres.Returning[db.StageListOutputsRow](batch, db.StageListOutputs, db.StageListOutputsParams{
		WorkspaceID: a.row.WorkspaceID, RunID: a.row.ID, ComponentIds: components, Iterations: iterations,
	})
	sources, p := map[uuid.UUID]engine.Place{}, db.StageListEndedParams{WorkspaceID: a.row.WorkspaceID}
	for _, e := range a.Ends {
		switch place := engine.PlaceOf(e.ComponentID, e.Iteration); {
		case !need.Outputs[place] || e.Status != status.StageCompleted:
		case e.Child != uuid.Nil:
			p.ChildRunIds, sources[e.Child] = append(p.ChildRunIds, e.Child), place
		case e.Execution != uuid.Nil:
			p.ExecutionIds, sources[e.Execution] = append(p.ExecutionIds, e.Execution), place
		}
	}
	var ended *postgres.Rows[db.StageListEndedRow]
	if len(sources) > 0 {
		ended = postgres.Returning[db.StageListEndedRow](batch, db.StageListEnded, p)
	}
	return func() (err error) {
		facts.Outputs = map[engine.Place]engine.Value{}
		for _, row := range stored.All() {
			if facts.Outputs[engine.PlaceOf(row.ComponentID, row.Iteration)], err = a.open(row.Source, row.Output); err != nil {
				return err
			}
		}
		if ended == nil {
			return nil
		}
		for _, row := range ended.All() {
			if facts.Outputs[sources[row.ID]], err = a.open(row.ID, row.Output); err != nil {
				return err
			}
		}
		return nil
	}
}

// askBelow asks for the outputs of components in all iterations that start with a prefix.
func (a *advance) askBelow(batch *postgres.Batch, need engine.Need, facts *engine.Facts) func() error {
	asked := map[engine.Place]*postgres.Rows[db.StageListCollectedRow]{}
	for p := range need.Below {
		asked[p] = postgres.Returning[db.StageListCollectedRow](batch, db.StageListCollected, db.StageListCollectedParams{
			WorkspaceID: a.row.WorkspaceID, RunID: a.row.ID, ComponentID: p.Component, Prefix: p.Indexes(),
		})
	}
	return func() error {
		facts.Below = map[engine.Place][]engine.IterationValue{}
		for p, rows := range asked {
			for _, row := range rows.All() {
				from, err := a.open(row.Source, row.Output)
				if err != nil {
					return err
				}
				facts.Below[p] = append(facts.Below[p], engine.IterationValue{Iteration: row.Iteration, Value: from})
			}
		}
		return nil
	}
}

// askFailed asks for the iterations in which components failed.
func (a *advance) askFailed(batch *postgres.Batch, need engine.Need, facts *engine.Facts) func() error {
	asked := map[engine.Place]*postgres.Rows[[]int32]{}
	for p := range need.Failed {
		asked[p] = postgres.Returning[[]int32](batch, db.StageListFailedIterations, db.StageListFailedIterationsParams{
			WorkspaceID: a.row.WorkspaceID, RunID: a.row.ID, ComponentIds: []string{p.Component}, Prefix: p.Indexes(),
		})
	}
	return func() error {
		facts.Failed = map[engine.Place][][]int32{}
		for p, rows := range asked {
			facts.Failed[p] = rows.All()
		}
		return nil
	}
}

// askItems asks for the items of loops, which are cached.
func (a *advance) askItems(batch *postgres.Batch, need engine.Need, facts *engine.Facts) func() error {
	facts.Items = map[uuid.UUID]engine.Items{}
	asked := map[engine.Loop]*postgres.Rows[[]byte]{}
	for l := range need.Items {
		cached, known := a.o.items.get(l.ID)
		if known {
			facts.Items[l.ID] = cached
			continue
		}
		asked[l] = postgres.Returning[[]byte](batch, db.StageGetItems, db.StageGetItemsParams{WorkspaceID: a.row.WorkspaceID, RunID: a.row.ID, ID: l.ID})
	}
	return func() error {
		for l, rows := range asked {
			stored, err := rows.One()
			if err == nil {
				facts.Items[l.ID], err = a.openItems(l, stored)
			}
			if err != nil {
				return fmt.Errorf("read the items of a loop: %w", err)
			}
		}
		return nil
	}
}

// askFirst asks for the first failed items of loops.
func (a *advance) askFirst(batch *postgres.Batch, need engine.Need, facts *engine.Facts) func() error {
	asked := map[uuid.UUID]*postgres.Rows[db.StageGetFirstFailedRow]{}
	for l := range need.First {
		asked[l.ID] = postgres.Returning[db.StageGetFirstFailedRow](batch, db.StageGetFirstFailed, db.StageGetFirstFailedParams{
			WorkspaceID: a.row.WorkspaceID, RunID: a.row.ID, ComponentIds: engine.Failing(a.Plan, l.Component), Prefix: l.Indexes(),
		})
	}
	return func() error {
		facts.First = map[uuid.UUID][]engine.FailedStage{}
		for id, rows := range asked {
			for _, row := range rows.All() {
				facts.First[id] = append(facts.First[id], engine.FailedStage(row))
			}
		}
		return nil
	}
}

// askAbove asks for the ancestors of a child run and the number of unfinished child runs in the
// workspace.
func (a *advance) askAbove(batch *postgres.Batch, need engine.Need, facts *engine.Facts) func() error {
	if !need.Above {
		return nothing
	}
	above := postgres.Returning[db.RunGetAncestorsRow](batch, db.RunGetAncestors, db.RunGetAncestorsParams{WorkspaceID: a.row.WorkspaceID, ID: a.row.ID, MaxDepth: engine.MaxDepth})
	children := postgres.Returning[int64](batch, db.RunCountChildren, db.RunCountChildrenParams{WorkspaceID: a.row.WorkspaceID, MaxRows: 2 * engine.MaxBelow})
	return func() error {
		row, err := above.One()
		if err != nil {
			return err
		}
		count, err := children.One()
		facts.Above = &engine.Above{Depth: int(row.Depth), Ending: row.Ending, Immediate: row.Immediate, Children: int(count)}
		return err
	}
}

// askLimits locks the ancestors that have a maxCredits, and asks for them.
func (a *advance) askLimits(batch *postgres.Batch, need engine.Need, facts *engine.Facts) func() error {
	if !need.Limits {
		return nothing
	}
	rows := postgres.Returning[db.RunLockAncestorsRow](batch, db.RunLockAncestors, db.RunLockAncestorsParams{WorkspaceID: a.row.WorkspaceID, ID: a.row.ID, MaxDepth: engine.MaxDepth})
	return func() error {
		for _, row := range rows.All() {
			facts.Limits, a.limits = append(facts.Limits, engine.Limit(row)), append(a.limits, row.ID)
		}
		return nil
	}
}

// call calls the modules of stages, until the time is up or the results have need.Bytes. The results of
// stages that cannot wait are always computed: the engine limits their number.
func (a *advance) call(need engine.Need) (map[uuid.UUID]engine.Result, error) {
	results, size := map[uuid.UUID]engine.Result{}, int64(0)
	for _, t := range need.Calls {
		if t.CanWait() && len(results) > 0 && (size >= need.Bytes || time.Now().After(a.until)) {
			continue
		}
		call, limit := t.Call()
		start, r := time.Now(), engine.Result{}
		if limit = min(limit, time.Until(a.until)); limit > 0 {
			r.Result, r.InTime, r.Err = a.o.Modules.Try(a.ctx, a.row.WorkspaceID, t.Component.Module, call, limit)
		}
		if err := a.ctx.Err(); err != nil && !r.InTime {
			return nil, err
		}
		r.Elapsed = max(time.Since(start), 1)
		if failure, failed := errors.AsType[*component.Error](r.Err); failed && failure.Err != nil {
			a.o.Log.WarnContext(a.ctx, "computed stage failed", "run_id", a.row.ID.String(), "module", t.Component.Module, "code", failure.Code, "error", failure.Err)
		}
		results[t.ID], size = r, size+int64(len(r.Output))
	}
	return results, nil
}
