package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/secret/vault"
)

// readSources reads the outputs that what is ready in these scopes takes, all at once.
func (f *fold) readSources(round []*scope) error {
	var missing []place
	for _, sc := range round {
		if sc.over || f.stopped(sc) {
			continue
		}
		for _, id := range f.plan.Next(sc.component, sc.states).Ready {
			for _, source := range f.plan.Sources(id) {
				p := at(source.From, sc.iteration[:min(source.Depth, len(sc.iteration))])
				if _, known := f.values[p]; !known && !source.Item && source.Collected == 0 {
					missing = append(missing, p)
					f.values[p] = given{} // what gives nothing is not asked for again
				}
			}
		}
	}
	return f.readOutputs(missing)
}

func (f *fold) readOutputs(missing []place) error {
	if len(missing) == 0 {
		return nil
	}
	components, iterations := sortedPlaces(missing)
	rows, err := db.New().StageListOutputs(f.ctx, f.tx, db.StageListOutputsParams{
		WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, ComponentIds: components, Iterations: iterations,
	})
	if err != nil {
		return fmt.Errorf("read outputs: %w", err)
	}
	for _, row := range rows {
		from, err := f.opened(row.Source, row.Output)
		if err != nil {
			return err
		}
		f.values[at(row.ComponentID, row.Iteration)] = from
	}
	return nil
}

// given is an output that was read or made, and whether it is stored sealed. What is sealed
// is secret as a whole.
type given struct {
	output json.RawMessage
	secret bool
}

// opened is a stored output, which was sealed, if it is, for that row.
func (f *fold) opened(source uuid.UUID, stored json.RawMessage) (given, error) {
	output, err := f.engine.Vault.OpenJSON(f.ctx, f.place(source, vault.Output), stored)
	if err != nil {
		return given{}, fmt.Errorf("read outputs: %w", err)
	}
	return given{output, vault.Sealed(stored)}, nil
}

// binding is what becomes known while the input of a component is bound.
type binding struct {
	read   int      // bytes that its connections went through
	secret bool     // one of them carries what is secret
	texts  []string // in what those carry
}

// took notes a value that a connection carries.
func (b *binding) took(value json.RawMessage, secret bool) {
	if secret {
		b.secret = true
		b.texts = append(b.texts, component.Texts(value)...)
	}
}

// maxRead is how many bytes of outputs the connections into one component go through, each of
// them for each step of its path.
const maxRead = 1 << 30

// bind is the input of a component in a scope. A *graph.BindError says that a value does
// not fit, a *fault.Error that there is too much to be gone through.
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

// value is what a connection carries into a scope; nil where there is none.
func (f *fold) value(sc *scope, source graph.Source) (json.RawMessage, error) {
	shared := sc.iteration[:min(source.Depth, len(sc.iteration))]
	var from given
	switch {
	case source.Item:
		item, err := f.item(sc, source, shared)
		if err != nil {
			return nil, err
		}
		from = item
	case source.Collected > 0:
		all, err := f.collected(source, shared)
		f.binding.took(all.output, all.secret)
		return all.output, err
	default:
		p := at(source.From, shared)
		if _, known := f.values[p]; !known { // it became ready after what is read for all at once
			f.values[p] = given{}
			if err := f.readOutputs([]place{p}); err != nil {
				return nil, err
			}
		}
		from = f.values[p]
	}
	value, _, err := f.choose(from.output, source.Path)
	f.binding.took(value, from.secret)
	return value, err
}

// choose is the value at a path in an output.
func (f *fold) choose(output json.RawMessage, path string) (value json.RawMessage, ok bool, err error) {
	if f.binding.read += len(output) * (2 + strings.Count(path, ".")); f.binding.read > maxRead {
		return nil, false, fault.New(fault.InvalidInput, "The connections into this component go through more than 1 GiB of outputs.")
	}
	value, ok = graph.Select(output, path)
	return value, ok, nil
}

// item is what a loop gives to one of its iterations (decisions 8.5).
func (f *fold) item(sc *scope, source graph.Source, shared []int32) (given, error) {
	l := f.loops[at(source.From, shared)]
	if l == nil || len(sc.iteration) <= len(shared) {
		return given{}, nil
	}
	items, secret, err := f.itemsOf(l)
	if err != nil {
		return given{}, err
	}
	index := int(sc.iteration[len(shared)])
	output, err := strictjson.Encode(map[string]json.RawMessage{
		graph.OutputItem: items[index], graph.OutputIndex: json.RawMessage(strconv.Itoa(index)),
	})
	if err != nil {
		return given{}, fmt.Errorf("write an item: %w", err)
	}
	return given{output, secret}, nil
}

// collected are the values of all iterations, in the order of the items; null for one
// that gave none, or that failed as a whole: what of it had run by then is chance. There
// are none at all where the loop did not complete.
func (f *fold) collected(source graph.Source, shared []int32) (all given, err error) {
	found := map[string]json.RawMessage{}
	rows, err := f.outputsBelow(source.From, shared)
	if err != nil {
		return all, err
	}
	for _, row := range rows {
		from, err := f.opened(row.Source, row.Output)
		if err != nil {
			return all, err
		}
		value, ok, err := f.choose(from.output, source.Path)
		if err != nil {
			return all, err
		}
		if ok {
			found[written(row.Iteration)] = value
			all.secret = all.secret || from.secret
		}
	}
	counts, broken, err := f.countsAround(source, shared)
	if err != nil {
		return all, err
	}
	if _, completed := counts[written(shared)]; !completed {
		return given{}, nil
	}
	var gather func(iteration []int32, left int) any
	gather = func(iteration []int32, left int) any {
		if left == 0 {
			return found[written(iteration)]
		}
		count, completed := counts[written(iteration)]
		if !completed {
			return nil
		}
		all := make([]any, count)
		for i := range all {
			if item := append(slices.Clone(iteration), int32(i)); !broken[written(item)] {
				all[i] = gather(item, left-1)
			}
		}
		return all
	}
	all.output, err = strictjson.Encode(gather(slices.Clone(shared), source.Collected))
	return all, err
}

// outputsBelow are the outputs of a component in all iterations that begin so.
func (f *fold) outputsBelow(componentID string, prefix []int32) ([]db.StageListCollectedRow, error) {
	rows, err := db.New().StageListCollected(f.ctx, f.tx, db.StageListCollectedParams{
		WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, ComponentID: componentID, Prefix: prefix,
	})
	if err != nil {
		return nil, fmt.Errorf("read the outputs of iterations: %w", err)
	}
	for _, t := range f.made {
		if t.component.ID == componentID && t.status == status.StageCompleted && !t.dropped &&
			len(t.iteration) >= len(prefix) && slices.Equal(t.iteration[:len(prefix)], prefix) {
			rows = append(rows, db.StageListCollectedRow{Iteration: t.iteration, Output: t.output, Source: t.id})
		}
	}
	for _, l := range f.ended {
		if l.componentID == componentID && len(l.iteration) >= len(prefix) && slices.Equal(l.iteration[:len(prefix)], prefix) {
			rows = append(rows, db.StageListCollectedRow{Iteration: l.iteration, Output: l.ended.output, Source: l.id})
		}
	}
	return rows, nil
}

// countsAround are the numbers of items of the loops that a value leaves, by where each
// of them ran, and which of the items failed.
func (f *fold) countsAround(source graph.Source, shared []int32) (counts map[string]int, broken map[string]bool, err error) {
	counts = map[string]int{}
	var failing []string // what failed items fail by
	loop := f.plan.Loop(source.From)
	for range source.Collected {
		rows, err := f.outputsBelow(loop, shared)
		if err != nil {
			return nil, nil, err
		}
		failed := 0
		for _, row := range rows {
			var output struct{ Count, FailedItems int }
			if json.Unmarshal(row.Output, &output) == nil {
				counts[written(row.Iteration)] = output.Count
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
	broken, err = f.brokenBelow(failing, shared)
	return counts, broken, err
}

// brokenBelow are the iterations that begin so in which one of the components failed.
func (f *fold) brokenBelow(components []string, prefix []int32) (map[string]bool, error) {
	broken := map[string]bool{}
	if len(components) == 0 {
		return broken, nil
	}
	rows, err := db.New().StageListFailedIterations(f.ctx, f.tx, db.StageListFailedIterationsParams{
		WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, ComponentIds: components, Prefix: prefix,
	})
	if err != nil {
		return nil, fmt.Errorf("read which iterations failed: %w", err)
	}
	for _, t := range f.made {
		if slices.Contains(components, t.component.ID) && t.status == status.StageFailed {
			rows = append(rows, t.iteration)
		}
	}
	for _, l := range f.ended {
		if slices.Contains(components, l.componentID) && l.ended.status == status.StageFailed {
			rows = append(rows, l.iteration)
		}
	}
	for _, iteration := range rows {
		broken[written(iteration)] = true
	}
	return broken, nil
}

// variables are what a run took of the environment when it began, opened when it is needed.
type variables struct {
	environment.Snapshot
	opened bool
	hidden *component.Redactor // of the secrets among them
}

// environment is what the run took along.
func (f *fold) environment() (*variables, error) {
	v := &f.variables
	if v.opened || f.run.Variables == nil {
		return v, nil
	}
	var err error
	if v.Snapshot, err = f.engine.Environment.Open(f.run.WorkspaceID, f.run.ID, f.run.Variables); err != nil {
		return nil, err
	}
	v.opened, v.hidden = true, component.NewRedactor(v.Secrets...)
	return v, nil
}

// resolved is a component with the values of the variables that it names in their places.
// A *fault.Error says which is not there.
func (f *fold) resolved(c graph.Component) (graph.Component, error) {
	if len(envref.Names(c.Input, c.Config)) == 0 {
		return c, nil
	}
	env, err := f.environment()
	if err != nil {
		return c, err
	}
	for _, name := range f.fixed[c.ID] {
		if slices.Contains(env.Changed, name) {
			return c, fault.New(fault.InvalidInput, "The environment variable %s, which is part of an address, was changed or deleted after the secrets next to that address were stored. Stored secrets do not follow an address to another origin: save the workflow with these secrets again.", name)
		}
	}
	entry, known := f.engine.Modules.Lookup(c.Module)
	if !known {
		return c, nil // who runs it says so
	}
	for _, part := range []struct {
		pointer string
		value   *json.RawMessage
		schema  json.RawMessage
	}{{"/input", &c.Input, entry.Input}, {"/config", &c.Config, entry.Config}} {
		schema, err := jsonschema.Parse(part.schema)
		if err != nil {
			return c, err
		}
		value, err := env.Values.Resolve(part.pointer, *part.value)
		if err == nil {
			value, err = schema.Convert(value)
		}
		if err != nil {
			return c, unresolved(part.pointer, err)
		}
		*part.value = value
	}
	return c, nil
}

// unresolved is why a component cannot be given its variables, for the error of its stage.
func unresolved(pointer string, err error) error {
	message := err.Error()
	if unknown, ok := errors.AsType[*envref.Unknown](err); ok {
		pointer, message = unknown.Pointer, fmt.Sprintf("There was no environment variable %s when the run began.", unknown.Name)
	}
	return &fault.Error{
		Code: fault.InvalidInput, Message: message,
		Details: []fault.Detail{{Code: string(fault.InvalidInput), Message: message, Pointer: pointer}},
	}
}

// fits checks what a component takes: whatever connections bring, it is held to what a
// caller may send (decisions 1.1). Of a module those who execute it check the rest, of the
// engine's own it is done here: what its variables are was not known when the workflow was
// saved.
func (f *fold) fits(written graph.Component, t *stage, input json.RawMessage) error {
	_, control := controls[written.Module]
	switch {
	case len(input) > maxStageValue:
		return fault.New(fault.InvalidInput, "The input has %d bytes with what connections bring; at most %d are allowed.", len(input), maxStageValue)
	case !control:
		return nil
	case len(envref.Names(written.Input, written.Config)) > 0:
		return f.engine.Modules.Check(written.Module, input, Object(t.component.Config), f.variables.Secrets...)
	}
	if refusal, ok := errors.AsType[*fault.Error](strictjson.Check(input)); ok {
		return fault.New(fault.InvalidInput, "The input cannot be taken with what connections bring: %s.", refusal.Message)
	}
	return nil
}
