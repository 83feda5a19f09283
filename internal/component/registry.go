package component

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// Registry is the table of the modules that this process can run. It is safe
// for concurrent use and does not change once made.
type Registry struct {
	entries map[string]*Entry
	list    []Descriptor
	stuck   atomic.Int64
}

// Entry is one module of the table.
type Entry struct {
	Descriptor
	SecretPaths SecretPaths

	module                Module
	input, config, output shape
}

// shape is a schema and the names of the members it knows.
type shape struct {
	compiledFunc func() (*jsonschema.Compiled, error) // compiles it at the first call

	known   map[string]bool // nil: every member is passed on
	secrets []string

	// excusedFunc says that a fault at a place is none: one of the value there, or byName
	// one of its being there or missing. nil: every fault is one.
	excusedFunc func(root any, at []string, byName bool) bool

	hiddenFunc func() *Redactor // what no message shows; nil: nothing
}

// repeater is a module whose repeat rule depends on the call.
type repeater interface{ RepeatFor(call Call) Repeat }

// opener is a module with secret fields some of whose values are none.
type opener interface{ Open(name string) bool }

// formatter is a module whose schemas use formats of its own.
type formatter interface {
	Formats() map[string]func(string) error
}

var moduleName = regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`)

// NewRegistry makes the table. All that is wrong with the modules comes back in one error,
// but for what Compile finds. A schema is compiled when the first call needs it: a process
// uses few modules of a library, and all of them would take a third of its idle heap.
func NewRegistry(modules ...Module) (*Registry, error) {
	r := &Registry{entries: make(map[string]*Entry, len(modules))}
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

// Compile compiles every schema now, and tells what is wrong with any. It is for tests of
// modules.
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

// Lookup finds a module by its exact name.
func (r *Registry) Lookup(module string) (*Entry, bool) {
	entry, ok := r.entries[module]
	return entry, ok
}

// List is every descriptor, sorted by module.
func (r *Registry) List() []Descriptor { return slices.Clone(r.list) }

// Stuck is the number of calls that were given up because the module did not
// return after its deadline, and that still run.
func (r *Registry) Stuck() int { return int(r.stuck.Load()) }

// RepeatFor is the repeat rule of this very call. A module that cannot tell,
// or panics, is taken to be unsafe.
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

// Known returns an input and a config without the members that the schemas do not name: they
// are ignored (decisions 1.1), and decoding into Go structs, which disregards case, must not
// pick one up past the schema.
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

// UnknownFields is a fault for each member of input and config that the module's schemas do
// not name and that would be dropped, with pointers below the given one, for callers who want
// to hear of them (decisions 1.1). A module that is not there has none.
func (r *Registry) UnknownFields(pointer, module string, input, config json.RawMessage) []fault.Detail {
	entry, ok := r.entries[module]
	if !ok {
		return nil
	}
	return append(entry.input.unknown(pointer+"/input", input), entry.config.unknown(pointer+"/config", config)...)
}

func (s shape) unknown(pointer string, data json.RawMessage) (details []fault.Detail) {
	var members map[string]json.RawMessage
	if s.known == nil || json.Unmarshal(data, &members) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !s.known[name] {
			details = append(details, fault.NewDetail(fault.Pointer(pointer, name), "is not a known field"))
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
		return errors.New("its name is not UPPER_SNAKE of at most 64 characters")
	case d.Title == "" || d.Description == "" || d.Category == "":
		return errors.New("title, description and category are needed")
	case d.Price < 0 || d.Timeout <= 0 || len(d.Modes) == 0:
		return errors.New("a price, a timeout and an execution mode are needed")
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
	if schema.AdditionalProperties == nil && schema.PatternProperties == nil {
		s.known = make(map[string]bool, len(schema.Properties))
		for _, property := range schema.Properties {
			s.known[property.Name] = true
		}
	}
	s.compiledFunc = sync.OnceValues(func() (*jsonschema.Compiled, error) { return jsonschema.Compile(raw, formats) })
	return s, nil
}

// Unknown says that a module is not there, and which one was probably meant or, where none
// is near, what lists them all.
func (r *Registry) Unknown(module string) string {
	hint := "GET /v1/sdk/components lists the modules"
	if meant := r.nearest(module); meant != "" {
		hint = "did you mean " + meant + "?"
	}
	return fmt.Sprintf("unknown module %s; %s", quote(module), hint)
}

// nearest is the name of a module that was probably meant, in any case and with hyphens:
// the one that differs least, by at most two insertions, deletions or replacements, and by
// fewer than there are characters. "" where there is none.
func (r *Registry) nearest(asked string) (meant string) {
	const most = 2
	if len(asked) > 64 {
		return ""
	}
	asked, least := strings.ToUpper(strings.ReplaceAll(asked, "-", "_")), most+1
	for _, d := range r.list {
		if far := distance(asked, d.Module); far < least && far < len(asked) {
			meant, least = d.Module, far
		}
	}
	return meant
}

// distance is how many insertions, deletions and replacements make one text the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
