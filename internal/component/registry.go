package component

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
	"github.com/weft-automation/weft/internal/kit/spelling"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/budget"
)

// Registry has the modules that this process can run. The list of modules is immutable. A Registry is
// safe for concurrent use.
type Registry struct {
	entries map[string]*Entry
	list    []Descriptor
	stuck   atomic.Int64 // calls of Run that still run after their grace period
	turns   *budget.Turns[uuid.UUID]
	slow    slowModules
}

// Entry is a registered module.
type Entry struct {
	Descriptor
	SecretPaths SecretPaths

	module                Module
	input, config, output shape
}

// shape is a schema and the names of its properties.
type shape struct {
	compiledFunc func() (*jsonschema.Compiled, error) // compiles the schema on first use

	known     map[string]bool // nil: all fields are passed to the module
	secrets   []string
	urls      []string // the paths of URLs
	addresses []string // the paths of fields that determine the receiver of a call's data

	// excusedFunc reports whether to ignore a fault at a path. byName is true if the fault is
	// about the presence or absence of the value, not about the value itself. If excusedFunc is
	// nil, no fault is ignored.
	excusedFunc func(root any, at []string, byName bool) bool

	hiddenFunc func() *Redactor // redacts secrets in messages; nil: no secrets
}

// repeater is implemented by modules whose repeat rule depends on the call.
type repeater interface{ RepeatFor(call Call) Repeat }

// keyed is implemented by modules whose calls are safe to repeat only while the upstream remembers a key
// that the caller has chosen.
type keyed interface{ Keyed(call Call) bool }

// Keyed reports whether a call is safe to repeat only while the upstream remembers the caller's key.
func (e *Entry) Keyed(call Call) bool {
	module, is := e.module.(keyed)
	return is && module.Keyed(call)
}

// authorized is implemented by modules whose calls a server may refuse because of an access token.
type authorized interface {
	Unauthorized(result Result, err error) bool
}

// Unauthorized reports whether a server refused a call with 401, so that another access token may help.
func (e *Entry) Unauthorized(result Result, err error) bool {
	module, is := e.module.(authorized)
	return is && module.Unauthorized(result, err)
}

// opener is implemented by modules whose secret fields also contain values that aren't secret.
type opener interface{ Open(name string) bool }

// formatter is implemented by modules whose schemas use custom formats.
type formatter interface {
	Formats() map[string]func(string) error
}

var moduleName = regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`)

// NewRegistry registers modules. It returns one error with all faults except those that Compile
// finds. Schemas are compiled on first use: a process uses few modules of the library, and
// compiling all schemas would take a third of its idle heap.
func NewRegistry(modules ...Module) (*Registry, error) {
	r := &Registry{entries: make(map[string]*Entry, len(modules)), turns: budget.NewTurns[uuid.UUID](computing())}
	var faults []error
	for _, module := range modules {
		entry, err := newEntry(module)
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("module %s: %w", module.Describe().Module, err))
		case r.entries[entry.Module] != nil:
			faults = append(faults, fmt.Errorf("module %s is registered twice", entry.Module))
		default:
			r.entries[entry.Module] = entry
			r.list = append(r.list, entry.Descriptor)
		}
	}
	slices.SortFunc(r.list, func(a, b Descriptor) int { return cmp.Compare(a.Module, b.Module) })
	return r, errors.Join(faults...)
}

// computing returns how many calls of modules without effect may compute at the same time: one for each
// processor, and on a machine with one processor two, so that a workspace can't have all places.
func computing() int { return max(2, runtime.GOMAXPROCS(0)) }

// Compile compiles all schemas and returns their errors. It is for tests of modules.
func (r *Registry) Compile() error {
	var faults []error
	for _, entry := range r.entries {
		for name, s := range map[string]shape{"input": entry.input, "config": entry.config, "output": entry.output} {
			if _, err := s.compiledFunc(); err != nil {
				faults = append(faults, fmt.Errorf("module %s: %s: %w", entry.Module, name, err))
			}
		}
	}
	return errors.Join(faults...)
}

// Lookup returns the module with this exact name.
func (r *Registry) Lookup(module string) (*Entry, bool) {
	entry, ok := r.entries[module]
	return entry, ok
}

// List returns all descriptors, sorted by module.
func (r *Registry) List() []Descriptor { return slices.Clone(r.list) }

// Stuck returns the number of abandoned calls that are still running after their deadline.
func (r *Registry) Stuck() int { return int(r.stuck.Load()) }

// Computing returns the number of calls of modules without effect that are running.
func (r *Registry) Computing() int { return r.turns.InUse() }

// RepeatFor returns the repeat rule of a call. If the module panics, the rule is RepeatUnsafe.
func (e *Entry) RepeatFor(call Call) (rule Repeat) {
	module, ok := e.module.(repeater)
	if !ok {
		return e.Repeat
	}
	defer func() {
		if recover() != nil {
			rule = RepeatUnsafe
		}
	}()
	return module.RepeatFor(e.known(call))
}

// Known returns an input and a config without the fields that the schemas don't declare. Such
// fields are ignored (decisions 1.1). Without this step, encoding/json, which ignores case, could
// decode a field that the schema hasn't checked.
func (e *Entry) Known(input, config json.RawMessage) (knownInput, knownConfig json.RawMessage) {
	return e.input.prune(input), e.config.prune(config)
}

func (e *Entry) known(call Call) Call {
	call.Input, call.Config = e.Known(call.Input, call.Config)
	return call
}

func (s shape) prune(data json.RawMessage) json.RawMessage {
	if s.known == nil {
		return data
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return data
	}
	before := len(members)
	for name := range members {
		if !s.known[name] {
			delete(members, name)
		}
	}
	if len(members) == before && members != nil {
		return data
	}
	out, err := strictjson.Encode(members)
	if err != nil || members == nil {
		return json.RawMessage(`{}`)
	}
	return out
}

// UnknownFields returns a fault for each field of input and config that would be dropped because
// the module's schemas don't declare it. Pointers are below the given pointer. UnknownFields is
// for strict mode (decisions 1.1). It returns nil for an unknown module.
func (r *Registry) UnknownFields(pointer, module string, input, config json.RawMessage) []fault.Detail {
	entry, ok := r.entries[module]
	if !ok {
		return nil
	}
	return append(entry.input.unknown(pointer, "input", input, "config", entry.config), entry.config.unknown(pointer, "config", config, "input", entry.input)...)
}

// unknown returns a fault for each field of a part of a component, its input or config, that the shape
// doesn't declare. other is the component's other part, to which the field may belong.
func (s shape) unknown(pointer, part string, data json.RawMessage, otherPart string, other shape) (details []fault.Detail) {
	var members map[string]json.RawMessage
	if s.known == nil || json.Unmarshal(data, &members) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !s.known[name] {
			details = append(details, fault.NewDetail(fault.Pointer(pointer+"/"+part, name), "is not a known field"+s.advice(name, part, otherPart, other)))
		}
	}
	return details
}

func newEntry(module Module) (*Entry, error) {
	d := module.Describe()
	if err := complete(d); err != nil {
		return nil, err
	}
	e := &Entry{Descriptor: d, module: module}
	var formats map[string]func(string) error
	if m, ok := module.(formatter); ok {
		formats = m.Formats()
	}
	var err error
	if e.output, err = newShape(d.Output, formats); err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	if e.input, err = newShape(d.Input, formats); err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	if e.config, err = newShape(d.Config, formats); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	e.SecretPaths = SecretPaths{Input: e.input.secrets, Config: e.config.secrets, Output: e.output.secrets}
	return e, nil
}

func complete(d Descriptor) error {
	switch {
	case !moduleName.MatchString(d.Module) || len(d.Module) > 64:
		return errors.New("the name is not UPPER_SNAKE_CASE with at most 64 characters")
	case d.Title == "" || d.Description == "" || d.Category == "":
		return errors.New("title, description and category are required")
	case d.Price < 0 || d.Timeout <= 0 || len(d.Modes) == 0:
		return errors.New("a price, a timeout and an execution mode are required")
	case !slices.Contains([]Effect{EffectNone, EffectRead, EffectWrite}, d.Effect):
		return fmt.Errorf("unknown effect %q", d.Effect)
	case !slices.Contains([]Repeat{RepeatPure, RepeatIdempotent, RepeatUnsafe}, d.Repeat):
		return fmt.Errorf("unknown repeat rule %q", d.Repeat)
	}
	return nil
}

func newShape(raw json.RawMessage, formats map[string]func(string) error) (shape, error) {
	var s shape
	schema, err := jsonschema.Parse(raw)
	if err != nil {
		return s, err
	}
	if !slices.Equal(schema.Types, []string{"object"}) {
		return s, errors.New("the schema is not of type object")
	}
	if s.secrets, err = schema.SecretPaths(); err != nil {
		return s, err
	}
	s.urls = schema.Paths(func(s *jsonschema.Schema) bool { return s.Format == "uri" })
	s.addresses = schema.Paths(func(s *jsonschema.Schema) bool { return s.Format == "uri" || s.Format == "age-recipient" })
	if schema.AdditionalProperties == nil && schema.PatternProperties == nil {
		s.known = make(map[string]bool, len(schema.Properties))
		for _, property := range schema.Properties {
			s.known[property.Name] = true
		}
	}
	s.compiledFunc = sync.OnceValues(func() (*jsonschema.Compiled, error) { return jsonschema.Compile(raw, formats) })
	return s, nil
}

// Unknown returns a message for an unknown module. The message suggests the most similar name,
// or how to list the modules.
func (r *Registry) Unknown(module string) string {
	hint := "GET /v1/sdk/components lists the modules"
	if ours := r.ours(module); ours != "" {
		hint = "write " + ours
	} else if suggestion := r.nearest(module); suggestion != "" {
		hint = "did you mean " + suggestion + "?"
	}
	return fmt.Sprintf("unknown module %s; %s", quote(module), hint)
}

// nearest returns the most similar module name, or "" if no name is similar enough. It ignores case
// and treats hyphens as underscores. Similar names differ by at most two insertions, deletions or
// replacements, and by fewer than their length.
func (r *Registry) nearest(asked string) (suggestion string) {
	const most = 2
	if len(asked) > 64 {
		return ""
	}
	asked, least := strings.ToUpper(strings.ReplaceAll(asked, "-", "_")), most+1
	for _, d := range r.list {
		if far := spelling.Distance(asked, d.Module); far < least && far < len(asked) {
			suggestion, least = d.Module, far
		}
	}
	return suggestion
}
