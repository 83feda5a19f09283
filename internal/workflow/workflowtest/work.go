package workflowtest

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
)

// Module is a component whose behavior is a function.
type Module struct {
	component.Descriptor
	Does func(ctx context.Context, call component.Call) (component.Result, error)
}

// Describe returns the module's description.
func (m Module) Describe() component.Descriptor { return m.Descriptor }

// Run calls the module's function.
func (m Module) Run(ctx context.Context, call component.Call) (component.Result, error) {
	return m.Does(ctx, call)
}

// Anything is the schema of any JSON object.
const Anything = `{"type":"object","additionalProperties":true}`

// Made returns a module with the specified output schema. It has an effect, so its stages are
// executions.
func Made(name string, price credit.Amount, output string, run func(ctx context.Context, call component.Call) (component.Result, error)) Module {
	return Module{component.Descriptor{
		Module: name, Title: name, Description: "A component of the tests.", Category: "UTILITY",
		Input: json.RawMessage(Anything), Config: json.RawMessage(Anything), Output: json.RawMessage(output), Price: price,
		Timeout: 20 * time.Second, Effect: component.EffectWrite, Repeat: component.RepeatPure,
		Modes: []component.Mode{component.ModeComponent, component.ModeWorkflow},
	}, run}
}

// WithoutEffect returns the module without an effect, so its stages are computed.
func WithoutEffect(m Module) Module {
	m.Effect = component.EffectNone
	return m
}

// Price is the price of WORK and PURE.
var Price = credit.Credits(1)

// Work returns the module WORK. Its outputs are a number and a list that depend only on its input
// and config. The config sets the percentage of inputs for which WORK fails.
func Work() Module {
	return Made("WORK", Price, `{"type":"object","properties":{"value":{"type":"integer"},"list":{"type":"array","items":{"type":"integer"}}}}`,
		func(ctx context.Context, call component.Call) (component.Result, error) {
			var config struct {
				Salt, Fails, Ms int
				Lineage         string
			}
			if err := json.Unmarshal(call.Config, &config); err != nil {
				return component.Result{}, err
			}
			if config.Ms > 0 {
				select {
				case <-time.After(time.Duration(config.Ms) * time.Millisecond):
				case <-ctx.Done():
					return component.Result{}, ctx.Err()
				}
			}
			generation := 0
			if of, found := lineages.Load(config.Lineage); found {
				generation = of.(*Lineage).note(call)
			}
			output, fails := Worked(call.Input, config.Salt, config.Fails, generation)
			if fails {
				return component.Result{}, component.Permanent("BROKEN", "it broke")
			}
			return component.Result{Output: output}, nil
		})
}

// Pure returns the module PURE: it is WORK without an effect.
func Pure() Module {
	m := WithoutEffect(Work())
	m.Module = "PURE"
	return m
}

// Worked returns the output of WORK, and whether it fails. In each generation after the first,
// WORK fails for fewer inputs.
func Worked(input json.RawMessage, salt, fails, generation int) (output json.RawMessage, failed bool) {
	hash := fnv.New32a()
	fmt.Fprint(hash, salt, Canonical(input))
	n := hash.Sum32() >> 4
	list := []int{}
	for i := range n % 5 {
		list = append(list, int(n%97+i))
	}
	text, _ := json.Marshal(map[string]any{"value": n % 1000, "list": list})
	return text, int(n/1000%100) < fails && int(n/100_000%3) >= generation
}
