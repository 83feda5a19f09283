package graph_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/status"
)

// built makes a definition from arbitrary bytes. Mutated bytes always result in a different graph,
// unlike mutated JSON.
func built(data []byte) graph.Definition {
	next := func() int {
		if len(data) == 0 {
			return 0
		}
		first := data[0]
		data = data[1:]
		return int(first)
	}
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range modules {
			if !yield(name) {
				return
			}
		}
	})
	paths := []string{"value", "item", "item.id", "index", "items", "text", "count", "list", "list.0", "texts.1", "place.x", "point", "wanted", "result", ""}
	all := []string{"next", "error", "then", "else", "each", "each", "done", "default", "red", "timeout"}
	var d graph.Definition
	count := 1 + next()%24
	id := func() string { return fmt.Sprint(next() % (count + 1)) }
	for i := range count {
		kind := next()
		c := graph.Component{ID: fmt.Sprint(i), Module: names[kind%len(names)], Config: json.RawMessage(`{"depth":1,"cases":[{"name":"red"}]}`)}
		if kind > 100 {
			c.Input = json.RawMessage(`{"items":[[1]],"wanted":"x","a/b":1,"texts":["a"],"point":{}}`)
		}
		d.Components = append(d.Components, c)
	}
	for len(data) > 0 {
		key := fmt.Sprint("k", len(data))
		if kind := next(); kind%3 > 0 {
			d.SequenceEdges = append(d.SequenceEdges, graph.Edge{ID: key, From: id(), To: id(), Port: all[kind/3%len(all)]})
		} else {
			d.DataConnections = append(d.DataConnections, graph.Connection{
				ID: key, From: graph.Output{ComponentID: id(), Output: paths[next()%len(paths)]}, To: graph.Input{ComponentID: id(), Input: paths[kind/3%len(paths)]},
			})
		}
	}
	return d
}

var pointer = regexp.MustCompile(`^(/(components|sequenceEdges|dataConnections)(/[0-9]+(/.*)?)?)$`)

// FuzzCompile compiles definitions made from arbitrary bytes. Each definition has either a plan
// whose runs all finish, or errors with a pointer and a message.
func FuzzCompile(f *testing.F) {
	paths, _ := filepath.Glob("testdata/*.txtar")
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(archive.Files[0].Data)
	}
	for seed := range byte(32) {
		data := make([]byte, 64)
		for i := range data {
			data[i] = byte(int(seed)*31+i*i*7) ^ seed<<3
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var d graph.Definition
		if json.Unmarshal(data, &d) != nil {
			d = built(data)
		}
		plan, problems := graph.Compile(d, modules)
		if (plan == nil) != (len(problems) > 0) {
			t.Fatalf("a plan %v and %d problems", plan != nil, len(problems))
		}
		for _, p := range problems {
			if !pointer.MatchString(p.Pointer) || p.Code == "" || p.Message == "" || len(p.Message) > 4096 {
				t.Errorf("%+v", p)
			}
		}
		if plan == nil {
			return
		}
		for _, component := range d.Components {
			bind(t, plan, component)
			if component.Module == "FOR_EACH" {
				finish(t, plan, component.ID, data)
			}
		}
		finish(t, plan, "", data)
	})
}

// finish plays one scope until it finishes.
func finish(t *testing.T, plan *graph.Plan, loop string, chance []byte) {
	t.Helper()
	states := map[string]graph.State{}
	for turn := 0; ; turn++ {
		step := plan.Next(loop, states)
		if step.Done {
			return
		}
		if len(step.Ready) == 0 || turn > len(plan.Members(loop)) {
			t.Fatalf("scope %q does not end: %+v of %v", loop, step, states)
		}
		for i, id := range step.Ready {
			draw := turn + i
			if len(chance) > 0 {
				draw += int(chance[draw%len(chance)])
			}
			component, module := plan.Component(id)
			state := graph.State{Status: []status.Stage{status.StageCompleted, status.StageCompleted, status.StageFailed, status.StageCanceled}[draw%4]}
			if fires := append(module.Ports, ""); state.Status == status.StageCompleted {
				state.Port = fires[draw/4%len(fires)]
			}
			if _, twice := states[component.ID]; twice {
				t.Fatalf("%s starts twice", id)
			}
			states[component.ID] = state
		}
	}
}

// bind inserts a value into every connected input.
func bind(t *testing.T, plan *graph.Plan, component graph.Component) {
	t.Helper()
	for _, value := range []string{`"12"`, `7`, `null`, `[{"id":1}]`, `{"x":1}`} {
		var values []graph.Bound
		for _, source := range plan.Sources(component.ID) {
			values = append(values, graph.Bound{Source: source, Value: json.RawMessage(value)})
		}
		if bound, err := graph.Bind(component.Input, values); err == nil && !json.Valid(bound) {
			t.Fatalf("%s: %s", component.ID, bound)
		}
	}
}
