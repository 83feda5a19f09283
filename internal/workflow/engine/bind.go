package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/vault"
)

// readSources reads, in one query, the outputs that the ready components of these scopes need.
func (f *fold) readSources(round []*scope) error {
	var missing []place
	for _, sc := range round {
		if sc.over || f.stopped(sc) {
			continue
		}
		for _, id := range f.plan.Next(sc.component, sc.states).Ready {
			for _, source := range f.plan.Sources(id) {
				p := placeOf(source.From, sc.iteration[:min(source.Depth, len(sc.iteration))])
				if _, known := f.values[p]; !known && !source.Item && source.Collected == 0 {
					missing = append(missing, p)
					f.values[p] = outputValue{} // read a missing output only once
				}
			}
		}
	}
	return f.readOutputs(missing)
}

// readOutputs reads outputs into values.
func (f *fold) readOutputs(missing []place) error {
	if len(missing) == 0 {
		return nil
	}
	components, iterations := sortedPlaces(missing)
	var batch postgres.Batch
	stored := postgres.Returning[db.StageListOutputsRow](&batch, db.StageListOutputs, db.StageListOutputsParams{
		WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, ComponentIds: components, Iterations: iterations,
	})
	ended := f.queueEnded(&batch, func(e end) bool { return slices.Contains(missing, placeOf(e.componentID, e.iteration)) })
	if err := f.tx.Send(f.ctx, &batch); err != nil {
		return fmt.Errorf("read outputs: %w", err)
	}
	add := func(componentID string, iteration []int32, source uuid.UUID, output json.RawMessage) error {
		from, err := f.open(source, output)
		f.values[placeOf(componentID, iteration)] = from
		return err
	}
	for _, row := range stored.All() {
		if err := add(row.ComponentID, row.Iteration, row.Source, row.Output); err != nil {
			return err
		}
	}
	return ended.each(func(e end, row db.StageListEndedRow) error {
		return add(e.componentID, e.iteration, row.ID, row.Output)
	})
}

// ended are the outputs of executions and child runs whose stages end in this fold, so that their
// stages have no output yet.
type ended struct {
	rows *postgres.Rows[db.StageListEndedRow] // nil: none
	ends map[uuid.UUID]end                    // by execution or child run
}

// queueEnded queues reading the outputs of stages that completed in this fold.
func (f *fold) queueEnded(batch *postgres.Batch, wanted func(end) bool) ended {
	all, p := ended{ends: map[uuid.UUID]end{}}, db.StageListEndedParams{WorkspaceID: f.run.WorkspaceID}
	for _, e := range f.ends {
		switch {
		case e.status != status.StageCompleted || len(e.output) > 0 || !wanted(e):
		case e.child != uuid.Nil:
			p.ChildRunIds, all.ends[e.child] = append(p.ChildRunIds, e.child), e
		default:
			p.ExecutionIds, all.ends[e.execution] = append(p.ExecutionIds, e.execution), e
		}
	}
	if len(all.ends) > 0 {
		all.rows = postgres.Returning[db.StageListEndedRow](batch, db.StageListEnded, p)
	}
	return all
}

// each calls f for each output that was read, until f fails.
func (d ended) each(f func(end, db.StageListEndedRow) error) error {
	if d.rows == nil {
		return nil
	}
	for _, row := range d.rows.All() {
		if err := f(d.ends[row.ID], row); err != nil {
			return err
		}
	}
	return nil
}

// outputValue is an output that was read or computed. If it is stored sealed, all of it is secret.
type outputValue struct {
	output json.RawMessage
	secret bool
}

// open decrypts a stored output if it is sealed. source is the row that the output is bound to.
func (f *fold) open(source uuid.UUID, stored json.RawMessage) (outputValue, error) {
	output, err := f.engine.Vault.OpenJSON(f.ctx, f.vaultPlace(source, vault.Output), stored)
	if err != nil {
		return outputValue{}, fmt.Errorf("read outputs: %w", err)
	}
	return outputValue{output, vault.Sealed(stored)}, nil
}

// binding collects facts about the connections of a component while its input is bound.
type binding struct {
	read   int      // bytes of outputs that were searched
	secret bool     // a connection carries a secret
	texts  []string // strings in the secret values
}

// add records a value that a connection carries.
func (b *binding) add(value json.RawMessage, secret bool) {
	if secret {
		b.secret = true
		b.texts = append(b.texts, component.Texts(value)...)
	}
}

// maxRead limits the bytes of outputs that the connections into one component search. An output
// counts once for each step of a connection's path.
const maxRead = 1 << 30

// bind returns the input of a component in a scope. It returns a *graph.BindError if a value does
// not fit, and a *fault.Error if the connections search too many bytes.
func (f *fold) bind(sc *scope, c graph.Component) (json.RawMessage, error) {
	sources := f.plan.Sources(c.ID)
	f.binding = binding{}
	values := make([]graph.Bound, len(sources))
	for i, source := range sources {
		value, err := f.value(sc, source)
		if err != nil {
			return nil, err
		}
		values[i] = graph.Bound{Source: source, Value: value}
	}
	return graph.Bind(c.Input, values)
}

// value returns the value that a connection carries into a scope, or nil if it carries none.
func (f *fold) value(sc *scope, source graph.Source) (json.RawMessage, error) {
	shared := sc.iteration[:min(source.Depth, len(sc.iteration))]
	var from outputValue
	switch {
	case source.Item:
		item, err := f.item(sc, source, shared)
		if err != nil {
			return nil, err
		}
		from = item
	case source.Collected > 0:
		all, err := f.collected(source, shared)
		f.binding.add(all.output, all.secret)
		return all.output, err
	default:
		p := placeOf(source.From, shared)
		if _, known := f.values[p]; !known { // the component became ready after readSources
			f.values[p] = outputValue{}
			if err := f.readOutputs([]place{p}); err != nil {
				return nil, err
			}
		}
		from = f.values[p]
	}
	value, _, err := f.selectPath(from.output, source.Path)
	f.binding.add(value, from.secret)
	return value, err
}

// selectPath returns the value at a path in an output, and whether the value exists. It returns a
// *fault.Error if the binding has searched too many bytes.
func (f *fold) selectPath(output json.RawMessage, path string) (value json.RawMessage, ok bool, err error) {
	if f.binding.read += len(output) * (2 + strings.Count(path, ".")); f.binding.read > maxRead {
		return nil, false, fault.New(fault.InvalidInput, "The connections into this component search more than 1 GiB of outputs.")
	}
	value, ok = graph.Select(output, path)
	return value, ok, nil
}

// item returns the output of a loop for one iteration (decisions 8.5).
func (f *fold) item(sc *scope, source graph.Source, shared []int32) (outputValue, error) {
	l := f.loops[placeOf(source.From, shared)]
	if l == nil || len(sc.iteration) <= len(shared) {
		return outputValue{}, nil
	}
	items, secret, err := f.itemsOf(l)
	if err != nil {
		return outputValue{}, err
	}
	index := int(sc.iteration[len(shared)])
	output, err := strictjson.Encode(map[string]json.RawMessage{
		graph.OutputItem: items[index], graph.OutputIndex: json.RawMessage(strconv.Itoa(index)),
	})
	if err != nil {
		return outputValue{}, fmt.Errorf("encode an item: %w", err)
	}
	return outputValue{output, secret}, nil
}

// collected returns the values of all iterations, in the order of the items. An iteration without
// a value has null. A failed iteration has null too: which of its stages had run by then depends
// on timing. If the loop did not complete, collected returns nothing.
func (f *fold) collected(source graph.Source, shared []int32) (all outputValue, err error) {
	found := map[string]json.RawMessage{}
	rows, err := f.outputsBelow(source.From, shared)
	if err != nil {
		return all, err
	}
	for _, row := range rows {
		value, ok, err := f.selectPath(row.output, source.Path)
		if err != nil {
			return all, err
		}
		if ok {
			found[pgArray(row.iteration)] = value
			all.secret = all.secret || row.secret
		}
	}
	counts, failedItems, err := f.itemCounts(source, shared)
	if err != nil {
		return all, err
	}
	if _, completed := counts[pgArray(shared)]; !completed {
		return outputValue{}, nil
	}
	var gather func(iteration []int32, left int) any
	gather = func(iteration []int32, left int) any {
		if left == 0 {
			return found[pgArray(iteration)]
		}
		count, completed := counts[pgArray(iteration)]
		if !completed {
			return nil
		}
		all := make([]any, count)
		for i := range all {
			if item := append(slices.Clone(iteration), int32(i)); !failedItems[pgArray(item)] {
				all[i] = gather(item, left-1)
			}
		}
		return all
	}
	all.output, err = strictjson.Encode(gather(slices.Clone(shared), source.Collected))
	return all, err
}

// iterationOutput is the output of a component in an iteration.
type iterationOutput struct {
	iteration []int32
	outputValue
}

// outputsBelow returns the outputs of a component in all iterations that start with prefix.
func (f *fold) outputsBelow(componentID string, prefix []int32) (all []iterationOutput, err error) {
	below := func(id string, iteration []int32) bool {
		return id == componentID && len(iteration) >= len(prefix) && slices.Equal(iteration[:len(prefix)], prefix)
	}
	var batch postgres.Batch
	stored := postgres.Returning[db.StageListCollectedRow](&batch, db.StageListCollected, db.StageListCollectedParams{
		WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, ComponentID: componentID, Prefix: prefix,
	})
	ended := f.queueEnded(&batch, func(e end) bool { return below(e.componentID, e.iteration) })
	if err := f.tx.Send(f.ctx, &batch); err != nil {
		return nil, fmt.Errorf("read the outputs of iterations: %w", err)
	}
	add := func(iteration []int32, source uuid.UUID, output json.RawMessage) error {
		from, err := f.open(source, output)
		all = append(all, iterationOutput{iteration, from})
		return err
	}
	for _, row := range stored.All() {
		if err := add(row.Iteration, row.Source, row.Output); err != nil {
			return nil, err
		}
	}
	if err := ended.each(func(e end, row db.StageListEndedRow) error { return add(e.iteration, row.ID, row.Output) }); err != nil {
		return nil, err
	}
	for _, e := range f.ends {
		if e.status == status.StageCompleted && len(e.output) > 0 && below(e.componentID, e.iteration) {
			all = append(all, iterationOutput{e.iteration, outputValue{e.output, e.secret}})
		}
	}
	for _, t := range f.made {
		if t.status == status.StageCompleted && !t.dropped && below(t.component.ID, t.iteration) {
			all = append(all, iterationOutput{t.iteration, outputValue{t.output, t.secret}})
		}
	}
	for _, l := range f.finishedLoops {
		if below(l.componentID, l.iteration) {
			all = append(all, iterationOutput{l.iteration, outputValue{output: l.result.output}})
		}
	}
	return all, nil
}

// itemCounts returns the number of items of the loops that a value leaves, by the iteration in
// which each loop ran. It also returns the items that failed.
func (f *fold) itemCounts(source graph.Source, shared []int32) (counts map[string]int, failedItems map[string]bool, err error) {
	counts = map[string]int{}
	var failing []string // components that can fail an item
	loop := f.plan.Loop(source.From)
	for range source.Collected {
		rows, err := f.outputsBelow(loop, shared)
		if err != nil {
			return nil, nil, err
		}
		failed := 0
		for _, row := range rows {
			var output struct{ Count, FailedItems int }
			if json.Unmarshal(row.output, &output) == nil {
				counts[pgArray(row.iteration)] = output.Count
				failed += output.FailedItems
			}
		}
		for _, id := range f.plan.Members(loop) {
			if failed > 0 && !f.plan.Handles(id) {
				failing = append(failing, id)
			}
		}
		loop = f.plan.Loop(loop)
	}
	failedItems, err = f.failedIterations(failing, shared)
	return counts, failedItems, err
}

// failedIterations returns the iterations that start with prefix and in which one of the
// components failed.
func (f *fold) failedIterations(components []string, prefix []int32) (map[string]bool, error) {
	failed := map[string]bool{}
	if len(components) == 0 {
		return failed, nil
	}
	rows, err := db.New().StageListFailedIterations(f.ctx, f.tx, db.StageListFailedIterationsParams{
		WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, ComponentIds: components, Prefix: prefix,
	})
	if err != nil {
		return nil, fmt.Errorf("read failed iterations: %w", err)
	}
	for _, t := range f.made {
		if slices.Contains(components, t.component.ID) && t.status == status.StageFailed {
			rows = append(rows, t.iteration)
		}
	}
	for _, e := range f.ends {
		if slices.Contains(components, e.componentID) && e.status == status.StageFailed {
			rows = append(rows, e.iteration)
		}
	}
	for _, l := range f.finishedLoops {
		if slices.Contains(components, l.componentID) && l.result.status == status.StageFailed {
			rows = append(rows, l.iteration)
		}
	}
	for _, iteration := range rows {
		failed[pgArray(iteration)] = true
	}
	return failed, nil
}
