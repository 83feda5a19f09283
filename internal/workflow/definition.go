package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

const (
	maxDefinition = 1 << 20 // bytes; small enough that an exported workflow can be imported
)

// definition is the content of a version in the form of the contract, with all defaults filled in.
// It is stored and shown in this form.
type definition struct {
	InputSchema     json.RawMessage         `json:"inputSchema"`
	Retry           json.RawMessage         `json:"retry,omitempty"`
	DeadlineMs      *int64                  `json:"deadlineMs,omitempty"`
	Components      []api.WorkflowComponent `json:"components"`
	SequenceEdges   []api.SequenceEdge      `json:"sequenceEdges"`
	DataConnections []api.DataConnection    `json:"dataConnections"`
	Triggers        json.RawMessage         `json:"triggers"`
}

// parse returns the definition of a draft. The draft's JSON must have the form of the contract.
func (draft Draft) parse() (definition, error) {
	var (
		components []api.NewWorkflowComponent
		edges      []api.NewSequenceEdge
		d          = definition{InputSchema: orDefault(draft.InputSchema, "null"), Retry: draft.Retry, DeadlineMs: draft.DeadlineMs, Triggers: orDefault(draft.Triggers, "[]"), DataConnections: []api.DataConnection{}}
	)
	for _, part := range []struct {
		from json.RawMessage
		to   any
	}{{draft.Components, &components}, {draft.SequenceEdges, &edges}, {draft.DataConnections, &d.DataConnections}} {
		if err := json.Unmarshal(orDefault(part.from, "[]"), part.to); err != nil {
			return d, fmt.Errorf("decode a definition: %w", err)
		}
	}
	d.Components = make([]api.WorkflowComponent, len(components))
	for i, c := range components {
		d.Components[i] = api.WorkflowComponent{
			ID: c.ID, Module: c.Module, Name: deref(c.Name), Input: orDefault(c.Input, "{}"), Config: orDefault(c.Config, "{}"), Position: orDefault(c.Position, "null"),
			Attempts: c.Attempts, Retry: c.Retry, TimeoutMs: c.TimeoutMs, OnFailure: c.OnFailure,
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

// checkDraft is check for a draft. If the draft is strict, checkDraft also rejects unknown fields
// (decisions 1.1). For these and for faults in the form of the request, it returns INVALID_INPUT with
// status 400 instead of 422, with all errors of the definition.
func (s *Service) checkDraft(draft Draft, before *earlier) (stored, error) {
	d, err := draft.parse()
	if form := fault.Malformed(draft.Form); form != nil && (err != nil || slices.ContainsFunc(draft.Form, hidesGraph)) {
		return stored{}, form
	} else if err != nil {
		return stored{}, err
	}
	unknown := slices.Clip(draft.Form)
	if !slices.ContainsFunc(unknown, func(d fault.Detail) bool { return d.Pointer == "/key" }) {
		unknown = append(unknown, keyFaults(draft.Key)...)
	}
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
			malformed = fault.Malformed(fault.Beyond(unknown, failure.Details))
		}
		return stored{}, malformed
	}
	return saved, err
}

// hidesGraph reports whether a fault in the form of a request is that a whole component, edge or
// connection, or a list of them, can't be read. The graph without it would have other faults.
func hidesGraph(form fault.Detail) bool {
	part, inside, _ := strings.Cut(strings.TrimPrefix(form.Pointer, "/"), "/")
	return slices.Contains([]string{"components", "sequenceEdges", "dataConnections"}, part) && !strings.Contains(inside, "/")
}

// variables returns the environment variables that the components refer to, sorted.
func (d definition) variables(plan *graph.Plan) (names []string) {
	for _, c := range d.Components {
		names = slices.Concat(names, envref.Names(c.Input, c.Config), plan.Variables(c.ID))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// orDefault returns raw, or the default if raw is nil.
func orDefault(raw json.RawMessage, otherwise string) json.RawMessage {
	if raw == nil {
		return json.RawMessage(otherwise)
	}
	return raw
}

// deref returns *p, or the zero value if p is nil.
func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// compile returns the plan of a definition and the schemas of its runs' input. It returns
// INVALID_INPUT (422) with all errors.
func compile(d definition, modules *component.Registry) (*graph.Plan, Input, error) {
	return compileWith(graph.Compile, d, modules)
}

// review is compile for a definition that is to be saved. It also rejects what can never work, adds
// the errors in known to the errors that it finds, and returns warnings.
func review(d definition, modules *component.Registry, known ...fault.Detail) (warnings []api.WorkflowWarning, err error) {
	warnings = []api.WorkflowWarning{} // an empty list in JSON
	_, _, err = compileWith(func(d graph.Definition, library graph.Library) (*graph.Plan, []graph.Problem) {
		plan, problems, suspicious := graph.Review(d, library)
		for _, p := range suspicious {
			warnings = append(warnings, api.WorkflowWarning{Code: p.Code, Message: p.Message, Pointer: p.Pointer})
		}
		return plan, problems
	}, d, modules, known...)
	return append(warnings, shadowed(d, modules)...), err
}

// shadowed warns about declared fields of a run's input that have the name of another output of the
// trigger of API requests.
func shadowed(d definition, modules *component.Registry) (warnings []api.WorkflowWarning) {
	find := func(pointer string, raw json.RawMessage) {
		var schema struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if json.Unmarshal(raw, &schema) != nil {
			return // reported with the errors of the schema
		}
		for _, name := range []string{"input", "triggeredAt"} {
			if _, declared := schema.Properties[name]; declared {
				warnings = append(warnings, api.WorkflowWarning{
					Code: graph.WarnShadowed, Pointer: pointer + "/properties/" + name,
					Message: fmt.Sprintf("the trigger has its own output %s, which hides this field; rename the field, or read it by input.%s", name, name),
				})
			}
		}
	}
	for i, c := range d.Components {
		if entry, known := modules.Lookup(c.Module); known && entry.Flow().RunInput != nil {
			find("/inputSchema", d.InputSchema)
			find(fmt.Sprintf("/components/%d/config/inputSchema", i), entry.Flow().RunInput(c.Config))
		}
	}
	return warnings
}

// compileWith compiles a definition with graph.Compile or graph.Review.
func compileWith(compiler func(graph.Definition, graph.Library) (*graph.Plan, []graph.Problem), d definition, modules *component.Registry, known ...fault.Detail) (*graph.Plan, Input, error) {
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
		return nil, nil, fmt.Errorf("decode a definition: %w", err)
	}
	for i := range input.Components { // drop the fields that the schemas do not define
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
		details = append(details, fault.Detail{Code: string(fault.InvalidInput), Message: "must be empty: create schedules and hooks separately", Pointer: "/triggers"})
	}
	if err := fault.Unprocessable(details); err != nil {
		return nil, nil, err
	}
	var schemas Input
	for _, s := range []*component.Schema{schema, entrySchema(plan, modules)} {
		if s != nil {
			schemas = append(schemas, s)
		}
	}
	return plan, schemas, nil
}

// entrySchema returns the schema for the input of a run that the trigger of API requests defines,
// or nil if that trigger defines no schema.
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
		schema, _ := component.NewSchema("", raw) // schema errors are reported with the errors of the config
		return schema
	}
	return nil
}

// Input is the list of schemas that the input of a run must match. The zero Input accepts any
// input.
type Input []*component.Schema

// Check returns INVALID_INPUT (422) if data violates a schema. Each violation is reported once.
// Its JSON pointer starts with the specified pointer. Check stops when it has more errors than a
// response can hold, and returns the error of ctx if ctx ends between two schemas.
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

// SecretPaths returns the secret places in an input, in the form of component.SecretPaths.
func (in Input) SecretPaths() (paths []string) {
	for _, schema := range in {
		paths = append(paths, schema.SecretPaths()...)
	}
	return paths
}

// Marks reports whether an input contains a value that a schema marks as secret.
func (in Input) Marks(data json.RawMessage) bool {
	return slices.ContainsFunc(in, func(schema *component.Schema) bool { return schema.Marks(data) })
}

// stored is a definition that compiled, in stored form. Its secrets are kept separately.
type stored struct {
	shown    json.RawMessage
	secrets  secrets
	warnings []api.WorkflowWarning
}

// check compiles a definition and extracts its secrets. A placeholder stands for a secret of the
// earlier version. previous is nil for a new workflow.
func (s *Service) check(d definition, previous *earlier) (stored, error) {
	kept, faults, err := s.restore(&d, previous.secrets())
	if err != nil {
		return stored{}, err
	}
	moved, err := s.movedSecrets(previous, d, kept)
	if err != nil {
		return stored{}, err
	}
	warnings, err := review(d, s.modules, append(faults, moved...)...)
	if err != nil {
		return stored{}, err
	}
	extracted, err := s.extract(&d)
	if err != nil {
		return stored{}, err
	}
	shown, err := strictjson.Encode(d)
	if err != nil {
		return stored{}, fmt.Errorf("encode a definition: %w", err)
	}
	if len(shown) > maxDefinition {
		return stored{}, fault.Unprocessable([]fault.Detail{{Code: string(fault.InvalidInput), Message: "the workflow is larger than the limit of 1 MiB", Pointer: ""}})
	}
	if err := strictjson.CheckObject(shown); err != nil {
		return stored{}, err
	}
	return stored{shown: shown, secrets: extracted, warnings: warnings}, nil
}

// library is the set of modules that workflows can use.
type library struct{ modules *component.Registry }

// Unknown returns why a module is not in the library: it does not exist, or cannot be used in
// workflows.
func (l library) Unknown(name string) string {
	if alone, ok := l.modules.CheckMode(name, component.ModeWorkflow).(*fault.Error); ok {
		return alone.Message
	}
	return l.modules.Unknown(name)
}

// Module returns the module with exactly the specified name.
func (l library) Module(name string) (graph.Module, bool) {
	entry, ok := l.modules.Lookup(name)
	if !ok || !slices.Contains(entry.Modes, component.ModeWorkflow) {
		return graph.Module{}, false
	}
	flow := entry.Flow()
	inputs, configs := entry.URLPaths()
	return graph.Module{
		Ports: flow.Ports, CasePorts: flow.CasePorts, Loop: flow.Loop, Repeats: flow.Repeats, Continues: flow.Continues, Trigger: flow.Trigger, Fails: flow.Fails,
		Inline: flow.Inline, Lasts: flow.Lasts, Responds: flow.Responds,
		Input: entry.Input, Config: entry.Config, Output: entry.Output,
		InputAddresses: inputs, ConfigAddresses: configs,
		Gives: flow.Gives,
		Review: func(input, config json.RawMessage, bound []string, known func(string) bool) (problems, warnings []graph.Problem) {
			faults, suspicious := entry.Review(input, config, bound, known)
			return problemsOf(faults), problemsOf(suspicious)
		},
		Check: func(input, config json.RawMessage, bound []string, known func(string) bool) []graph.Problem {
			return problemsOf(entry.CheckLiterals(input, config, bound, known))
		},
	}, true
}

func problemsOf(details []fault.Detail) (problems []graph.Problem) {
	for _, d := range details {
		problems = append(problems, graph.Problem{Pointer: d.Pointer, Code: d.Code, Message: d.Message})
	}
	return problems
}
