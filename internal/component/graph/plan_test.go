package graph_test

import (
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/status"
)

// library maps names to the modules of the tests.
type library map[string]graph.Module

func (l library) Module(name string) (graph.Module, bool) {
	m, ok := l[name]
	return m, ok
}

func (l library) Unknown(name string) string { return fmt.Sprintf("unknown module %q", name) }

var open = json.RawMessage(`{"type":"object","additionalProperties":true}`)

var modules = library{
	"START": {Trigger: true, Output: open},
	"CLOCK": {Trigger: true, Output: json.RawMessage(`{"type":"object","properties":{"scheduledAt":{"type":"string"}}}`)},
	"WORK":  {Input: open, Output: open},
	"FAIL":  {Fails: true},
	"IF":    {Ports: []string{"then", "else"}, Input: open, Output: json.RawMessage(`{"type":"object","properties":{"result":{"type":"boolean"}}}`)},
	"SWITCH": {Input: open, Output: open, CasePorts: func(config json.RawMessage) []string {
		var read struct{ Cases []struct{ Name string } }
		_ = json.Unmarshal(config, &read)
		var names []string
		for _, c := range read.Cases {
			names = append(names, c.Name)
		}
		return names
	}},
	"WAIT":     {Ports: []string{"next", "timeout"}, Input: open, Output: json.RawMessage(`{"type":"object","properties":{"payload":{}}}`)},
	"REPEAT":   {Loop: true, Repeats: true, Ports: []string{graph.PortExhausted}, Output: json.RawMessage(`{"type":"object","properties":{"state":{},"index":{"type":"integer"},"count":{"type":"integer"}},"additionalProperties":false}`)},
	"CONTINUE": {Continues: true, Ports: []string{}},
	"FOR_EACH": {
		Loop:   true,
		Input:  json.RawMessage(`{"type":"object","required":["items"],"properties":{"items":{"type":"array"}}}`),
		Output: json.RawMessage(`{"type":"object","properties":{"count":{"type":"integer"}}}`),
	},
	"GIVE": {Output: json.RawMessage(`{"type":"object","required":["place"],"properties":{
		"text":{"type":"string"},"amount":{"type":"string","pattern":"^[0-9]+$"},"count":{"type":"integer"},"ratio":{"type":"number"},
		"flag":{"type":"boolean"},"maybe":{"type":["string","null"]},"level":{"enum":["low","high"]},"free":{},
		"list":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"done":{"type":"boolean"}},"additionalProperties":false}},
		"place":{"$ref":"#/$defs/place"}},
		"$defs":{"place":{"type":"object","required":["x"],"properties":{"x":{"type":"boolean"},"y":{"type":"integer"}},"additionalProperties":false}}}`)},
	"TAKE": {Input: json.RawMessage(`{"type":"object","properties":{
		"text":{"type":"string"},"count":{"type":"integer"},"ratio":{"type":"number"},"flag":{"type":"boolean"},"free":{},
		"level":{"enum":["medium","high"]},"texts":{"type":"array","items":{"type":"string"}},"flags":{"type":"array","items":{"type":"boolean"}},
		"point":{"type":"object","required":["x","z"],"properties":{"x":{"type":"integer"},"z":{}}},
		"spot":{"$ref":"#/$defs/spot"},"either":{"anyOf":[{"type":"boolean"},{"type":"null"}]}},
		"$defs":{"spot":{"type":"object","properties":{"x":{"type":"integer"},"deep":{"$ref":"#/$defs/spot"}}}}}`)},
	"BARE": {Input: json.RawMessage(`{"type":"object","properties":{}}`)},
	"NEEDY": {
		Input: json.RawMessage(`{"type":"object","required":["wanted","a/b"],"properties":{"wanted":{"type":"string"},"a/b":{},"other":{}}}`),
		Check: func(input, config json.RawMessage, bound []string, _ func(string) bool) []graph.Problem {
			var problems []graph.Problem
			if !strings.Contains(string(input), "wanted") && !slices.Contains(bound, "wanted") {
				problems = append(problems, graph.Problem{Pointer: "/input/wanted", Message: "is required"})
			}
			if !strings.Contains(string(config), "depth") {
				problems = append(problems, graph.Problem{Pointer: "/config/depth", Message: "is required, and bound are " + strings.Join(bound, " ")})
			}
			return problems
		},
	},
}

// TestRules runs each file of testdata. A file has a definition, followed either by its errors, or
// by the sources of its connections and the steps of a run.
//
// The lines of a run: "scope" starts a scope, to which the following lines belong; "a COMPLETED
// then" is the state of a stage and the port that fired; "->" is the result of Next for all states
// of the scope.
func TestRules(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			parts := map[string]string{}
			for _, file := range archive.Files {
				parts[file.Name] = string(file.Data)
			}
			plan, problems := graph.Compile(definition(t, parts["definition.json"]), modules)
			same(t, "faults", told(problems), parts["faults"])
			if plan != nil {
				same(t, "sources", sources(plan, definition(t, parts["definition.json"])), parts["sources"])
				replay(t, plan, parts["run"])
			}
		})
	}
}

func definition(t *testing.T, text string) graph.Definition {
	t.Helper()
	var d graph.Definition
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
	}
}

func told(problems []graph.Problem) string {
	var lines strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&lines, "%s %s %s\n", p.Pointer, p.Code, p.Message)
	}
	return lines.String()
}

func sources(plan *graph.Plan, d graph.Definition) string {
	var lines strings.Builder
	for _, component := range d.Components {
		for _, s := range plan.Sources(component.ID) {
			fmt.Fprintf(&lines, "%s.%s -> %s.%s depth %d", s.From, s.Path, s.Into, s.To, s.Depth)
			if s.Collected > 0 {
				fmt.Fprintf(&lines, " collected %d", s.Collected)
			}
			if s.Item {
				lines.WriteString(" item")
			}
			if s.Required {
				lines.WriteString(" required")
			}
			fmt.Fprintf(&lines, " %s\n", written(s.Schema))
		}
	}
	return strings.ReplaceAll(lines.String(), " \n", "\n")
}

// replay plays the lines of a run.
func replay(t *testing.T, plan *graph.Plan, run string) {
	t.Helper()
	scopes := map[string]map[string]graph.State{}
	scope := "root"
	for i, line := range strings.Split(strings.TrimSpace(run), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if scopes[scope] == nil {
			scopes[scope] = map[string]graph.State{}
		}
		switch words[0] {
		case "scope":
			scope = words[1]
		case "->":
			loop, _, _ := strings.Cut(strings.TrimPrefix(scope, "root"), "#")
			if got := shown(plan.Next(loop, scopes[scope])); got != strings.Join(words[1:], " ") {
				t.Errorf("line %d, in %s: %s, want %s", i+1, scope, got, strings.Join(words[1:], " "))
			}
		default:
			state := graph.State{Status: status.Stage(words[1])}
			if len(words) > 2 {
				state.Port = words[2]
			}
			scopes[scope][words[0]] = state
		}
	}
}

func shown(step graph.Step) string {
	var parts []string
	if len(step.Ready) > 0 {
		parts = append(parts, "ready "+strings.Join(step.Ready, " "))
	}
	if step.Live > 0 {
		parts = append(parts, fmt.Sprintf("live %d", step.Live))
	}
	if step.Failed != "" {
		parts = append(parts, "failed "+step.Failed)
	}
	if step.Done {
		parts = append(parts, "done")
	}
	return strings.Join(parts, ", ")
}

// The result depends only on the states: not on a clock, a database, a context or a log.
func TestPackageIsPure(t *testing.T) {
	t.Parallel()
	const own, component = "github.com/weft-automation/weft/internal/kit/", "github.com/weft-automation/weft/internal/component/"
	allowed := []string{"bytes", "cmp", "encoding/json", "errors", "fmt", "maps", "math", "math/big", "reflect", "regexp", "slices", "strconv", "strings", component + "expression", component + "template", own + "envref", own + "fault", own + "jsonschema", own + "reference", own + "retry", own + "spelling", own + "status", own + "strictjson"}
	paths, _ := filepath.Glob("*.go")
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			if name, _ := strconv.Unquote(spec.Path.Value); !slices.Contains(allowed, name) {
				t.Errorf("%s imports %s", path, name)
			}
		}
	}
}

// Every error code occurs in a file of testdata.
func TestEveryCodeHasATestFile(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	paths, _ := filepath.Glob("testdata/*.txtar")
	for _, path := range append(paths, "limit_test.go") {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	for _, code := range []string{
		graph.CodeTooManyComponents, graph.CodeTooManyEdges, graph.CodeTooManyConnections, graph.CodeInvalidID, graph.CodeDuplicateID,
		graph.CodeUnknownModule, graph.CodeInvalidSetting, graph.CodeUnknownComponent, graph.CodeUnknownPort, graph.CodeSelfEdge,
		graph.CodeIntoTrigger, graph.CodeCycle, graph.CodeUnreachable, graph.CodeLoopEntry, graph.CodeLoopEscape, graph.CodeLoopTooDeep,
		graph.CodeUnknownOutput, graph.CodeUnknownInput, graph.CodeInputTaken, graph.CodeTypeMismatch, graph.CodeMissingInput, graph.CodeInvalidInput,
	} {
		if !strings.Contains(all.String(), code) {
			t.Errorf("nothing shows %s", code)
		}
	}
}

func TestPlanReturnsItsComponents(t *testing.T) {
	t.Parallel()
	plan, problems := graph.Compile(definition(t, `{"components":[
		{"id":"go","module":"START"},{"id":"each","module":"FOR_EACH","input":{"items":[1]}},{"id":"inner","module":"FOR_EACH","input":{"items":[1]}},
		{"id":"leaf","module":"WORK","name":"Leaf"},{"id":"end","module":"WORK"}],
		"sequenceEdges":[{"id":"1","from":"go","to":"each"},{"id":"2","from":"each","to":"inner","port":"each"},
		{"id":"3","from":"inner","to":"leaf","port":"each"},{"id":"4","from":"each","to":"end"}]}`), modules)
	if plan == nil {
		t.Fatal(problems)
	}
	component, module := plan.Component("leaf")
	absent, _ := plan.Component("nobody")
	got := fmt.Sprint(component.Name, module.Loop, absent.ID, plan.Loop("leaf"), plan.Loop("inner"), plan.Loop("each"), plan.Loop("nobody"), plan.Around("leaf"),
		plan.Members(""), plan.Members("each"), plan.Members("inner"), plan.Triggers())
	if want := "Leaffalseinnereach[each inner] [go each end] [inner] [leaf] [go]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAfterReturnsLaterComponents(t *testing.T) {
	t.Parallel()
	plan, problems := graph.Compile(definition(t, `{"components":[
		{"id":"go","module":"START"},{"id":"loop","module":"FOR_EACH","input":{"items":[1]}},{"id":"leaf","module":"WORK"},
		{"id":"beside","module":"WORK"},{"id":"next","module":"WORK"},{"id":"handled","module":"WORK"},{"id":"handler","module":"WORK"},{"id":"well","module":"WORK"},{"id":"joined","module":"WORK"},
		{"id":"reads","module":"WORK"},{"id":"apart","module":"WORK"}],
		"sequenceEdges":[{"id":"1","from":"go","to":"loop"},{"id":"2","from":"loop","to":"leaf","port":"each"},{"id":"3","from":"go","to":"handled"},
		{"id":"4","from":"handled","to":"handler","port":"error"},{"id":"5","from":"handled","to":"well"},{"id":"6","from":"handler","to":"joined"},
		{"id":"7","from":"well","to":"joined"},{"id":"8","from":"go","to":"reads"},{"id":"9","from":"go","to":"apart"},
		{"id":"10","from":"loop","to":"beside","port":"each"},{"id":"11","from":"leaf","to":"next"}],
		"dataConnections":[{"id":"1","from":{"componentId":"leaf","output":"x"},"to":{"componentId":"reads","input":"x"}}]}`), modules)
	if plan == nil {
		t.Fatal(problems)
	}
	got := fmt.Sprint(plan.After("", "handled"), plan.After("", "loop"), plan.After("", "well", "loop"), plan.After("", "handled", "well"),
		plan.After("", "joined"), plan.After(""), plan.After("", "nobody"), plan.After("", "go"), plan.After("loop", "leaf"))
	if want := "[handler well joined] [reads] [joined reads] [handler well joined] [] [] [] [loop handled handler well joined reads apart] [next]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
