package run_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weft-automation/weft/internal/workflow"
)

// A drawn workflow consists of parts (components), arrows (edges) and wires (connections).
type part struct {
	ID        string         `json:"id"`
	Module    string         `json:"module"`
	Input     map[string]any `json:"input"`
	Config    map[string]any `json:"config"`
	Attempts  int            `json:"attempts,omitempty"`
	OnFailure string         `json:"onFailure,omitempty"`
}

type arrow struct {
	ID   string `json:"id"`
	From string `json:"from"`
	To   string `json:"to"`
	Port string `json:"port"`
}

type wire struct {
	ID   string `json:"id"`
	From struct {
		ComponentID string `json:"componentId"`
		Output      string `json:"output"`
	} `json:"from"`
	To struct {
		ComponentID string `json:"componentId"`
		Input       string `json:"input"`
	} `json:"to"`
}

// drawing generates random workflows that are valid by construction.
type drawing struct {
	*rand.Rand
	limit   int
	trigger bool                // it has a trigger
	answers bool                // it has a RESPOND
	below   map[string]*drawing // workflows of its child runs, by ID
	parts   []part
	arrows  []arrow
	wires   []wire
}

func newDrawing(seed uint64, limit int) *drawing {
	w := &drawing{Rand: rand.New(rand.NewPCG(seed, 7)), limit: limit}
	if w.trigger = w.IntN(3) == 0; w.trigger {
		w.parts = append(w.parts, part{ID: "start", Module: "ON_API_CALLED"})
	}
	w.scope("", 0, nil)
	return w
}

func (w *drawing) draft() workflow.Draft {
	encode := func(value any) json.RawMessage {
		text, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		return text
	}
	return workflow.Draft{Components: encode(w.parts), SequenceEdges: encode(append([]arrow{}, w.arrows...)), DataConnections: encode(append([]wire{}, w.wires...))}
}

func (w *drawing) one(id string) *part {
	return &w.parts[slices.IndexFunc(w.parts, func(p part) bool { return p.ID == id })]
}

// scope draws components of one scope, with edges and connections only from components that are
// already drawn. It returns all components that it drew, including the bodies of loops.
func (w *drawing) scope(loop string, depth int, givers []string) (all []string) {
	var here []string
	count := 2 + w.IntN(4)
	if loop == "" {
		count = 4 + w.IntN(w.limit)
	}
	for range count {
		if len(w.parts) >= w.limit {
			break
		}
		id := w.component(depth)
		w.enter(id, loop, here)
		w.connect(id, givers, here)
		if w.one(id).Module == "FOR_EACH" && w.IntN(10) > 0 {
			inner := w.scope(id, depth+1, append(slices.Clone(givers), append(here, id)...))
			givers = append(slices.Clone(givers), inner...)
			all = append(all, inner...)
		}
		here = append(here, id)
	}
	return append(all, here...)
}

var kinds = []string{
	"WORK", "WORK", "WORK", "WORK", "WORK", "IF", "SWITCH", "TRANSFORM", "FOR_EACH", "FOR_EACH", "DELAY", "WAIT_FOR_SIGNAL", "NUMBER_CONSTANT", "RESPOND", "FAIL",
}

func (w *drawing) component(depth int) string {
	p := part{ID: fmt.Sprint("c", len(w.parts)), Module: kinds[w.IntN(len(kinds))], Input: map[string]any{"n": w.IntN(9)}, Config: map[string]any{}}
	if p.Module == "FOR_EACH" && (depth >= 3 || depth == 2 && w.IntN(3) > 0) || p.Module == "RESPOND" && (depth > 0 || w.answers) || p.Module == "FAIL" && w.IntN(3) > 0 {
		p.Module = "WORK"
	}
	if w.IntN(3) == 0 {
		p.OnFailure = "continue"
	}
	switch p.Module {
	case "WORK":
		p.Config["salt"] = w.IntN(1000)
		if w.IntN(4) == 0 {
			p.Config["fails"] = 10 + w.IntN(50)
		}
		if w.IntN(4) == 0 {
			p.Config["ms"] = w.IntN(8)
		}
	case "IF":
		p.Config["expression"] = "n % 2 == 0"
	case "SWITCH":
		p.Config["cases"] = []any{map[string]any{"name": "red", "expression": "n % 3 == 0"}, map[string]any{"name": "green", "expression": "n % 3 == 1"}}
	case "TRANSFORM":
		p.Config["expression"] = "n + 1"
	case "FOR_EACH":
		p.Input = map[string]any{"items": []int{4, 5, 6}[:w.IntN(4)]}
		p.Config["concurrency"], p.Config["onItemFailure"] = 1+w.IntN(3), []string{"fail", "continue", "continue"}[w.IntN(3)]
	case "DELAY":
		p.Input, p.Config["durationMs"] = nil, 1+w.IntN(12)
	case "WAIT_FOR_SIGNAL":
		p.Input, p.Config["name"], p.Config["timeoutMs"] = nil, "given", 3_600_000
		if w.IntN(2) == 0 {
			p.Config["name"], p.Config["timeoutMs"] = "never", 1+w.IntN(12)
		}
	case "NUMBER_CONSTANT":
		p.Input, p.Config["value"] = nil, w.IntN(50)
	case "RESPOND":
		w.answers = true
	case "FAIL":
		p.Input = nil
	}
	w.parts = slices.Insert(w.parts, w.IntN(len(w.parts)+1), p)
	return p.ID
}

// exits are the ports of the modules from which edges may start.
var exits = map[string][]string{
	"WORK": {"next", "next", "next", "error"}, "IF": {"then", "else"}, "SWITCH": {"red", "green", "default"}, "FOR_EACH": {"done", "next", "error"},
	"WAIT_FOR_SIGNAL": {"next", "timeout"}, "FAIL": {"error"},
}

// enter draws the edges into a component.
func (w *drawing) enter(id, loop string, here []string) {
	edge := func(from, port string) {
		w.arrows = append(w.arrows, arrow{ID: fmt.Sprint("e", len(w.arrows)), From: from, To: id, Port: port})
	}
	drawn := w.IntN(4)
	if len(here) == 0 {
		drawn = 0
	}
	for range drawn {
		from := here[w.IntN(len(here))]
		of := exits[w.one(from).Module]
		if of == nil {
			of = []string{"next"}
		}
		edge(from, of[w.IntN(len(of))])
	}
	switch {
	case loop != "" && (drawn == 0 || w.IntN(6) == 0):
		edge(loop, "each")
	case loop == "" && w.trigger && drawn == 0:
		edge("start", "next")
	}
}

// gives are the outputs of the modules that are integers, or lists of integers.
var gives = map[string][]string{"WORK": {"value", "value", "list"}, "FOR_EACH": {"count", "failedItems"}, "TRANSFORM": {"result"}, "NUMBER_CONSTANT": {"value"}, "IF": {"result"}, "SWITCH": {"case"}, "WAIT_FOR_SIGNAL": {"payload"}}

// connect draws the connections into a component. They come from components that are already
// drawn, in the same scope or the scopes around it, and from the iterations around it.
func (w *drawing) connect(id string, givers, here []string) {
	p := w.one(id)
	before := append(slices.Clone(givers), here...)
	for range w.IntN(4) {
		if len(before) == 0 || p.Input == nil {
			return
		}
		from := w.one(before[w.IntN(len(before))])
		outputs := gives[from.Module]
		if slices.Contains(w.around(id), from.ID) {
			outputs = []string{"item", "index"}
		}
		if len(outputs) == 0 {
			continue
		}
		output := outputs[w.IntN(len(outputs))]
		plain := slices.Contains(here, from.ID) || slices.Contains(w.around(id), from.ID)
		c := wire{ID: fmt.Sprint("d", len(w.wires))}
		c.From.ComponentID, c.From.Output, c.To.ComponentID, c.To.Input = from.ID, output, id, fmt.Sprint("in", len(w.wires))
		switch p.Module {
		case "FOR_EACH":
			if output != "list" || !plain {
				continue
			}
			c.To.Input = "items"
		case "IF", "SWITCH", "TRANSFORM":
			if output != "index" && (output != "value" || from.Module != "WORK") && output != "count" || !plain {
				continue
			}
			c.To.Input = "n"
		}
		if slices.ContainsFunc(w.wires, func(other wire) bool { return other.To == c.To }) {
			continue
		}
		w.wires = append(w.wires, c)
	}
}

// around returns the loops around a component, the outermost first.
func (w *drawing) around(id string) (loops []string) {
	for {
		loop := w.loopOf(id, map[string]bool{})
		if loop == "" {
			return loops
		}
		loops, id = append([]string{loop}, loops...), loop
	}
}

// loopOf returns the loop whose body contains a component, by following edges back to a port
// `each`.
func (w *drawing) loopOf(id string, seen map[string]bool) string {
	if seen[id] {
		return ""
	}
	seen[id] = true
	for _, a := range w.arrows {
		if a.To != id {
			continue
		}
		if a.Port == "each" {
			return a.From
		}
		if loop := w.loopOf(a.From, seen); loop != "" {
			return loop
		}
	}
	return ""
}
