package logic

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
	"github.com/weft-automation/weft/internal/kit/fault"
)

func raw(text string) json.RawMessage { return json.RawMessage(text) }

func TestOutcomes(t *testing.T) {
	for _, c := range []struct{ module, input, config, port, output string }{
		{"IF", `{"amount":12,"country":"DE"}`, `{"expression":"amount > 10 and country in [\"DE\",\"AT\"]"}`, "then", `{"result":true}`},
		{"IF", `{"amount":9}`, `{"expression":"amount > 10"}`, "else", `{"result":false}`},
		{"IF", `{}`, `{"expression":"amount?.value != nil"}`, "else", `{"result":false}`},
		{"IF", ``, `{"expression":"true"}`, "then", `{"result":true}`},
		{"SWITCH", `{"n":5}`, `{"cases":[{"name":"large","expression":"n > 9"},{"name":"odd","expression":"n % 2 == 1"},{"name":"five","expression":"n == 5"}]}`, "odd", `{"case":"odd"}`},
		{"SWITCH", `{"n":4}`, `{"cases":[{"name":"large","expression":"n > 9"}]}`, "default", `{"case":"default"}`},
		{"TRANSFORM", `{"prices":[3,4.5],"rate":2}`, `{"expression":"{total: sum(prices) * rate, big: 9007199254740993 + 0, html: \"<b>&\"}"}`, "next", `{"result":{"big":9007199254740993,"html":"<b>&","total":15}}`},
		{"TRANSFORM", `{"wei":123456789012345678901234567890,"one":1.50}`, `{"expression":"[wei, one, nil]"}`, "next", `{"result":[123456789012345678901234567890,1.50,null]}`},
		{"ARRAY_BUILDER", `{}`, `{}`, "next", `{"array":[]}`},
		{"ARRAY_BUILDER", `{"10":"k","2":"c","0":"a"}`, `{"itemType":"string"}`, "next", `{"array":["a","c","k"]}`},
		{"ARRAY_BUILDER", `{"0":1.0,"1":2}`, `{"itemType":"integer"}`, "next", `{"array":[1.0,2]}`},
		{"ARRAY_BUILDER", `{"0":null,"1":{"a":1}}`, `{"itemType":"any"}`, "next", `{"array":[null,{"a":1}]}`},
		{"STRING_CONSTANT", `{}`, `{"value":"<a>"}`, "next", `{"value":"<a>"}`},
		{"NUMBER_CONSTANT", `{}`, `{"value":1.10}`, "next", `{"value":1.10}`},
		{"BOOLEAN_CONSTANT", `{}`, `{"value":false}`, "next", `{"value":false}`},
		{"JSON_CONSTANT", `{}`, `{"value":null}`, "next", `{"value":null}`},
		{"JSON_CONSTANT", `{}`, `{"value":{"b":[1,2.0],"a":"x"}}`, "next", `{"value":{"a":"x","b":[1,2.0]}}`},
	} {
		for range 3 {
			got, err := Evaluate(c.module, raw(c.input), raw(c.config), Scope{})
			if err != nil || got.Port != c.port || string(got.Output) != c.output {
				t.Errorf("%s %s %s: %s by %s, %v; want %s by %s", c.module, c.input, c.config, got.Output, got.Port, err, c.output, c.port)
			}
		}
	}
}

func TestInvalidCallsFail(t *testing.T) {
	long := `"` + strings.Repeat("a", 700_000) + `"`
	for _, c := range []struct{ module, input, config, code, message string }{
		{"IF", `{"amount":"hunter2"}`, `{"expression":"amount > 10"}`, "INVALID_INPUT", "expression: line 1, column 8: only two numbers or two strings can be ordered, got a string and a number"},
		{"IF", `{"amount":1}`, `{"expression":"amount"}`, "INVALID_INPUT", "expression must evaluate to true or false"},
		{"IF", `{"amount":1}`, `{"expression":"amuont > 1"}`, "INVALID_INPUT", "unknown value amuont; the values are amount"},
		{"IF", `{}`, `{"expression":"1 +"}`, "INVALID_INPUT", "ends too early"},
		{"IF", `[]`, `{"expression":"true"}`, "INVALID_INPUT", "not an object"},
		{"IF", `{}`, `{"expression":7}`, "INVALID_INPUT", "match the module's schema"},
		{"IF", `{}`, `{"expression":"len(1..1000000000) > 0"}`, "INVALID_INPUT", "more than 16 MiB"},
		{"SWITCH", `{"n":1}`, `{"cases":[{"name":"a","expression":"n > 9"},{"name":"b","expression":"n"}]}`, "INVALID_INPUT", "cases[1].expression must evaluate to true or false"},
		{"SWITCH", `{}`, `{"cases":[{"name":"a","expression":"m"}]}`, "INVALID_INPUT", "cases[0].expression: line 1, column 1: unknown value m"},
		{"TRANSFORM", `{}`, `{"expression":"now()"}`, "INVALID_INPUT", "no clock"},
		{"TRANSFORM", `{"a":` + long + `}`, `{"expression":"a + a"}`, "INVALID_INPUT", "more than 1048576 bytes"},
		{"ARRAY_BUILDER", `{"0":1,"1":"x"}`, `{"itemType":"number"}`, "INVALID_INPUT", "item 1 must be of the type number"},
		{"ARRAY_BUILDER", `{"0":1.5}`, `{"itemType":"integer"}`, "INVALID_INPUT", "item 0 must be of the type integer"},
		{"ARRAY_BUILDER", `{"0":null}`, `{"itemType":"object"}`, "INVALID_INPUT", "item 0"},
		{"ARRAY_BUILDER", `{"00":1}`, `{}`, "INVALID_INPUT", "indexes from 0 to 999"},
		{"ARRAY_BUILDER", `{"1000":1}`, `{}`, "INVALID_INPUT", "indexes"},
		{"ARRAY_BUILDER", `{"0":` + long + `,"1":` + long + `}`, `{}`, "OUTPUT_TOO_LARGE", "1048576"},
		{"STRING_CONSTANT", `{}`, `{"value":1}`, "INVALID_INPUT", "value must be a string"},
		{"NUMBER_CONSTANT", `{}`, `{"value":"1"}`, "INVALID_INPUT", "value must be a number"},
		{"BOOLEAN_CONSTANT", `{}`, `{}`, "INVALID_INPUT", "value must be a boolean"},
		{"JSON_CONSTANT", `{}`, `{}`, "INVALID_INPUT", "value must be any value"},
		{"FOR_EACH", `{}`, `{}`, "INTERNAL_ERROR", "without a run"},
		{"RANDOM_UUID", `{}`, `{}`, "INTERNAL_ERROR", "without a run"},
	} {
		got, err := Evaluate(c.module, raw(c.input), raw(c.config), Scope{})
		failed, ok := errors.AsType[*component.Error](err)
		if !ok || failed.Code != c.code || failed.Retryable || !strings.Contains(failed.Message, c.message) || got.Output != nil {
			t.Errorf("%s %.60s %.60s: %.60s, %v; want %s %s", c.module, c.input, c.config, got.Output, err, c.code, c.message)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: a value is in %v", c.module, err)
		}
	}
	_, err := Evaluate("IF", raw(`{}`), raw(`{"expression":"true and\n nowhere"}`), Scope{})
	failed, _ := errors.AsType[*component.Error](err)
	if failed == nil || string(failed.Details) != `{"column":2,"field":"expression","line":2,"reason":"UNKNOWN_NAME"}` {
		t.Errorf("%+v", failed)
	}
}

func TestConfigIsValidatedWhenSaved(t *testing.T) {
	cases := func(list string) string { return `{"cases":[` + list + `]}` }
	for _, c := range []struct{ module, config, pointer, message string }{
		{"IF", `{"expression":"amount > 10"}`, "", ""},
		{"IF", `{"expression":"amount > {{env.LIMIT}}"}`, "", ""},
		{"IF", `{"expression":"amount >"}`, "/expression", "line 1, column 9: the expression ends too early: expected a value"},
		{"IF", `{"expression":"now() > 1"}`, "/expression", "no clock"},
		{"IF", `{}`, "/expression", "empty"},
		{"TRANSFORM", `{"expression":"lenn(a)"}`, "/expression", "unknown function lenn"},
		{"SWITCH", cases(`{"name":"a","expression":"true"},{"name":"b-2_X","expression":"x == 1"}`), "", ""},
		{"SWITCH", cases(``), "/cases", "1 to 50"},
		{"SWITCH", `{}`, "/cases", "1 to 50"},
		{"SWITCH", `{"cases":{}}`, "/cases", "array"},
		{"SWITCH", cases(`{"name":"a","expression":"true"},{"name":"a","expression":"false"}`), "/cases/1/name", "case 0"},
		{"SWITCH", cases(`{"name":"default","expression":"true"}`), "/cases/0/name", "reserved"},
		{"SWITCH", cases(`{"name":"error","expression":"true"}`), "/cases/0/name", "reserved"},
		{"SWITCH", cases(`{"name":"a b","expression":"true"}`), "/cases/0/name", "letters"},
		{"SWITCH", cases(`{"name":"","expression":"true"}`), "/cases/0/name", "letters"},
		{"SWITCH", cases(`{"name":"a","expression":"true"},{"name":"b","expression":"("}`), "/cases/1/expression", "expected a value or )"},
		{"ON_SCHEDULE", `{"cron":"0 9 * * MON-FRI","timeZone":"Europe/Berlin"}`, "", ""},
		{"ON_SCHEDULE", `{"cron":"*/5 * * * *"}`, "", ""},
		{"ON_SCHEDULE", `{"cron":"@daily"}`, "", ""},
		{"ON_SCHEDULE", `{"cron":"0 0 29 2 *"}`, "", ""},
		{"ON_SCHEDULE", `{"cron":"0 9 * * 7"}`, "", ""},
		{"ON_SCHEDULE", `{"cron":"{{env.CRON}}"}`, "", ""},
		{"ON_SCHEDULE", `{"cron":"0 0 30 2 *"}`, "/cron", "never fires"},
		{"ON_SCHEDULE", `{"cron":"* * * * * *"}`, "/cron", "five fields"},
		{"ON_SCHEDULE", `{"cron":"60 * * * *"}`, "/cron", "minute: expected numbers from 0 to 59"},
		{"ON_SCHEDULE", `{"cron":"TZ=0"}`, "/cron", "five fields"},
		{"ON_SCHEDULE", `{"cron":"CRON_TZ=Europe/Berlin 0 9 * * *"}`, "/cron", "minute"},
		{"ON_SCHEDULE", `{"cron":"@every 1s"}`, "/cron", "minute"},
		{"ON_SCHEDULE", `{"cron":"@reboot"}`, "/cron", "minute"},
		{"ON_SCHEDULE", `{"cron":"","timeZone":"UTC"}`, "/cron", "minute"},
		{"ON_SCHEDULE", `{"cron":"0 9 * * *","timeZone":"Mars/Olympus"}`, "/timeZone", "IANA"},
		{"ON_SCHEDULE", `{"cron":"0 9 * * *","timeZone":"Local"}`, "/timeZone", "IANA"},
		{"ON_SCHEDULE", `{"cron":"0 9 * * *","timeZone":"../../etc/passwd"}`, "/timeZone", "IANA"},
		{"ON_WEBHOOK", `{"verification":{"secret":"correct-horse","header":"X-A"}}`, "", ""},
		{"ON_WEBHOOK", `{"verification":{"secret":"correct-horse","scheme":"standardWebhooks"}}`, "", ""},
		{"ON_WEBHOOK", `{"verification":{"secret":"whsec_Y29ycmVjdC1ob3JzZQ==","scheme":"standardWebhooks"}}`, "", ""},
		{"ON_WEBHOOK", `{"verification":{"secret":"whsec_{{env.SECRET}}","scheme":"standardWebhooks"}}`, "", ""},
		{"ON_WEBHOOK", `{"verification":{"secret":"whsec_correct-horse","scheme":"standardWebhooks"}}`, "/verification/secret", "base64"},
		{"ON_WEBHOOK", `{"verification":{"secret":"correct-horse","scheme":"hmac"}}`, "/verification/header", "required"},
		{"WAIT_UNTIL", `{"timestamp":"2026-12-24T18:00:00+01:00"}`, "", ""},
		{"WAIT_UNTIL", `{}`, "", ""},
		{"WAIT_UNTIL", `{"timestamp":"{{env.DEADLINE}}"}`, "", ""},
		{"WAIT_UNTIL", `{"timestamp":"2026-12-24"}`, "/timestamp", "RFC 3339"},
		{"ON_API_CALLED", `{}`, "", ""},
		{"ON_API_CALLED", `{"inputSchema":{"type":"object"}}`, "", ""},
		{"ON_API_CALLED", `{"inputSchema":{"type":"array"}}`, "/inputSchema/type", "object"},
		{"ON_API_CALLED", `{"inputSchema":{"type":"object","properties":{"a":{"type":"number"}},"$defs":{}}}`, "", ""},
		{"ON_API_CALLED", `{"inputSchema":{"type":"objekt"}}`, "/inputSchema/type", ""},
		{"ON_API_CALLED", `{"inputSchema":{"$ref":"https://example.org/schema"}}`, "/inputSchema", ""},
		{"ON_API_CALLED", `{"inputSchema":7}`, "/inputSchema", ""},
		{"RUN_WORKFLOW", `{"workflow":"ship-order"}`, "", ""},
		{"RUN_WORKFLOW", `{"workflowId":"019aa5f3-0a1b-7c2d-8e3f-4a5b6c7d8e9f"}`, "", ""},
		{"RUN_WORKFLOW", `{"version":1}`, "/workflow", "required"},
		{"RUN_WORKFLOW", `{"workflow":"ship-order","workflowId":"019aa5f3-0a1b-7c2d-8e3f-4a5b6c7d8e9f"}`, "/workflow", "together"},
		{"DELAY", `{"durationMs":1}`, "", ""},
		{"RANDOM_UUID", `{}`, "", ""},
	} {
		got := configFaults(c.module, raw(c.config))
		switch {
		case c.pointer == "" && len(got) > 0:
			t.Errorf("%s %s: %+v", c.module, c.config, got)
		case c.pointer != "" && (len(got) != 1 || got[0].Pointer != c.pointer || !strings.Contains(got[0].Message, c.message) || got[0].Code == ""):
			t.Errorf("%s %s: %+v, want %s at %s", c.module, c.config, got, c.message, c.pointer)
		}
	}
	all := configFaults("SWITCH", raw(cases(`{"name":"default","expression":"("},{"name":"a","expression":"1 +"},{"name":"a","expression":"true"}`)))
	if len(all) != 4 {
		t.Errorf("not all faults at once: %+v", all)
	}
}

// configFaults returns the faults of a config, those of its expressions included.
func configFaults(name string, config json.RawMessage) []fault.Detail {
	all := CheckConfig(name, config)
	if m := lookup(name); m != nil && m.flow.Expressions != nil {
		all = append(all, m.flow.Expressions(config, nil)...)
	}
	return all
}

// Values that the schema rejects need no further check.
func TestWaitNeedsValueInConfigOrInput(t *testing.T) {
	for _, c := range []struct{ module, input, config, bound, missing string }{
		{"DELAY", `{}`, `{"durationMs":1}`, "", ""},
		{"DELAY", `{"durationMs":1}`, `{}`, "", ""},
		{"DELAY", `{}`, `{}`, "durationMs", ""},
		{"DELAY", `{}`, `{"durationMs":"{{env.PAUSE}}"}`, "", ""},
		{"DELAY", ``, ``, "", "/config/durationMs"},
		{"DELAY", `{"timestamp":"2026-12-24T18:00:00Z"}`, `{}`, "timestamp", "/config/durationMs"},
		{"WAIT_UNTIL", `{}`, `{"timestamp":"2026-12-24T18:00:00Z"}`, "", ""},
		{"WAIT_UNTIL", `{}`, `{}`, "", "/config/timestamp"},
		{"WAIT_FOR_SIGNAL", `{}`, `{}`, "", ""},
		{"ARRAY_BUILDER", `{"0":1,"1":"x"}`, `{}`, "", ""},
		{"ARRAY_BUILDER", `{"0":1,"1":"x"}`, `{"itemType":"any"}`, "", ""},
		{"ARRAY_BUILDER", `{"0":1,"1":2.5}`, `{"itemType":"number"}`, "", ""},
		{"ARRAY_BUILDER", `{"0":1,"1":2.5}`, `{"itemType":"integer"}`, "", "/input/1"},
		{"ARRAY_BUILDER", `{"0":1,"7":"x"}`, `{"itemType":"number"}`, "", "/input/7"},
		{"ARRAY_BUILDER", `{"0":null}`, `{"itemType":"object"}`, "", "/input/0"},
		{"ARRAY_BUILDER", `{"0":1,"7":"x"}`, `{"itemType":"number"}`, "7", ""},
		{"ARRAY_BUILDER", `{"7":{"a":1}}`, `{"itemType":"array"}`, "7.a", ""},
		{"ARRAY_BUILDER", `{"7":"x"}`, `{"itemType":"number"}`, "70 0", "/input/7"},
		{"ARRAY_BUILDER", `{"0":"{{env.N}}"}`, `{"itemType":"integer"}`, "", ""},
		{"ARRAY_BUILDER", `{"0":"a{{env.N}}"}`, `{"itemType":"string"}`, "", ""},
		{"ARRAY_BUILDER", `{"0":"{{env.N}}"}`, `{"itemType":"object"}`, "", "/input/0"},
		{"ARRAY_BUILDER", `{"0":"x"}`, `{"itemType":"{{env.TYPE}}"}`, "", ""},
	} {
		got := lookup(c.module).CheckWhole(raw(c.input), raw(c.config), strings.Fields(c.bound))
		if len(got) > 0 != (c.missing != "") || len(got) > 0 && got[0].Pointer != c.missing {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

func TestSchemaRejectsOutOfRangeValues(t *testing.T) {
	bench := componenttest.New(t, Modules()...)
	for _, c := range []struct{ module, input, config string }{
		{"FOR_EACH", `{}`, `{}`},
		{"FOR_EACH", `{"items":{}}`, `{}`},
		{"FOR_EACH", `{"items":[]}`, `{"concurrency":0}`},
		{"FOR_EACH", `{"items":[]}`, `{"perSecond":0}`},
		{"FOR_EACH", `{"items":[]}`, `{"perSecond":1000.5}`},
		{"FOR_EACH", `{"items":[]}`, `{"concurrency":101}`},
		{"FOR_EACH", `{"items":[]}`, `{"onItemFailure":"stop"}`},
		{"FOR_EACH", `{"items":[` + strings.Repeat("1,", 10_000) + `1]}`, `{}`},
		{"IF", `{}`, `{}`},
		{"IF", `{}`, `{"expression":""}`},
		{"IF", `{}`, `{"expression":"` + strings.Repeat("a", 4097) + `"}`},
		{"SWITCH", `{}`, `{"cases":[]}`},
		{"SWITCH", `{}`, `{"cases":[{"name":"a"}]}`},
		{"SWITCH", `{}`, `{"cases":[{"name":"a b","expression":"true"}]}`},
		{"ARRAY_BUILDER", `{"x":1}`, `{}`},
		{"ARRAY_BUILDER", `{"01":1}`, `{}`},
		{"ARRAY_BUILDER", `{}`, `{"itemType":"date"}`},
		{"STRING_CONSTANT", `{}`, `{}`},
		{"NUMBER_CONSTANT", `{}`, `{"value":"1"}`},
		{"DELAY", `{}`, `{"durationMs":0}`},
		{"DELAY", `{}`, `{"durationMs":2592000001}`},
		{"DELAY", `{"durationMs":1.5}`, `{}`},
		{"WAIT_UNTIL", `{}`, `{"timestamp":"tomorrow"}`},
		{"WAIT_UNTIL", `{"timestamp":7}`, `{}`},
		{"WAIT_FOR_SIGNAL", `{}`, `{"name":"a"}`},
		{"WAIT_FOR_SIGNAL", `{}`, `{"name":"a/b","timeoutMs":1}`},
		{"WAIT_FOR_SIGNAL", `{}`, `{"name":"a","timeoutMs":0}`},
		{"RUN_WORKFLOW", `{}`, `{"workflow":"Ship order"}`},
		{"RUN_WORKFLOW", `{}`, `{"workflow":7}`},
		{"RUN_WORKFLOW", `{}`, `{"workflowId":"abc"}`},
		{"RUN_WORKFLOW", `{}`, `{"workflowId":"019aa5f3-0a1b-7c2d-8e3f-4a5b6c7d8e9f","version":0}`},
		{"REPEAT", `{}`, `{}`},
		{"REPEAT", `{}`, `{"maxIterations":0}`},
		{"REPEAT", `{}`, `{"maxIterations":10001}`},
		{"REPEAT", `{}`, `{"maxIterations":1,"delayMs":-1}`},
		{"REPEAT", `{}`, `{"maxIterations":1,"maxDurationMs":999}`},
		{"CONTINUE", `{"done":"yes"}`, `{}`},
		{"RESPOND", `["done"]`, `{}`},
		{"RESPOND", `{"a":"\u0000"}`, `{}`},
		{"FAIL", `{}`, `{"code":"lower"}`},
		{"ON_SCHEDULE", `{}`, `{}`},
		{"ON_WEBHOOK", `{}`, `{"verification":{"header":"X-A"}}`},
		{"ON_WEBHOOK", `{}`, `{"verification":{"secret":"short","header":"X-A"}}`},
		{"ON_API_CALLED", `{}`, `{"inputSchema":"object"}`},
	} {
		if err := bench.Registry.Check(c.module, raw(c.input), raw(c.config)); err == nil {
			t.Errorf("%s %.80s %.80s is accepted", c.module, c.input, c.config)
		}
	}
}

func TestOnlyTransformRunsOutsideWorkflows(t *testing.T) {
	bench := componenttest.New(t, Modules()...)
	output, failed := bench.Run(t, "TRANSFORM", `{"name":"Ada"}`, `{"expression":"upper(name) + \"!\""}`)
	if failed != nil || string(output) != `{"result":"ADA!"}` {
		t.Errorf("%s, %v", output, failed)
	}
	if _, failed = bench.Run(t, "TRANSFORM", `{"secret":"hunter2"}`, `{"expression":"secret - 1"}`); failed == nil || failed.Code != component.CodeInvalidInput || failed.Retryable {
		t.Errorf("%v", failed)
	}
	for _, d := range bench.Registry.List() {
		if d.Price != 0 || d.Effect != component.EffectNone || d.Repeat != component.RepeatPure || d.Category != "LOGIC" {
			t.Errorf("%s: %+v", d.Module, d)
		}
		if d.Module == "TRANSFORM" {
			continue
		}
		if !slices.Equal(d.Modes, []component.Mode{component.ModeWorkflow}) {
			t.Errorf("%s has the modes %v", d.Module, d.Modes)
		}
		if _, failed := bench.Look(t, d.Module, component.Call{Input: raw(`{}`), Config: raw(`{}`)}); failed == nil || failed.Code != component.CodeInvalidInput || failed.Message != d.Module+" can only be executed in a workflow" {
			t.Errorf("%s: %v", d.Module, failed)
		}
	}
}

// Outputs of evaluated modules match the schemas in the catalogue.
func TestOutcomesFitTheirSchemas(t *testing.T) {
	for _, one := range Modules() {
		m := one.(*module)
		if m.evaluate == nil {
			continue
		}
		var schemas [2]struct{ Examples []json.RawMessage }
		for i, schema := range []json.RawMessage{m.Input, m.Config} {
			if err := json.Unmarshal(schema, &schemas[i]); err != nil {
				t.Fatal(err)
			}
		}
		output := componenttest.Compile(t, m.Output)
		for _, config := range schemas[1].Examples {
			if len(m.CheckConfig(config)) > 0 {
				t.Errorf("%s: the example %s: %+v", m.Module, config, m.CheckConfig(config))
			}
			outcome, err := Evaluate(m.Module, schemas[0].Examples[0], config, Scope{})
			if err != nil {
				t.Errorf("%s with %s: %v", m.Module, config, err)
				continue
			}
			value, err := members(outcome.Output)
			if err != nil || output.Validate(map[string]any(value)) != nil {
				t.Errorf("%s gave %s", m.Module, outcome.Output)
			}
			if ports, ok := portsOf(m.Module, config); !ok || !slices.Contains(ports, outcome.Port) {
				t.Errorf("%s continued at %s, which is not one of %v", m.Module, outcome.Port, ports)
			}
		}
	}
}

func TestPorts(t *testing.T) {
	for _, c := range []struct {
		module, config string
		ports          string
		ok             bool
	}{
		{"IF", `{}`, "then else", true},
		{"FOR_EACH", `{}`, "each done next", true},
		{"WAIT_FOR_SIGNAL", `{}`, "next timeout", true},
		{"SWITCH", `{"cases":[{"name":"b","expression":"true"},{"name":"a","expression":"true"},{"name":"a","expression":"x"},{"name":"error","expression":"x"}]}`, "b a default", true},
		{"SWITCH", `{"cases":7}`, "default", true},
		{"SWITCH", ``, "default", true},
		{"TRANSFORM", `{}`, "next", true},
		{"ON_API_CALLED", `{}`, "next", true},
		{"RANDOM_UUID", `{}`, "next", false},
	} {
		ports, ok := portsOf(c.module, raw(c.config))
		if strings.Join(ports, " ") != c.ports || ok != c.ok {
			t.Errorf("%s %s: %v, %v", c.module, c.config, ports, ok)
		}
	}
	ports, _ := portsOf("IF", nil)
	ports[0] = "changed"
	if again, _ := portsOf("IF", nil); again[0] != "then" {
		t.Error("the table can be changed from outside")
	}
}

func TestFlowsAreValidInAGraph(t *testing.T) {
	registry, err := component.NewRegistry(Modules()...)
	if err != nil {
		t.Fatal(err)
	}
	for module, want := range map[string]string{"ON_API_CALLED": "trigger", "ON_SCHEDULE": "trigger", "ON_WEBHOOK": "trigger", "FOR_EACH": "loop", "SWITCH": "cases", "IF": "then else", "WAIT_FOR_SIGNAL": "next timeout"} {
		entry, _ := registry.Lookup(module)
		flow := entry.Flow()
		got := strings.Join(flow.Ports, " ")
		switch {
		case flow.Trigger:
			got = "trigger"
		case flow.Loop:
			got = "loop"
		case flow.CasePorts != nil:
			got = "cases"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", module, got, want)
		}
	}
}

func TestWaitsAreDue(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ module, input, config, want string }{
		{"DELAY", `{}`, `{"durationMs":60000}`, "2026-01-31T12:01:00Z"},
		{"DELAY", ``, `{"durationMs":6e4}`, "2026-01-31T12:01:00Z"},
		{"DELAY", `{"durationMs":1000}`, `{"durationMs":60000}`, "2026-01-31T12:00:01Z"},
		{"DELAY", `{}`, `{"durationMs":2592000000}`, "2026-03-02T12:00:00Z"},
		{"DELAY", `{}`, `{}`, "durationMs is required"},
		{"DELAY", `{"durationMs":0}`, `{}`, "between 1 and 2592000000"},
		{"DELAY", `{"durationMs":2592000001}`, `{}`, "between"},
		{"DELAY", `{"durationMs":"soon"}`, `{}`, "whole number"},
		{"WAIT_UNTIL", `{}`, `{"timestamp":"2026-02-01T00:00:00+01:00"}`, "2026-01-31T23:00:00Z"},
		{"WAIT_UNTIL", `{"timestamp":"2026-02-02T00:00:00Z"}`, `{"timestamp":"2026-02-01T00:00:00Z"}`, "2026-02-02T00:00:00Z"},
		{"WAIT_UNTIL", `{}`, `{"timestamp":"2020-01-01T00:00:00Z"}`, "2020-01-01T00:00:00Z"},
		{"WAIT_UNTIL", `{}`, `{"timestamp":"2028-01-01T00:00:00Z"}`, "within 366 days"},
		{"WAIT_UNTIL", `{}`, `{"timestamp":"today"}`, "RFC 3339"},
		{"WAIT_UNTIL", `{}`, ``, "timestamp is required"},
	} {
		got, err := Due(c.module, raw(c.input), raw(c.config), now)
		text := got.UTC().Format(time.RFC3339)
		if err != nil {
			text = err.Error()
			if failed, ok := errors.AsType[*component.Error](err); !ok || failed.Code != component.CodeInvalidInput || failed.Retryable {
				t.Errorf("%s: %v", c.module, err)
			}
		}
		if !strings.Contains(text, c.want) {
			t.Errorf("%s %s %s: %s, want %s", c.module, c.input, c.config, text, c.want)
		}
	}
}
