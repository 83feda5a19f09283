package orchestrator

import (
	"cmp"
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

// reader collects queries, to run them in one round trip, and what to do with their rows.
type reader struct {
	batch   postgres.Batch
	answers []func() error
}

// ask adds a query. Once it has run, use is called for each of its rows.
func ask[T any](r *reader, sql string, params any, use func(row T) error) {
	rows := postgres.Returning[T](&r.batch, sql, params)
	r.answers = append(r.answers, func() error {
		for _, row := range rows.All() {
			if err := use(row); err != nil {
				return err
			}
		}
		return nil
	})
}

// read runs the queries of a reader.
func (a *advance) read(r *reader) error {
	if err := a.tx.Send(a.ctx, &r.batch); err != nil {
		return fmt.Errorf("read stages: %w", err)
	}
	for _, answer := range r.answers {
		if err := answer(); err != nil {
			return err
		}
	}
	return nil
}

// answer reads what the advance needs, in one round trip and those of child runs, and calls modules.
func (a *advance) answer(need engine.Need) (facts engine.Facts, err error) {
	facts = engine.Facts{
		States: map[engine.Place]map[string]graph.State{}, Outputs: map[engine.Place]engine.Value{}, Below: map[engine.Place][]engine.IterationValue{},
		Failed: map[engine.Place][][]int32{}, Failures: map[engine.Place][]engine.FailedStage{}, Items: map[uuid.UUID]engine.Items{}, First: map[uuid.UUID][]engine.FailedStage{}, Children: map[uuid.UUID]engine.Child{},
	}
	var r reader
	a.askStates(&r, need, &facts)
	a.askOutputs(&r, need, &facts)
	a.askIterations(&r, need, &facts)
	a.askLoops(&r, need, &facts)
	a.askAbove(&r, need, &facts)
	if err := a.read(&r); err != nil {
		return facts, err
	}
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

// askStates asks for the states of the components of scopes.
func (a *advance) askStates(r *reader, need engine.Need, facts *engine.Facts) {
	missing := map[engine.Place]bool{}
	for p := range need.States {
		for _, id := range a.Plan.Members(p.Component) {
			missing[engine.Place{Component: id, Iteration: p.Iteration}] = true
		}
	}
	if len(missing) == 0 {
		return
	}
	components, iterations := sortedPlaces(missing)
	p := db.StageListStatesParams{WorkspaceID: a.row.WorkspaceID, RunID: a.row.ID, ComponentIds: components, Iterations: iterations}
	ask(r, db.StageListStates, p, func(row db.StageListStatesRow) error {
		state := graph.State{Status: row.Status}
		if row.Port != nil {
			state.Port = *row.Port
		}
		scope := engine.PlaceOf(a.Plan.Loop(row.ComponentID), row.Iteration)
		if facts.States[scope] == nil {
			facts.States[scope] = map[string]graph.State{}
		}
		facts.States[scope][row.ComponentID] = state
		return nil
	})
}

// askOutputs asks for outputs of components. A stage whose execution or child run completed, and that
// completes in this advance, has no output yet: its output is read from the execution or child run.
func (a *advance) askOutputs(r *reader, need engine.Need, facts *engine.Facts) {
	if len(need.Outputs) == 0 {
		return
	}
	components, iterations := sortedPlaces(need.Outputs)
	p := db.StageListOutputsParams{WorkspaceID: a.row.WorkspaceID, RunID: a.row.ID, ComponentIds: components, Iterations: iterations}
	ask(r, db.StageListOutputs, p, func(row db.StageListOutputsRow) (err error) {
		facts.Outputs[engine.PlaceOf(row.ComponentID, row.Iteration)], err = a.open(row.Source, row.Output)
		return err
	})
	sources, ended := map[uuid.UUID]engine.Place{}, db.StageListEndedParams{WorkspaceID: a.row.WorkspaceID}
	for _, e := range a.Ends {
		switch place := engine.PlaceOf(e.ComponentID, e.Iteration); {
		case !need.Outputs[place] || e.Status != status.StageCompleted:
		case e.Child != uuid.Nil:
			ended.ChildRunIds, sources[e.Child] = append(ended.ChildRunIds, e.Child), place
		case e.Execution != uuid.Nil:
			ended.ExecutionIds, sources[e.Execution] = append(ended.ExecutionIds, e.Execution), place
		}
	}
	if len(sources) == 0 {
		return
	}
	ask(r, db.StageListEnded, ended, func(row db.StageListEndedRow) (err error) {
		facts.Outputs[sources[row.ID]], err = a.open(row.ID, row.Output)
		return err
	})
}

// askIterations asks for the outputs and the failures of components in all iterations that start with a
// prefix.
func (a *advance) askIterations(r *reader, need engine.Need, facts *engine.Facts) {
	for p := range need.Below {
		q := db.StageListCollectedParams{WorkspaceID: a.row.WorkspaceID, RunID: a.row.ID, ComponentID: p.Component, Prefix: p.Indexes()}
		ask(r, db.StageListCollected, q, func(row db.StageListCollectedRow) error {
			from, err := a.open(row.Source, row.Output)
			facts.Below[p] = append(facts.Below[p], engine.IterationValue{Iteration: row.Iteration, Value: from})
			return err
		})
	}
	for p := range need.Failures {
		q := db.StageListFailuresParams{WorkspaceID: a.row.WorkspaceID, RunID: a.row.ID, ComponentID: p.Component, Prefix: p.Indexes()}
		ask(r, db.StageListFailures, q, func(row db.StageListFailuresRow) error {
			facts.Failures[p] = append(facts.Failures[p], engine.FailedStage(row))
			return nil
		})
	}
	for p := range need.Failed {
		q := db.StageListFailedIterationsParams{WorkspaceID: a.row.WorkspaceID, RunID: a.row.ID, ComponentIds: []string{p.Component}, Prefix: p.Indexes()}
		ask(r, db.StageListFailedIterations, q, func(iteration []int32) error {
			facts.Failed[p] = append(facts.Failed[p], iteration)
			return nil
		})
	}
}

// askLoops asks for unfinished loops, for items of loops, which are cached, and for the first failed items.
func (a *advance) askLoops(r *reader, need engine.Need, facts *engine.Facts) {
	if len(need.Loops) > 0 {
		components, iterations := sortedPlaces(need.Loops)
		p := db.StageListLoopsParams{WorkspaceID: a.row.WorkspaceID, RunID: a.row.ID, ComponentIds: components, Iterations: iterations}
		ask(r, db.StageListLoops, p, func(row db.StageListLoopsRow) error {
			facts.Loops = append(facts.Loops, engine.StoredLoop(row))
			return nil
		})
	}
	for l := range need.Items {
		cached, known := a.o.cache.items(a.row.ID, l.ID)
		if known {
			facts.Items[l.ID] = cached
			continue
		}
		ask(r, db.StageGetItems, db.StageGetItemsParams{WorkspaceID: a.row.WorkspaceID, RunID: a.row.ID, ID: l.ID}, func(stored []byte) (err error) {
			if facts.Items[l.ID], err = a.openItems(l, stored); err != nil {
				return fmt.Errorf("read the items of a loop: %w", err)
			}
			return nil
		})
	}
	for l := range need.First {
		p := db.StageGetFirstFailedParams{WorkspaceID: a.row.WorkspaceID, RunID: a.row.ID, ComponentIds: engine.Failing(a.Plan, l.Component), Prefix: l.Indexes()}
		ask(r, db.StageGetFirstFailed, p, func(row db.StageGetFirstFailedRow) error {
			facts.First[l.ID] = append(facts.First[l.ID], engine.FailedStage(row))
			return nil
		})
	}
}

// askAbove asks for the ancestors of a child run, with the number of unfinished child runs in the
// workspace, and locks and asks for the ancestors that have a maxCredits.
func (a *advance) askAbove(r *reader, need engine.Need, facts *engine.Facts) {
	if need.Above {
		facts.Above = &engine.Above{}
		ask(r, db.RunGetAncestors, db.RunGetAncestorsParams{WorkspaceID: a.row.WorkspaceID, ID: a.row.ID, MaxDepth: engine.MaxDepth}, func(row db.RunGetAncestorsRow) error {
			facts.Above.Depth, facts.Above.Ending, facts.Above.Immediate = int(row.Depth), row.Ending, row.Immediate
			return nil
		})
		ask(r, db.RunCountChildren, db.RunCountChildrenParams{WorkspaceID: a.row.WorkspaceID, MaxRows: 2 * engine.MaxBelow}, func(count int64) error {
			facts.Above.Children = int(count)
			return nil
		})
	}
	if need.Limits {
		ask(r, db.RunLockAncestors, db.RunLockAncestorsParams{WorkspaceID: a.row.WorkspaceID, ID: a.row.ID, MaxDepth: engine.MaxDepth}, func(row db.RunLockAncestorsRow) error {
			facts.Limits, a.limits = append(facts.Limits, engine.Limit(row)), append(a.limits, row.ID)
			return nil
		})
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
		call, timeout := t.Call()
		start, r := time.Now(), engine.Result{}
		limit := min(cmp.Or(a.o.TimeLimit, maxCallTime), time.Until(a.until))
		if timeout > 0 {
			limit = min(limit, timeout)
		}
		if limit > 0 {
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
