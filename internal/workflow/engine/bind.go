package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/secret/vault"
)

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
func (f *fold) bind(sc *scope, c graph.Component) (input json.RawMessage, b binding, err error) {
	sources := f.plan.Sources(c.ID)
	values := make([]graph.Bound, len(sources))
	for i, source := range sources {
		value, err := f.value(sc, source, &b)
		if err != nil {
			return nil, b, err
		}
		values[i] = graph.Bound{Source: source, Value: value}
	}
	input, err = graph.Bind(c.Input, values)
	return input, b, err
}

// value returns the value that a connection carries into a scope, or nil if it carries none.
func (f *fold) value(sc *scope, source graph.Source, b *binding) (json.RawMessage, error) {
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
		all, err := f.collected(source, shared, b)
		b.add(all.output, all.secret)
		return all.output, err
	default:
		from = f.values[placeOf(source.From, shared)]
	}
	value, _, err := b.selectPath(from.output, source.Path)
	b.add(value, from.secret)
	return value, err
}

// selectPath returns the value at a path in an output, and whether the value exists. It returns a
// *fault.Error if the binding has searched too many bytes.
func (b *binding) selectPath(output json.RawMessage, path string) (value json.RawMessage, ok bool, err error) {
	if b.read += len(output) * (2 + strings.Count(path, ".")); b.read > maxRead {
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
	of := f.items[l.id]
	index := int(sc.iteration[len(shared)])
	output, err := strictjson.Encode(map[string]json.RawMessage{
		graph.OutputItem: of.items[index], graph.OutputIndex: json.RawMessage(strconv.Itoa(index)),
	})
	if err != nil {
		return outputValue{}, fmt.Errorf("encode an item: %w", err)
	}
	return outputValue{output, of.secret}, nil
}

// collected returns the values of all iterations, in the order of the items. An iteration without
// a value has null. A failed iteration has null too: which of its stages had run by then depends
// on timing. If the loop did not complete, collected returns nothing.
func (f *fold) collected(source graph.Source, shared []int32, b *binding) (all outputValue, err error) {
	found := map[string]json.RawMessage{}
	for _, row := range f.outputsBelow(source.From, shared) {
		value, ok, err := b.selectPath(row.output, source.Path)
		if err != nil {
			return all, err
		}
		if ok {
			found[pgArray(row.iteration)] = value
			all.secret = all.secret || row.secret
		}
	}
	counts, failing := f.itemCounts(source, shared)
	failedItems := f.failedIterations(failing, shared)
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
func (f *fold) outputsBelow(componentID string, prefix []int32) []iterationOutput {
	all := slices.Clone(f.below[placeOf(componentID, prefix)])
	for _, e := range f.ends {
		if e.status == status.StageCompleted && isBelow(e.componentID, e.iteration, componentID, prefix) {
			all = append(all, iterationOutput{e.iteration, f.values[placeOf(e.componentID, e.iteration)]})
		}
	}
	for _, t := range f.made {
		if t.status == status.StageCompleted && !t.dropped && isBelow(t.component.ID, t.iteration, componentID, prefix) {
			all = append(all, iterationOutput{t.iteration, outputValue{t.output, t.secret}})
		}
	}
	for _, l := range f.finishedLoops {
		if isBelow(l.componentID, l.iteration, componentID, prefix) {
			all = append(all, iterationOutput{l.iteration, outputValue{output: l.result.output}})
		}
	}
	return all
}

// itemCounts returns the number of items of the loops that a value leaves, by the iteration in
// which each loop ran. If items failed, it also returns the components that can fail an item.
func (f *fold) itemCounts(source graph.Source, shared []int32) (counts map[string]int, failing []string) {
	counts = map[string]int{}
	loop := f.plan.Loop(source.From)
	for range source.Collected {
		failed := 0
		for _, row := range f.outputsBelow(loop, shared) {
			var output struct{ Count, FailedItems int }
			if json.Unmarshal(row.output, &output) == nil {
				counts[pgArray(row.iteration)] = output.Count
				failed += output.FailedItems
			}
		}
		if failed > 0 {
			failing = append(failing, f.failing(loop)...)
		}
		loop = f.plan.Loop(loop)
	}
	return counts, failing
}

// failedIterations returns the iterations that start with prefix and in which one of the
// components failed.
func (f *fold) failedIterations(components []string, prefix []int32) map[string]bool {
	failed := map[string]bool{}
	add := func(componentID string, state status.Stage, iteration []int32) {
		if state == status.StageFailed && slices.Contains(components, componentID) {
			failed[pgArray(iteration)] = true
		}
	}
	for _, id := range components {
		for _, iteration := range f.failedBelow[placeOf(id, prefix)] {
			failed[pgArray(iteration)] = true
		}
	}
	for _, t := range f.made {
		add(t.component.ID, t.status, t.iteration)
	}
	for _, e := range f.ends {
		add(e.componentID, e.status, e.iteration)
	}
	for _, l := range f.finishedLoops {
		add(l.componentID, l.result.status, l.iteration)
	}
	return failed
}
