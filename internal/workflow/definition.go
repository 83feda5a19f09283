package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

const (
	maxDefinition = 1 << 20 // bytes: what was exported can be imported
)

// definition is what a version holds, in the form of the contract with every default
// written out. So it is stored, and so it is shown.
type definition struct {
	InputSchema     json.RawMessage         `json:"inputSchema"`
	Components      []api.WorkflowComponent `json:"components"`
	SequenceEdges   []api.SequenceEdge      `json:"sequenceEdges"`
	DataConnections []api.DataConnection    `json:"dataConnections"`
	Triggers        json.RawMessage         `json:"triggers"`
}

// read is the definition of a draft, whose JSON has the form of the contract.
func (draft Draft) read() (definition, error) {
	var (
		components []api.NewWorkflowComponent
		edges      []api.NewSequenceEdge
		d          = definition{InputSchema: or(draft.InputSchema, "null"), Triggers: or(draft.Triggers, "[]"), DataConnections: []api.DataConnection{}}
	)
	for _, part := range []struct {
		from json.RawMessage
		to   any
	}{{draft.Components, &components}, {draft.SequenceEdges, &edges}, {draft.DataConnections, &d.DataConnections}} {
		if err := json.Unmarshal(or(part.from, "[]"), part.to); err != nil {
			return d, fmt.Errorf("read a definition: %w", err)
		}
	}
	d.Components = make([]api.WorkflowComponent, len(components))
	for i, c := range components {
		d.Components[i] = api.WorkflowComponent{
			ID: c.ID, Module: c.Module, Name: value(c.Name), Input: or(c.Input, "{}"), Config: or(c.Config, "{}"), Position: or(c.Position, "null"),
			Attempts: c.Attempts, TimeoutMs: c.TimeoutMs, OnFailure: c.OnFailure,
		}
		var err error
		if d.Components[i].Config, err = lowerID(c.Module, d.Components[i].Config); err != nil {
			return d, err
		}
	}
	d.SequenceEdges = make([]api.SequenceEdge, len(edges))
	for i, e := range edges {
		d.SequenceEdges[i] = api.SequenceEdge{ID: e.ID, From: e.From, To: e.To, Port: graph.PortNext}
		if e.Port != nil {
			d.SequenceEdges[i].Port = *e.Port
		}
	}
	return d, nil
}

// checkDraft is check for a draft. Members that nobody knows are refused where it is strict
// (decisions 1.1), with all else that is wrong: INVALID_INPUT, which is not unprocessable then.
func (s *Service) checkDraft(draft Draft, before *earlier) (stored, error) {
	d, err := draft.read()
	if err != nil {
		return stored{}, err
	}
	unknown := draft.Unknown
	for i, c := range d.Components {
		if draft.Strict {
			unknown = append(unknown, s.modules.UnknownFields(fmt.Sprintf("/components/%d", i), c.Module, c.Input, c.Config)...)
		}
	}
	saved, err := s.check(d, before)
	if failure, ok := err.(*fault.Error); err != nil && (!ok || failure.Code != fault.InvalidInput) {
		return stored{}, err
	} else if malformed := fault.Malformed(unknown); malformed != nil {
		if ok {
			malformed = fault.Malformed(append(unknown, failure.Details...))
		}
		return stored{}, malformed
	}
	return saved, err
}

// variables are those of the environment that the components name.
func (d definition) variables() []string {
	var parts []json.RawMessage
	for _, c := range d.Components {
		parts = append(parts, c.Input, c.Config)
	}
	return envref.Names(parts...)
}

// or is raw, or the default where there is none.
func or(raw json.RawMessage, otherwise string) json.RawMessage {
	if raw == nil {
		return json.RawMessage(otherwise)
	}
	return raw
}

// value is *p, or nothing.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// compile makes the plan of a definition and says what its runs take. INVALID_INPUT,
// unprocessable, with all that is wrong.
func compile(d definition, modules *component.Registry) (*graph.Plan, Input, error) {
	return compileBy(graph.Compile, d, modules)
}

// review is compile for a definition that is to be saved: what can never work is wrong, too, and
// what is known already. It returns what is suspicious.
func review(d definition, modules *component.Registry, known ...fault.Detail) (warnings []api.WorkflowWarning, err error) {
	_, _, err = compileBy(func(d graph.Definition, library graph.Library) (*graph.Plan, []graph.Problem) {
		plan, problems, suspicious := graph.Review(d, library)
		for _, p := range suspicious {
			warnings = append(warnings, api.WorkflowWarning{Code: p.Code, Message: p.Message, Pointer: p.Pointer})
		}
		return plan, problems
	}, d, modules, known...)
	return warnings, err
}

func compileBy(compiler func(graph.Definition, graph.Library) (*graph.Plan, []graph.Problem), d definition, modules *component.Registry, known ...fault.Detail) (*graph.Plan, Input, error) {
	var (
		details []fault.Detail
		schema  *component.Schema
		input   graph.Definition
	)
	if string(d.InputSchema) != "null" {
		schema, details = component.NewSchema("/inputSchema", d.InputSchema)
	}
	details = append(details, known...)
	raw, err := strictjson.Encode(d)
	if err == nil {
		err = json.Unmarshal(raw, &input)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read a definition: %w", err)
	}
	for i := range input.Components { // from here on nobody sees what the schemas do not name
		c := &input.Components[i]
		if entry, known := modules.Lookup(c.Module); known {
			c.Input, c.Config = entry.Known(c.Input, c.Config)
		}
	}
	plan, problems := compiler(input, library{modules})
	for _, p := range problems {
		details = append(details, fault.Detail{Code: p.Code, Message: p.Message, Pointer: p.Pointer})
	}
	var triggers []json.RawMessage
	if err := json.Unmarshal(d.Triggers, &triggers); err != nil || len(triggers) > 0 {
		details = append(details, fault.Detail{Code: string(fault.InvalidInput), Message: "must be empty: schedules and hooks, which start workflows beside requests, are things of their own", Pointer: "/triggers"})
	}
	if err := fault.Unprocessable(details); err != nil {
		return nil, nil, err
	}
	var takes Input
	for _, s := range []*component.Schema{schema, entrySchema(plan, modules)} {
		if s != nil {
			takes = append(takes, s)
		}
	}
	return plan, takes, nil
}

// entrySchema is what the component at which a request begins a run says of the input;
// nil if it says nothing.
func entrySchema(plan *graph.Plan, modules *component.Registry) *component.Schema {
	for _, id := range plan.Triggers() {
		c, _ := plan.Component(id)
		entry, known := modules.Lookup(c.Module)
		if !known || entry.Flow().RunInput == nil {
			continue
		}
		raw := entry.Flow().RunInput(c.Config)
		if raw == nil {
			return nil
		}
		schema, _ := component.NewSchema("", raw) // its faults are among those of the config
		return schema
	}
	return nil
}

// Input is what runs of a version take: what all of its schemas do. The zero one takes
// anything.
type Input []*component.Schema

// Check refuses an input that breaks one of the schemas, with each fault once and pointers
// below the given one. It stops after one more fault than an error holds, and between two
// schemas when ctx ends: nobody reads the answer then.
func (in Input) Check(ctx context.Context, pointer string, data json.RawMessage) error {
	var details []fault.Detail
	known := map[fault.Detail]bool{}
	for _, schema := range in {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, detail := range schema.Check(pointer, data) {
			if !known[detail] && len(details) <= fault.MaxDetails {
				known[detail] = true
				details = append(details, detail)
			}
		}
	}
	return fault.Unprocessable(details)
}

// SecretPaths are the places of the secret values of an input, as component.SecretPaths has
// them.
func (in Input) SecretPaths() (paths []string) {
	for _, schema := range in {
		paths = append(paths, schema.SecretPaths()...)
	}
	return paths
}

// Marks reports whether there is something in an input that is secret.
func (in Input) Marks(data json.RawMessage) bool {
	return slices.ContainsFunc(in, func(schema *component.Schema) bool { return schema.Marks(data) })
}

// stored is a definition that compiled, fit to be kept: as it is shown, and its secret
// values apart, nil if it has none.
type stored struct {
	shown    json.RawMessage
	secrets  secrets
	warnings []api.WorkflowWarning
}

// check compiles a definition and takes its secrets out. The secrets of the version before
// stand where the definition has only the mark of one; nil: there is no version before.
func (s *Service) check(d definition, before *earlier) (stored, error) {
	kept, faults, err := s.restore(&d, before.secrets())
	if err != nil {
		return stored{}, err
	}
	moved, err := s.moved(before, d, kept)
	if err != nil {
		return stored{}, err
	}
	warnings, err := review(d, s.modules, append(faults, moved...)...)
	if err != nil {
		return stored{}, err
	}
	taken, err := s.takeOut(&d)
	if err != nil {
		return stored{}, err
	}
	shown, err := strictjson.Encode(d)
	if err != nil {
		return stored{}, fmt.Errorf("encode a definition: %w", err)
	}
	if len(shown) > maxDefinition {
		return stored{}, fault.Unprocessable([]fault.Detail{{Code: string(fault.InvalidInput), Message: "the workflow is larger than 1 MiB", Pointer: ""}})
	}
	if err := strictjson.CheckObject(shown); err != nil {
		return stored{}, err
	}
	return stored{shown: shown, secrets: taken, warnings: warnings}, nil
}

// library is the modules that can be a stage of a run.
type library struct{ modules *component.Registry }

// Unknown says why a module is not there: it may be one that works on its own only.
func (l library) Unknown(name string) string {
	if alone, ok := l.modules.CheckMode(name, component.ModeWorkflow).(*fault.Error); ok {
		return alone.Message
	}
	return l.modules.Unknown(name)
}

// Module finds a module by its exact name.
func (l library) Module(name string) (graph.Module, bool) {
	entry, ok := l.modules.Lookup(name)
	if !ok || !slices.Contains(entry.Modes, component.ModeWorkflow) {
		return graph.Module{}, false
	}
	flow := entry.Flow()
	return graph.Module{
		Ports: flow.Ports, CasePorts: flow.CasePorts, Loop: flow.Loop, Trigger: flow.Trigger, Fails: flow.Fails,
		Inline: flow.Inline, Lasts: flow.Lasts,
		Input: entry.Input, Config: entry.Config, Output: entry.Output,
		Gives: flow.Gives,
		Review: func(input, config json.RawMessage, bound []string) (problems, warnings []graph.Problem) {
			faults, suspicious := entry.Review(input, config, bound)
			return problemsOf(faults), problemsOf(suspicious)
		},
		Check: func(input, config json.RawMessage, bound []string) []graph.Problem {
			return problemsOf(entry.CheckLiterals(input, config, bound))
		},
	}, true
}

func problemsOf(details []fault.Detail) (problems []graph.Problem) {
	for _, d := range details {
		problems = append(problems, graph.Problem{Pointer: d.Pointer, Code: d.Code, Message: d.Message})
	}
	return problems
}
