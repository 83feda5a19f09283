package orchestrator

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/vault"
)

// answer reads what the fold needs, in one round trip and those of child runs, and computes stages.
func (f *fold) answer() error {
	var batch postgres.Batch
	answers := []func() error{
		f.askStates(&batch), f.askLoops(&batch), f.askOutputs(&batch), f.askBelow(&batch), f.askFailed(&batch), f.askItems(&batch), f.askFirst(&batch), f.askAbove(&batch), f.askLimits(&batch),
	}
	if err := f.tx.Send(f.ctx, &batch); err != nil {
		return fmt.Errorf("read stages: %w", err)
	}
	for _, answer := range answers {
		if err := answer(); err != nil {
			return err
		}
	}
	for _, t := range f.need.children {
		if err := f.prepareChild(t); err != nil {
			return err
		}
	}
	return f.compute()
}

// askAbove asks for the ancestors of a child run and the number of unfinished child runs in the
// workspace.
func (f *fold) askAbove(batch *postgres.Batch) func() error {
	if !f.need.above {
		return nothing
	}
	above := postgres.Returning[db.RunGetAncestorsRow](batch, db.RunGetAncestors, db.RunGetAncestorsParams{WorkspaceID: f.run.WorkspaceID, ID: f.run.ID, MaxDepth: maxDepth})
	children := postgres.Returning[int64](batch, db.RunCountChildren, db.RunCountChildrenParams{WorkspaceID: f.run.WorkspaceID, MaxRows: 2 * maxBelow})
	return func() (err error) {
		row, err := above.One()
		if err == nil {
			f.above = &row
			f.childRuns, err = children.One()
		}
		return err
	}
}

// askLimits locks the ancestors that have a maxCredits, and asks for them.
func (f *fold) askLimits(batch *postgres.Batch) func() error {
	if !f.need.limits {
		return nothing
	}
	rows := postgres.Returning[db.RunLockAncestorsRow](batch, db.RunLockAncestors, db.RunLockAncestorsParams{WorkspaceID: f.run.WorkspaceID, ID: f.run.ID, MaxDepth: maxDepth})
	return func() error {
		f.limited = rows.All()
		return nil
	}
}

// askStates asks for the states of the components of scopes.
func (f *fold) askStates(batch *postgres.Batch) func() error {
	var missing []place
	for sc := range f.need.scopes {
		for _, id := range f.plan.Members(sc.component) {
			missing = append(missing, placeOf(id, sc.iteration))
		}
	}
	if len(missing) == 0 {
		return nothing
	}
	components, iterations := sortedPlaces(missing)
	rows := postgres.Returning[db.StageListStatesRow](batch, db.StageListStates, db.StageListStatesParams{
		WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, ComponentIds: components, Iterations: iterations,
	})
	return func() error {
		stored := map[place]map[string]graph.State{}
		for _, row := range rows.All() {
			state := graph.State{Status: row.Status}
			if row.Port != nil {
				state.Port = *row.Port
			}
			sc := f.scopeOf(row.ComponentID, row.Iteration)
			if stored[sc.place] == nil {
				stored[sc.place] = map[string]graph.State{}
			}
			stored[sc.place][row.ComponentID] = state
		}
		for sc := range f.need.scopes {
			f.setStates(sc, stored[sc.place])
		}
		return nil
	}
}

func nothing() error { return nil }

// askLoops asks for unfinished loops.
func (f *fold) askLoops(batch *postgres.Batch) func() error {
	if len(f.need.loops) == 0 {
		return nothing
	}
	components, iterations := sortedPlaces(slices.Collect(maps.Keys(f.need.loops)))
	rows := postgres.Returning[db.StageListLoopsRow](batch, db.StageListLoops, db.StageListLoopsParams{
		WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, ComponentIds: components, Iterations: iterations,
	})
	return func() error {
		for p := range f.need.loops {
			f.loops[p] = nil
		}
		for _, row := range rows.All() {
			l := &loop{
				id: row.ID, componentID: row.ComponentID, iteration: row.Iteration,
				count: row.ItemCount, next: row.NextItem, live: row.LiveItems, failed: row.FailedItems,
			}
			if err := f.addLoop(l, &row.StartedAt); err != nil {
				return err
			}
		}
		return nil
	}
}

// askOutputs asks for outputs of components. A stage whose execution or child run completed, and that
// completes in this fold, has no output yet: its output is read from the execution or child run.
func (f *fold) askOutputs(batch *postgres.Batch) func() error {
	if len(f.need.outputs) == 0 {
		return nothing
	}
	components, iterations := sortedPlaces(slices.Collect(maps.Keys(f.need.outputs)))
	stored := postgres.Returning[db.StageListOutputsRow](batch, db.StageListOutputs, db.StageListOutputsParams{
		WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, ComponentIds: components, Iterations: iterations,
	})
	sources, p := map[uuid.UUID]end{}, db.StageListEndedParams{WorkspaceID: f.run.WorkspaceID}
	for _, e := range f.ends {
		switch {
		case !f.need.outputs[placeOf(e.componentID, e.iteration)] || e.status != status.StageCompleted:
		case e.child != uuid.Nil:
			p.ChildRunIds, sources[e.child] = append(p.ChildRunIds, e.child), e
		case e.execution != uuid.Nil:
			p.ExecutionIds, sources[e.execution] = append(p.ExecutionIds, e.execution), e
		}
	}
	ended := &postgres.Rows[db.StageListEndedRow]{}
	if len(sources) > 0 {
		ended = postgres.Returning[db.StageListEndedRow](batch, db.StageListEnded, p)
	}
	return func() (err error) {
		for p := range f.need.outputs {
			f.values[p] = outputValue{}
		}
		for _, row := range stored.All() {
			if f.values[placeOf(row.ComponentID, row.Iteration)], err = f.open(row.Source, row.Output); err != nil {
				return err
			}
		}
		if len(sources) == 0 {
			return nil
		}
		for _, row := range ended.All() {
			e := sources[row.ID]
			if f.values[placeOf(e.componentID, e.iteration)], err = f.open(row.ID, row.Output); err != nil {
				return err
			}
		}
		return nil
	}
}

// askBelow asks for the outputs of components in all iterations that start with a prefix.
func (f *fold) askBelow(batch *postgres.Batch) func() error {
	asked := map[place]*postgres.Rows[db.StageListCollectedRow]{}
	for p := range f.need.below {
		asked[p] = postgres.Returning[db.StageListCollectedRow](batch, db.StageListCollected, db.StageListCollectedParams{
			WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, ComponentID: p.component, Prefix: p.indexes(),
		})
	}
	return func() error {
		for p, rows := range asked {
			f.below[p] = []iterationOutput{}
			for _, row := range rows.All() {
				from, err := f.open(row.Source, row.Output)
				if err != nil {
					return err
				}
				f.below[p] = append(f.below[p], iterationOutput{row.Iteration, from})
			}
		}
		return nil
	}
}

// askFailed asks for the iterations in which components failed.
func (f *fold) askFailed(batch *postgres.Batch) func() error {
	asked := map[place]*postgres.Rows[[]int32]{}
	for p := range f.need.failed {
		asked[p] = postgres.Returning[[]int32](batch, db.StageListFailedIterations, db.StageListFailedIterationsParams{
			WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, ComponentIds: []string{p.component}, Prefix: p.indexes(),
		})
	}
	return func() error {
		for p, rows := range asked {
			f.failedBelow[p] = rows.All()
		}
		return nil
	}
}

// askItems asks for the items of loops, which are cached.
func (f *fold) askItems(batch *postgres.Batch) func() error {
	asked := map[*loop]*postgres.Rows[[]byte]{}
	for l := range f.need.items {
		if cached, ok := f.engine.items.get(l.id); ok {
			f.items[l.id] = cached
			continue
		}
		asked[l] = postgres.Returning[[]byte](batch, db.StageGetItems, db.StageGetItemsParams{WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, ID: l.id})
	}
	return func() error {
		for l, rows := range asked {
			raw, err := rows.One()
			if err == nil {
				err = f.openItems(l, raw)
			}
			if err != nil {
				return fmt.Errorf("read the items of a loop: %w", err)
			}
		}
		return nil
	}
}

// openItems decrypts and decodes the items of a loop.
func (f *fold) openItems(l *loop, stored json.RawMessage) error {
	raw, err := f.engine.Vault.OpenJSON(f.ctx, f.vaultPlace(l.id, vault.Items), stored)
	if err == nil {
		raw, err = f.readItems(l.componentID, raw)
	}
	if err != nil {
		return err
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return err
	}
	f.items[l.id] = f.engine.items.put(f.run.ID, l.id, items, vault.Sealed(stored), len(raw))
	return nil
}

// askFirst asks for the first failed items of loops.
func (f *fold) askFirst(batch *postgres.Batch) func() error {
	asked := map[*loop]*postgres.Rows[db.StageGetFirstFailedRow]{}
	for l := range f.need.first {
		asked[l] = postgres.Returning[db.StageGetFirstFailedRow](batch, db.StageGetFirstFailed, db.StageGetFirstFailedParams{
			WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, ComponentIds: f.failing(l.componentID), Prefix: l.iteration,
		})
	}
	return func() error {
		for l, rows := range asked {
			l.firstFailed = rows.All()
		}
		return nil
	}
}
