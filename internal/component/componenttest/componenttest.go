// Package componenttest lets tests call modules as the engine does: through Check and Run of a
// registry, with every output validated against the module's own output schema.
//
// Only tests import it. An output that violates its schema always fails the test.
package componenttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/kit/uuid7"
)

// Bench runs modules for one test.
type Bench struct {
	Registry *component.Registry
	outputs  map[string]*jsonschema.Compiled
}

// New returns a bench with the modules.
func New(t testing.TB, modules ...component.Module) *Bench {
	t.Helper()
	registry, err := component.NewRegistry(modules...)
	if err == nil {
		err = registry.Compile()
	}
	if err != nil {
		t.Fatal(err)
	}
	b := &Bench{Registry: registry, outputs: map[string]*jsonschema.Compiled{}}
	for _, d := range registry.List() {
		b.outputs[d.Module] = Compile(t, d.Output)
	}
	return b
}

// Compile compiles a schema with format assertions.
func Compile(t testing.TB, schema json.RawMessage) *jsonschema.Compiled {
	t.Helper()
	compiled, err := jsonschema.Compile(schema, nil)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// Run checks and runs one call until it has an output or an error. Waits are shortened to a few
// milliseconds. The input and config are JSON strings. If Check rejects the call, Run returns
// INVALID_INPUT.
func (b *Bench) Run(t testing.TB, module, input, config string) (json.RawMessage, *component.Error) {
	t.Helper()
	call := component.Call{ExecutionID: uuid.Must(uuid7.New()), EffectKey: uuid.Must(uuid7.New()), Attempt: 1, Input: json.RawMessage(input), Config: json.RawMessage(config)}
	if err := b.Registry.Check(module, call.Input, call.Config); err != nil {
		f, _ := errors.AsType[*fault.Error](err)
		if f == nil {
			t.Fatalf("check %s: %v", module, err)
		}
		return nil, component.Permanent(component.CodeInvalidInput, "%s", f.Message)
	}
	for {
		result, failed := b.Look(t, module, call)
		if failed != nil || result.Wait == nil {
			return result.Output, failed
		}
		call.State = result.Wait.State
		pause(t, min(result.Wait.After, 25*time.Millisecond))
	}
}

// Look makes one call and returns its result, even if the module requests a wait.
func (b *Bench) Look(t testing.TB, module string, call component.Call) (component.Result, *component.Error) {
	t.Helper()
	result, err := b.Registry.Run(t.Context(), module, call)
	if err != nil {
		failed, ok := err.(*component.Error)
		if !ok {
			t.Fatalf("%s: error of type %T: %v", module, err, err)
		}
		return result, failed
	}
	if result.Wait == nil {
		b.hold(t, module, result.Output)
	}
	return result, nil
}

// hold fails the test if an output violates the module's schema.
func (b *Bench) hold(t testing.TB, module string, output json.RawMessage) {
	t.Helper()
	value, err := strictjson.Decode(output)
	if err != nil {
		t.Fatalf("%s: output %s: %v", module, output, err)
	}
	if err := b.outputs[module].Validate(value); err != nil {
		t.Errorf("%s: output %.2000s does not fit its schema: %v", module, output, err)
	}
	if names := unnamed(b.outputs[module], value, ""); len(names) > 0 {
		t.Errorf("%s: the schema of the output does not name %v", module, names)
	}
}

// unnamed returns the fields of a value that its schema doesn't declare. The schema allows such
// fields, but readers of the schema wouldn't expect them.
func unnamed(schema *jsonschema.Compiled, value any, at string) (all []string) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			place := at + "/" + name
			if known := schema.Properties[name]; known != nil {
				all = append(all, unnamed(known, inner, place)...)
			} else if len(schema.Properties) > 0 && schema.AdditionalProperties == nil && len(schema.PatternProperties) == 0 {
				all = append(all, place)
			}
		}
	case []any:
		for i, item := range value {
			if schema.Items2020 != nil {
				all = append(all, unnamed(schema.Items2020, item, fmt.Sprint(at, "/", i))...)
			}
		}
	}
	return all
}

func pause(t testing.TB, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// Refusal formats an error of Check, with one line per fault and its pointer. It returns "" for
// nil.
func Refusal(err error) string {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return ""
	}
	var text strings.Builder
	for _, one := range f.Details {
		text.WriteString(one.Pointer + ": " + one.Message + "\n")
	}
	return text.String()
}
