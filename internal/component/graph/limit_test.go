package graph_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
)

// sized returns a definition with the given number of components, each of which is connected to
// many components before it.
func sized(components, edges, connections int) graph.Definition {
	var d graph.Definition
	for i := range components {
		d.Components = append(d.Components, graph.Component{ID: fmt.Sprint(i), Module: "WORK"})
	}
	pair := func(i int) (string, string) {
		to := 1 + i%(components-1)
		return fmt.Sprint(i / (components - 1) * 7 % to), fmt.Sprint(to)
	}
	for i := range edges {
		from, to := pair(i)
		d.SequenceEdges = append(d.SequenceEdges, graph.Edge{ID: fmt.Sprint(i), From: from, To: to})
	}
	for i := range connections {
		from, to := pair(i)
		d.DataConnections = append(d.DataConnections, graph.Connection{
			ID: fmt.Sprint(i), From: graph.Output{ComponentID: from, Output: "value"}, To: graph.Input{ComponentID: to, Input: fmt.Sprint("in", i)},
		})
	}
	return d
}

func TestSizeOfDefinitionsIsLimited(t *testing.T) {
	t.Parallel()
	if plan, problems := graph.Compile(sized(graph.MaxComponents, graph.MaxEdges, graph.MaxConnections), modules); plan == nil {
		t.Errorf("the largest definition: %s", told(problems))
	}
	_, problems := graph.Compile(sized(graph.MaxComponents+1, graph.MaxEdges+1, graph.MaxConnections+1), modules)
	same(t, "faults", told(problems), `/components TOO_MANY_COMPONENTS there are 501 components; at most 500 are allowed
/sequenceEdges TOO_MANY_EDGES there are 2001 sequence edges; at most 2000 are allowed
/dataConnections TOO_MANY_CONNECTIONS there are 2001 data connections; at most 2000 are allowed`)
}

// The limits on extending arrays apply both when a workflow is saved, to the indexes in its
// paths, and when the values arrive.
func TestArrayExtensionByConnectionsIsLimited(t *testing.T) {
	t.Parallel()
	d := sized(2, 1, 0)
	for i, input := range []string{"a.9999", "b.0", "c"} {
		d.DataConnections = append(d.DataConnections, graph.Connection{
			ID: fmt.Sprint(i), From: graph.Output{ComponentID: "0", Output: "value"}, To: graph.Input{ComponentID: "1", Input: input},
		})
	}
	_, problems := graph.Compile(d, modules)
	same(t, "faults", told(problems), `/dataConnections/1/to/input INVALID_INPUT no value can be inserted into "1.b.0": the connections into the component extend arrays by more than 10000 items`)
}

// hostile returns definitions that make an algorithm with nested loops over their parts slow.
func hostile() map[string]graph.Definition {
	all := map[string]graph.Definition{}
	for _, module := range []string{"WORK", "FOR_EACH", "NEEDY", "NOPE"} {
		d := sized(graph.MaxComponents, graph.MaxEdges, graph.MaxConnections)
		for i := range d.Components {
			d.Components[i].Module = module
			if i%3 == 0 {
				d.SequenceEdges[i].Port = graph.PortEach
			}
			d.DataConnections[i].To.Input = "items"
			d.DataConnections[i].From.Output = "item." + strings.Repeat("x.", 100) + "x"
		}
		all[module] = d
		ring := sized(graph.MaxComponents, graph.MaxEdges, graph.MaxConnections)
		for i := range ring.SequenceEdges {
			ring.SequenceEdges[i].From, ring.SequenceEdges[i].To = fmt.Sprint(i%500), fmt.Sprint((i*i+1)%500)
			ring.DataConnections[i].From.ComponentID, ring.DataConnections[i].To.ComponentID = fmt.Sprint(i*i%500), fmt.Sprint((i+1)%500)
			ring.Components[i%500].Module = module
		}
		all[module+" in rings"] = ring
	}
	chain := sized(graph.MaxComponents, 0, 0)
	for i := range graph.MaxComponents - 1 {
		chain.Components[i].Module = "FOR_EACH"
		chain.SequenceEdges = append(chain.SequenceEdges, graph.Edge{ID: fmt.Sprint(i), From: fmt.Sprint(i), To: fmt.Sprint(i + 1), Port: graph.PortEach})
		chain.DataConnections = append(chain.DataConnections, graph.Connection{
			ID: fmt.Sprint(i), From: graph.Output{ComponentID: fmt.Sprint(i), Output: "item"}, To: graph.Input{ComponentID: fmt.Sprint(i + 1), Input: "items"},
		})
	}
	all["500 nested"] = chain
	return all
}

func TestHostileDefinitionsCompileFast(t *testing.T) {
	t.Parallel()
	for name, d := range hostile() {
		plan, problems := graph.Compile(d, modules)
		if plan == nil && (len(problems) == 0 || len(problems) > 100) {
			t.Errorf("%s: %d problems", name, len(problems))
		}
	}
}

// A schema that refers to itself, or branches without limit, is read in a limited number of steps.
func TestRecursiveSchemasAreReadInLimitedSteps(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		`{"$ref":"#"}`, `{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}`, `{"allOf":[{"$ref":"#"}],"items":{"$ref":"#"}}`, `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}}`,
		`{"type":"array","items":{"$ref":"#"}}`, `{"type":"object","required":["a"],"properties":{"a":{"$ref":"#"}}}`, `{"$ref":"#anchor"}`, `{"$ref":7,"type":7,"enum":7,"required":[7],"properties":[]}`, `{`, `7`, `false`,
	} {
		modules := library{"LOOP": {Input: json.RawMessage(schema), Output: json.RawMessage(schema)}}
		graph.Compile(definition(t, `{"components":[{"id":"a","module":"LOOP"},{"id":"b","module":"LOOP"}],"sequenceEdges":[{"id":"1","from":"a","to":"b"}],
			"dataConnections":[{"id":"1","from":{"componentId":"a","output":"a.a.0"},"to":{"componentId":"b","input":"a.a.0"}},
			{"id":"2","from":{"componentId":"a","output":"b"},"to":{"componentId":"b","input":"b"}}]}`), modules)
		for _, value := range []string{`{"a":{"a":{"a":[[[]]]}}}`, `[[[[[[[1]]]]]]]`, `1`} {
			parsed, _ := jsonschema.Parse(json.RawMessage(schema))
			_, _ = parsed.Convert(json.RawMessage(value))
		}
	}
}
