package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/component/template"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

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
func (a *Advance) bind(sc *scope, c graph.Component) (input json.RawMessage, b binding, err error) {
	sources := a.Plan.Sources(c.ID)
	values := make([]graph.Bound, len(sources))
	for i, source := range sources {
		value, err := a.value(sc, source, &b)
		if err != nil {
			return nil, b, err
		}
		values[i] = graph.Bound{Source: source, Value: value}
	}
	input, err = graph.Bind(c.Input, values)
	return input, b, err
}

// value returns the value that a connection or a reference carries into a scope, or nil if it carries none.
func (a *Advance) value(sc *scope, source graph.Source, b *binding) (json.RawMessage, error) {
	shared := sc.iteration[:min(source.Depth, len(sc.iteration))]
	var from Value
	switch {
	case source.Failure:
		return a.failure(source, shared, b)
	case source.Item:
		item, err := a.item(sc, source, shared)
		if err != nil {
			return nil, err
		}
		from = item
	case source.Collected > 0:
		all, err := a.collected(source, shared, b)
		b.add(all.Output, all.Secret)
		return all.Output, err
	default:
		from = a.values[PlaceOf(source.From, shared)]
	}
	value, _, err := b.selectFrom(from.Output, source)
	b.add(value, from.Secret)
	return value, err
}

// selectFrom returns the value of a source in an output, and whether the value exists. It returns a
// *fault.Error if the binding has searched too many bytes.
func (b *binding) selectFrom(output json.RawMessage, source graph.Source) (value json.RawMessage, ok bool, err error) {
	if b.read += len(output) * (2 + strings.Count(source.Path, ".")); b.read > maxRead {
		return nil, false, fault.New(fault.InvalidInput, "The connections and references of this component search more than 1 GiB of outputs.")
	}
	value, ok = source.Select(output)
	return value, ok, nil
}

// failure returns the value of a source in the error of a component: nil if it did not fail. Out of a
// loop, it returns the values of all iterations, with null for those in which it did not fail.
func (a *Advance) failure(source graph.Source, shared []int32, b *binding) (json.RawMessage, error) {
	found := map[string]json.RawMessage{}
	rows := slices.Clone(a.failures[PlaceOf(source.From, shared)])
	for _, e := range a.finals {
		if e.Status == status.StageFailed && e.ComponentID == source.From && isBelow(e.Iteration, shared) {
			rows = append(rows, FailedStage{Iteration: e.Iteration, Error: e.Failure})
		}
	}
	for _, row := range rows {
		value, ok, err := b.selectFrom(row.Error, source)
		if err != nil {
			return nil, err
		}
		if ok {
			found[array(row.Iteration)] = value
		}
	}
	if source.Collected == 0 {
		return found[array(shared)], nil
	}
	counts, _ := a.itemCounts(source, shared)
	return gather(counts, nil, found, shared, source.Collected)
}

// item returns the output of a loop for one iteration (decisions 8.5).
func (a *Advance) item(sc *scope, source graph.Source, shared []int32) (Value, error) {
	l := a.loops[PlaceOf(source.From, shared)]
	if l == nil || len(sc.iteration) <= len(shared) {
		return Value{}, nil
	}
	index := int(sc.iteration[len(shared)])
	fields, secret := map[string]json.RawMessage{graph.OutputIndex: json.RawMessage(strconv.Itoa(index))}, false
	if l.repeats {
		state := a.stateAt(l, int32(index))
		fields[graph.OutputState], secret = state.Output, state.Secret
	} else {
		of := a.lists[l.ID]
		fields[graph.OutputItem], secret = of.List[index], of.Secret
	}
	output, err := strictjson.Encode(fields)
	if err != nil {
		return Value{}, fmt.Errorf("encode an item: %w", err)
	}
	return Value{output, secret}, nil
}

// collected returns the values of all iterations, in the order of the items. An iteration without
// a value has null. A failed iteration has null too: which of its stages had run by then depends
// on timing. If the loop did not complete, collected returns nothing.
func (a *Advance) collected(source graph.Source, shared []int32, b *binding) (all Value, err error) {
	found := map[string]json.RawMessage{}
	for _, row := range a.outputsBelow(source.From, shared) {
		value, ok, err := b.selectFrom(row.Output, source)
		if err != nil {
			return all, err
		}
		if ok {
			found[array(row.Iteration)] = value
			all.Secret = all.Secret || row.Secret
		}
	}
	counts, failing := a.itemCounts(source, shared)
	failedItems := a.failedIterations(failing, shared)
	all.Output, err = gather(counts, failedItems, found, shared, source.Collected)
	if all.Output == nil {
		return Value{}, err
	}
	return all, err
}

// gather returns the values of all iterations below one, as nested lists: null for iterations without a
// value, and for those that are left out. It returns nil if the loop did not complete.
func gather(counts map[string]int, leftOut map[string]bool, found map[string]json.RawMessage, below []int32, levels int) (json.RawMessage, error) {
	if _, completed := counts[array(below)]; !completed {
		return nil, nil
	}
	var list func(iteration []int32, left int) any
	list = func(iteration []int32, left int) any {
		if left == 0 {
			return found[array(iteration)]
		}
		count, completed := counts[array(iteration)]
		if !completed {
			return nil
		}
		all := make([]any, count)
		for i := range all {
			if item := append(slices.Clone(iteration), int32(i)); !leftOut[array(item)] {
				all[i] = list(item, left-1)
			}
		}
		return all
	}
	return strictjson.Encode(list(slices.Clone(below), levels))
}

// outputsBelow returns the outputs of a component in all iterations that start with prefix.
func (a *Advance) outputsBelow(componentID string, prefix []int32) []IterationValue {
	all := slices.Clone(a.below[PlaceOf(componentID, prefix)])
	for _, e := range a.finals {
		if e.Status == status.StageCompleted && e.ComponentID == componentID && isBelow(e.Iteration, prefix) {
			all = append(all, IterationValue{e.Iteration, a.values[PlaceOf(componentID, e.Iteration)]})
		}
	}
	return all
}

// itemCounts returns the number of items of the loops that a value leaves, by the iteration in
// which each loop ran. If items failed, it also returns the components that can fail an item.
func (a *Advance) itemCounts(source graph.Source, shared []int32) (counts map[string]int, failing []string) {
	counts = map[string]int{}
	loop := a.Plan.Loop(source.From)
	for range source.Collected {
		failed := 0
		for _, row := range a.outputsBelow(loop, shared) {
			var output struct{ Count, FailedItems int }
			if json.Unmarshal(row.Output, &output) == nil {
				counts[array(row.Iteration)] = output.Count
				failed += output.FailedItems
			}
		}
		if failed > 0 {
			failing = append(failing, Failing(a.Plan, loop)...)
		}
		loop = a.Plan.Loop(loop)
	}
	return counts, failing
}

// failedIterations returns the iterations that start with prefix and in which one of the
// components failed.
func (a *Advance) failedIterations(components []string, prefix []int32) map[string]bool {
	failed := map[string]bool{}
	for _, id := range components {
		for _, iteration := range a.failedBelow[PlaceOf(id, prefix)] {
			failed[array(iteration)] = true
		}
	}
	for _, e := range a.finals {
		if e.Status == status.StageFailed && slices.Contains(components, e.ComponentID) {
			failed[array(e.Iteration)] = true
		}
	}
	return failed
}

// resolve returns a component with the references in its strings replaced: by the values that values
// knows, and those to variables in the form {{env.NAME}} by the variables' values. It returns a
// *fault.Error if a value is missing or does not fit.
func (a *Advance) resolve(c graph.Component, values *template.Values) (graph.Component, error) {
	if len(envref.Names(c.Input, c.Config)) == 0 && !a.Plan.Refers(c.ID) {
		return c, nil
	}
	env := a.Variables
	if env.Err != nil {
		return c, env.Err
	}
	for _, name := range a.Fixed[c.ID] {
		if slices.Contains(env.Changed, name) {
			return c, fault.New(fault.InvalidInput, "The environment variable %s is part of an address and has changed since the secrets next to that address were stored. Stored secrets stay with the old address. Save the workflow with these secrets again.", name)
		}
	}
	entry, known := a.modules.Lookup(c.Module)
	if !known {
		return c, nil // starting its execution reports the error
	}
	if err := a.checkTokens(c, entry); err != nil {
		return c, err
	}
	if len(env.Tokens) > 0 && values != nil { // a loop, which has no values, has no tokens
		values.Token = env.token
	}
	expressions := entry.Flow().Expressions != nil
	variables := envref.NewFiller(env.Values)
	filled, err := a.Plan.Fill(c, values, func(pointer, text string) (string, error) {
		if expressions && strings.HasPrefix(pointer, "/config") {
			return text, nil // the module has the values
		}
		return variables.Fill(pointer, text)
	})
	if err != nil {
		return c, unresolved("", err)
	}
	for _, part := range []struct {
		pointer string
		value   *json.RawMessage
		schema  json.RawMessage
	}{{"/input", &filled.Input, entry.Input}, {"/config", &filled.Config, entry.Config}} {
		schema, err := jsonschema.Parse(part.schema)
		if err != nil {
			return c, err
		}
		if len(*part.value) == 0 || expressions && part.pointer == "/config" {
			continue
		}
		if *part.value, err = schema.Convert(*part.value); err != nil {
			return c, unresolved(part.pointer, err)
		}
	}
	return filled, nil
}

// unresolved returns the error of a stage whose references cannot be resolved.
func unresolved(pointer string, err error) error {
	code, message, detail := string(fault.InvalidInput), err.Error(), err.Error()
	if unknown, ok := errors.AsType[*envref.Unknown](err); ok {
		code, pointer = template.CodeMissing, unknown.Pointer
		detail = fmt.Sprintf("the environment variable %s was missing when the run started", unknown.Name)
		message = pointer + ": " + detail
	} else if failed, ok := errors.AsType[*graph.FillError](err); ok {
		code, pointer, detail = failed.Code, failed.Pointer, failed.Message
	}
	return &fault.Error{Code: fault.Code(code), Message: message, Details: []fault.Detail{{Code: code, Message: detail, Pointer: pointer}}}
}
