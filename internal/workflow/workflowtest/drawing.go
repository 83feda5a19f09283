// Package workflowtest draws random workflows and says how their runs end.
//
// Draw generates a workflow that is valid by construction. Interpret computes the outcome of a run
// from the drawing alone, without the engine. Tests of the engine, without a database, and of the
// whole service, with one, compare runs with that reference.
package workflowtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/weft-automation/weft/internal/workflow"
)

// Part is a component of a drawn workflow.
type Part struct {
	ID        string         `json:"id"`
	Module    string         `json:"module"`
	Input     map[string]any `json:"input"`
	Config    map[string]any `json:"config"`
	Attempts  int            `json:"attempts,omitempty"`
	OnFailure string         `json:"onFailure,omitempty"`
}

// Arrow is an edge of a drawn workflow.
type Arrow struct {
	ID   string `json:"id"`
	From string `json:"from"`
	To   string `json:"to"`
	Port string `json:"port"`
}

// PerSecond is the pace of loops that have one: their items start at least 5 ms apart.
const PerSecond = 200

// Ways in which a drawn workflow carries a value. Without a value, a connection leaves the literal.
const (
	connected = iota // a data connection
	whole            // a reference: without a value, the stage fails
	optional         // a reference with a question mark: without a value, or with null, there is no input
	defaulted        // a reference with the literal as its default
	inText           // a reference next to text, with a default
)

// Wire is a value that one component of a drawn workflow gets from another.
type Wire struct {
	ID   string `json:"id"`
	way  int    // how the value is carried
	From struct {
		ComponentID string `json:"componentId"`
		Output      string `json:"output"`
	} `json:"from"`
	To struct {
		ComponentID string `json:"componentId"`
		Input       string `json:"input"`
	} `json:"to"`
}

// Drawing is a workflow that consists of parts (components), arrows (edges) and wires (connections).
// It continues the random sequence with which it was drawn.
type Drawing struct {
	*rand.Rand
	ways    *rand.Rand // draws how values are carried
	limit   int
	trigger bool                // it has a trigger
	Answers bool                // it has a RESPOND
	Below   map[string]*Drawing // workflows of its child runs, by ID
	Parts   []Part
	Arrows  []Arrow
	Wires   []Wire
}

// Draw returns a random workflow of at most limit components.
func Draw(seed uint64, limit int) *Drawing {
	w := &Drawing{Rand: rand.New(rand.NewPCG(seed, 7)), ways: rand.New(rand.NewPCG(seed, 8)), limit: limit}
	if w.trigger = w.IntN(3) == 0; w.trigger {
		w.Parts = append(w.Parts, Part{ID: "start", Module: "ON_API_CALLED"})
	}
	w.scope("", 0, nil)
	return w
}

// Draft returns the drawing as a draft of a workflow.
func (w *Drawing) Draft() workflow.Draft {
	encode := func(value any) json.RawMessage {
		text, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		return text
	}
	parts, wires := slices.Clone(w.Parts), []Wire{}
	for _, c := range w.Wires {
		if c.way == connected {
			wires = append(wires, c)
			continue
		}
		p := &parts[slices.IndexFunc(parts, func(p Part) bool { return p.ID == c.To.ComponentID })]
		p.Input = maps.Clone(p.Input)
		p.Input[c.To.Input] = c.reference(encode(p.Input[c.To.Input]))
	}
	return workflow.Draft{Components: encode(parts), SequenceEdges: encode(append([]Arrow{}, w.Arrows...)), DataConnections: encode(wires)}
}

// reference returns the string that carries the value.
func (c Wire) reference(literal json.RawMessage) string {
	path := c.From.ComponentID + "." + c.From.Output
	switch c.way {
	case optional:
		return "{{ " + path + "? }}"
	case defaulted:
		return fmt.Sprintf("{{ %s ?? %s }}", path, literal)
	case inText:
		return fmt.Sprintf(`<{{ %s ?? "-" }}>`, path)
	}
	return "{{" + path + "}}"
}

func (w *Drawing) one(id string) *Part {
	return &w.Parts[slices.IndexFunc(w.Parts, func(p Part) bool { return p.ID == id })]
}

// scope draws components of one scope, with edges and connections only from components that are
// already drawn. It returns all components that it drew, including the bodies of loops.
func (w *Drawing) scope(loop string, depth int, givers []string) (all []string) {
	var here []string
	count := 2 + w.IntN(4)
	if loop == "" {
		count = 4 + w.IntN(w.limit)
	}
	for range count {
		if len(w.Parts) >= w.limit {
			break
		}
		id := w.component(depth)
		w.enter(id, loop, here)
		w.connect(id, givers, here)
		if module := w.one(id).Module; module == "REPEAT" || module == "FOR_EACH" && w.IntN(10) > 0 {
			inner := w.scope(id, depth+1, append(slices.Clone(givers), append(here, id)...))
			givers = append(slices.Clone(givers), inner...)
			all = append(all, inner...)
		}
		here = append(here, id)
	}
	if loop != "" && w.one(loop).Module == "REPEAT" {
		for range 1 + w.IntN(2) {
			all = append(all, w.proceed(loop, givers, here))
		}
	}
	return append(all, here...)
}

// proceed draws a CONTINUE in the body of a REPEAT.
func (w *Drawing) proceed(loop string, givers, here []string) string {
	p := Part{ID: fmt.Sprint("c", len(w.Parts)), Module: "CONTINUE", Input: map[string]any{}}
	if w.IntN(2) == 0 {
		p.Input["state"] = w.IntN(9)
	}
	if w.IntN(3) == 0 {
		p.Input["done"] = w.IntN(2) == 0
	}
	if w.IntN(3) == 0 {
		p.OnFailure = "continue"
	}
	w.Parts = slices.Insert(w.Parts, w.IntN(len(w.Parts)+1), p)
	w.enter(p.ID, loop, here)
	w.connect(p.ID, givers, here)
	return p.ID
}

var kinds = []string{
	"WORK", "WORK", "WORK", "WORK", "WORK", "IF", "SWITCH", "TRANSFORM", "FOR_EACH", "FOR_EACH", "REPEAT", "DELAY", "WAIT_FOR_SIGNAL", "NUMBER_CONSTANT", "RESPOND", "FAIL",
}

func (w *Drawing) component(depth int) string {
	p := Part{ID: fmt.Sprint("c", len(w.Parts)), Module: kinds[w.IntN(len(kinds))], Input: map[string]any{"n": w.IntN(9)}, Config: map[string]any{}}
	if (p.Module == "FOR_EACH" || p.Module == "REPEAT") && (depth >= 3 || depth == 2 && w.IntN(3) > 0) || p.Module == "RESPOND" && (depth > 0 || w.Answers) || p.Module == "FAIL" && w.IntN(3) > 0 {
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
		if w.IntN(4) == 0 {
			p.Config["perSecond"] = PerSecond
		}
	case "REPEAT":
		p.Input = map[string]any{"state": w.IntN(9)}
		p.Config["maxIterations"] = 1 + w.IntN(4)
		if w.IntN(4) == 0 {
			p.Config["delayMs"] = 1 + w.IntN(8)
		}
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
		w.Answers = true
	case "FAIL":
		p.Input = nil
	}
	w.Parts = slices.Insert(w.Parts, w.IntN(len(w.Parts)+1), p)
	return p.ID
}

// exits are the ports of the modules from which edges may start.
var exits = map[string][]string{
	"WORK": {"next", "next", "next", "error"}, "IF": {"then", "else"}, "SWITCH": {"red", "green", "default"}, "FOR_EACH": {"done", "next", "error"}, "REPEAT": {"done", "next", "exhausted", "exhausted", "error"},
	"WAIT_FOR_SIGNAL": {"next", "timeout"}, "FAIL": {"error"},
}

// enter draws the edges into a component.
func (w *Drawing) enter(id, loop string, here []string) {
	edge := func(from, port string) {
		w.Arrows = append(w.Arrows, Arrow{ID: fmt.Sprint("e", len(w.Arrows)), From: from, To: id, Port: port})
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
var gives = map[string][]string{"WORK": {"value", "value", "list"}, "FOR_EACH": {"count", "failedItems"}, "REPEAT": {"count", "state"}, "CONTINUE": {"state"}, "TRANSFORM": {"result"}, "NUMBER_CONSTANT": {"value"}, "IF": {"result"}, "SWITCH": {"case"}, "WAIT_FOR_SIGNAL": {"payload"}}

// connect draws the connections into a component. They come from components that are already
// drawn, in the same scope or the scopes around it, and from the iterations around it.
func (w *Drawing) connect(id string, givers, here []string) {
	p := w.one(id)
	before := append(slices.Clone(givers), here...)
	for range w.IntN(4) {
		if len(before) == 0 || p.Input == nil {
			return
		}
		from := w.one(before[w.IntN(len(before))])
		outputs := gives[from.Module]
		if slices.Contains(w.Around(id), from.ID) {
			outputs = []string{"item", "index"}
			if from.Module == "REPEAT" {
				outputs = []string{"state", "index"}
			}
		}
		if len(outputs) == 0 {
			continue
		}
		output := outputs[w.IntN(len(outputs))]
		plain := slices.Contains(here, from.ID) || slices.Contains(w.Around(id), from.ID)
		c := Wire{ID: fmt.Sprint("d", len(w.Wires))}
		c.From.ComponentID, c.From.Output, c.To.ComponentID, c.To.Input = from.ID, output, id, fmt.Sprint("in", len(w.Wires))
		switch p.Module {
		case "FOR_EACH":
			if output != "list" || !plain {
				continue
			}
			c.To.Input = "items"
		case "CONTINUE":
			c.To.Input = "state"
			if from.Module == "IF" && plain {
				c.To.Input = "done"
			}
		case "REPEAT":
			c.To.Input = "state"
		case "IF", "SWITCH", "TRANSFORM":
			if output != "index" && (output != "value" || from.Module != "WORK") && output != "count" || !plain {
				continue
			}
			c.To.Input = "n"
		}
		if slices.ContainsFunc(w.Wires, func(other Wire) bool { return other.To == c.To }) {
			continue
		}
		if w.ways.IntN(2) == 0 {
			if c.way = defaulted; p.Input[c.To.Input] == nil {
				c.way = []int{whole, optional, inText}[w.ways.IntN(3)]
			}
			if c.way == inText && c.To.Input == "done" { // it is a boolean
				c.way = optional
			}
		}
		w.Wires = append(w.Wires, c)
	}
}

// Around returns the loops around a component, the outermost first.
func (w *Drawing) Around(id string) (loops []string) {
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
func (w *Drawing) loopOf(id string, seen map[string]bool) string {
	if seen[id] {
		return ""
	}
	seen[id] = true
	for _, a := range w.Arrows {
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

// Compute replaces each WORK of a drawing with a PURE if share is 2, about half of them if it is 1,
// and none if it is 0.
func (w *Drawing) Compute(share int) {
	for i := range w.Parts {
		if p := &w.Parts[i]; p.Module == "WORK" && w.IntN(2) < share {
			p.Module = "PURE"
		}
	}
}

// Nest returns a workflow that runs the drawn workflow with this ID, and responds with 1 if that run
// completes, and with 2 if it fails.
func Nest(below *Drawing, id string, n uint64) *Drawing {
	w := &Drawing{
		Below: map[string]*Drawing{id: below},
		Parts: []Part{
			{ID: "c", Module: "RUN_WORKFLOW", Input: map[string]any{"n": n}, Config: map[string]any{"workflowId": id, "version": 1}},
			{ID: "good", Module: "NUMBER_CONSTANT", Config: map[string]any{"value": 1}}, {ID: "bad", Module: "NUMBER_CONSTANT", Config: map[string]any{"value": 2}},
			{ID: "r", Module: "RESPOND", Input: map[string]any{}},
		},
		Arrows: []Arrow{{"1", "c", "good", "next"}, {"2", "c", "bad", "error"}, {"3", "good", "r", "next"}, {"4", "bad", "r", "next"}},
	}
	for i, from := range []string{"good", "bad"} {
		c := Wire{ID: fmt.Sprint(i)}
		c.From.ComponentID, c.From.Output, c.To.ComponentID, c.To.Input = from, "value", "r", from
		w.Wires = append(w.Wires, c)
	}
	return w
}

// WaitsForSignal reports whether a part of the drawing waits for the signal.
func (w *Drawing) WaitsForSignal() bool {
	return slices.ContainsFunc(w.Parts, func(p Part) bool { return p.Config["name"] == "given" })
}
