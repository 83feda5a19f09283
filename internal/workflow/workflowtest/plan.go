package workflowtest

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
)

// Plan compiles the drawing, without the checks of a workflow that is saved.
func (w *Drawing) Plan(t testing.TB, modules *component.Registry) *graph.Plan {
	t.Helper()
	draft, d := w.Draft(), graph.Definition{}
	for _, part := range []struct {
		from json.RawMessage
		to   any
	}{{draft.Components, &d.Components}, {draft.SequenceEdges, &d.SequenceEdges}, {draft.DataConnections, &d.DataConnections}} {
		if err := json.Unmarshal(part.from, part.to); err != nil {
			t.Fatal(err)
		}
	}
	for i := range d.Components {
		for _, value := range []*json.RawMessage{&d.Components[i].Input, &d.Components[i].Config} {
			if bytes.Equal(*value, []byte("null")) {
				*value = json.RawMessage("{}")
			}
		}
	}
	plan, problems := graph.Compile(d, library{modules})
	if len(problems) > 0 {
		t.Fatalf("the drawing is invalid: %v\n%s", problems, w)
	}
	return plan
}

// String returns the drawing in the form of the API.
func (w *Drawing) String() string {
	text, err := json.Marshal(map[string]any{"components": w.Parts, "sequenceEdges": w.Arrows, "dataConnections": w.Wires})
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// library is the set of modules that drawings use.
type library struct{ modules *component.Registry }

func (l library) Unknown(name string) string { return "unknown module " + name }

func (l library) Module(name string) (graph.Module, bool) {
	entry, ok := l.modules.Lookup(name)
	if !ok {
		return graph.Module{}, false
	}
	flow := entry.Flow()
	inputs, configs := entry.URLPaths()
	return graph.Module{
		Ports: flow.Ports, CasePorts: flow.CasePorts, Loop: flow.Loop, Repeats: flow.Repeats, Continues: flow.Continues, Trigger: flow.Trigger, Fails: flow.Fails, Inline: flow.Inline, Lasts: flow.Lasts,
		Input: entry.Input, Config: entry.Config, Output: entry.Output, Gives: flow.Gives,
		InputAddresses: inputs, ConfigAddresses: configs,
	}, true
}
