package logic

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// names returns the names of all modules of the category.
func names() []string {
	var all []string
	for _, one := range Modules() {
		all = append(all, one.Describe().Module)
	}
	return all
}

// FuzzConfigs validates arbitrary configs: each fault has a pointer into the config, and the ports
// of a SWITCH are valid port names.
func FuzzConfigs(f *testing.F) {
	for _, config := range []string{
		`{"expression":"a > 1"}`, `{"cases":[{"name":"a","expression":"true"},{"name":"error","expression":"("}]}`, `{"cases":{}}`, `{"cron":"0 9 * * *","timeZone":"Local"}`,
		`{"timestamp":"2026-13-01"}`, `{"verification":{"secret":"correct-horse"}}`, `{"inputSchema":{"type":"object","$ref":"#"}}`, `{"value":1e400}`, `null`, `[]`, `{`,
	} {
		for i := range names() {
			f.Add(i, config)
		}
	}
	f.Fuzz(func(t *testing.T, which int, config string) {
		all := names()
		name := all[(which%len(all)+len(all))%len(all)]
		for _, fault := range CheckConfig(name, json.RawMessage(config)) {
			if !strings.HasPrefix(fault.Pointer, "/") || fault.Message == "" || fault.Code == "" {
				t.Errorf("%s %q: %+v", name, config, fault)
			}
		}
		ports, ok := portsOf(name, json.RawMessage(config))
		if !ok || len(ports) == 0 && name != component.Continue {
			t.Errorf("%s %q has the ports %q", name, config, ports)
		}
		seen := map[string]bool{}
		for _, port := range ports {
			if seen[port] || port == "" || port == graph.PortError {
				t.Errorf("%s %q has the ports %q", name, config, ports)
			}
			seen[port] = true
		}
	})
}

// FuzzOutcomes evaluates modules with arbitrary valid configs. The output can be stored and the
// port exists, or the error is INVALID_INPUT. A second evaluation has the same result.
func FuzzOutcomes(f *testing.F) {
	for _, seed := range [][3]string{
		{"IF", `{"amount":12}`, `{"expression":"amount > 10"}`}, {"SWITCH", `{"n":4}`, `{"cases":[{"name":"a","expression":"n == 4"}]}`},
		{"TRANSFORM", `{"a":[1,{"b":1e400}]}`, `{"expression":"a | map(#) | first()"}`}, {"ARRAY_BUILDER", `{"0":1,"2":null}`, `{"itemType":"any"}`},
		{"NUMBER_CONSTANT", `{}`, `{"value":1e400}`}, {"JSON_CONSTANT", ``, `{"value":{"a":"\u0000"}}`}, {"STRING_CONSTANT", `{`, `{"value":"\ud800"}`},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, name, input, config string) {
		got, err := Evaluate(name, json.RawMessage(input), json.RawMessage(config), Scope{})
		again, _ := Evaluate(name, json.RawMessage(input), json.RawMessage(config), Scope{})
		if string(got.Output) != string(again.Output) || got.Port != again.Port {
			t.Errorf("%s %q %q: %s by %s, then %s by %s", name, input, config, got.Output, got.Port, again.Output, again.Port)
		}
		if err != nil {
			if _, ok := errors.AsType[*component.Error](err); !ok {
				t.Errorf("error of type %T: %v", err, err)
			}
			return
		}
		if len(CheckConfig(name, json.RawMessage(config))) > 0 {
			return // a workflow with this config can't be saved
		}
		if strictjson.Check([]byte(input)) == nil && strictjson.Check([]byte(config)) == nil && strictjson.Check(got.Output) != nil {
			t.Errorf("%s %q %q gives %q, which cannot be stored", name, input, config, got.Output)
		}
		ports, ok := portsOf(name, json.RawMessage(config))
		found := false
		for _, port := range ports {
			found = found || port == got.Port
		}
		if !ok || !found {
			t.Errorf("%s %q goes on by %s, of %q", name, config, got.Port, ports)
		}
	})
}

// FuzzDue checks that a due time is within the limits, or the error is INVALID_INPUT.
func FuzzDue(f *testing.F) {
	for _, config := range []string{`{"durationMs":1}`, `{"durationMs":1e3}`, `{"durationMs":-1}`, `{"timestamp":"2026-02-01T00:00:00+01:00"}`, `{"timestamp":"9999-12-31T23:59:60Z"}`, `{"durationMs":"1"}`, ``} {
		f.Add(config, `{}`)
		f.Add(`{}`, config)
	}
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, input, config string) {
		for _, name := range []string{delay.Module, waitUntil.Module} {
			at, err := Due(name, json.RawMessage(input), json.RawMessage(config), now)
			if err != nil {
				if failed, ok := errors.AsType[*component.Error](err); !ok || failed.Code != component.CodeInvalidInput || failed.Retryable {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			if at.Sub(now) > maxUntil || name == delay.Module && (at.Sub(now) <= 0 || at.Sub(now) > maxDelay) {
				t.Errorf("%s %q %q is over at %s", name, input, config, at)
			}
		}
	})
}
