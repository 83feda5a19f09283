package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
)

// work returns the module WORK. Its outputs are a number and a list that depend only on its input
// and config. The config sets the percentage of inputs for which WORK fails.
func work() module {
	return made("WORK", credit.Credits(1), `{"type":"object","properties":{"value":{"type":"integer"},"list":{"type":"array","items":{"type":"integer"}}}}`,
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
				generation = of.(*lineage).note(call)
			}
			output, fails := worked(call.Input, config.Salt, config.Fails, generation)
			if fails {
				return component.Result{}, component.Permanent("BROKEN", "it broke")
			}
			return component.Result{Output: output}, nil
		})
}

// pure returns the module PURE: it is WORK without an effect.
func pure() module {
	m := without(work())
	m.Module = "PURE"
	return m
}

// worked returns the output of WORK, and whether it fails. In each generation after the first,
// WORK fails for fewer inputs.
func worked(input json.RawMessage, salt, fails, generation int) (output json.RawMessage, failed bool) {
	hash := fnv.New32a()
	fmt.Fprint(hash, salt, canonical(input))
	n := hash.Sum32() >> 4
	list := []int{}
	for i := range n % 5 {
		list = append(list, int(n%97+i))
	}
	text, _ := json.Marshal(map[string]any{"value": n % 1000, "list": list})
	return text, int(n/1000%100) < fails && int(n/100_000%3) >= generation
}
