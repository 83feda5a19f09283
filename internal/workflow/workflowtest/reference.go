package workflowtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// Fate is the outcome of a stage.
type Fate struct {
	Status status.Stage
	Port   string
	Output json.RawMessage
}

// Reference computes the outcome of a run from the drawing alone, as simply as decisions 8.2 to
// 8.6 allow: one component after another, and a failure does not stop other components. Stages
// that a real run may omit because of a failure elsewhere are optional.
type Reference struct {
	*Drawing
	loops    map[string][]string // loops around each component
	Fates    map[string]Fate     // by Place
	dead     map[string]bool
	items    map[string][]json.RawMessage
	failed   map[string]bool // failed iterations, by loop and indexes
	optional map[string]bool
	Broken   []string // components of the root with an unhandled failure
	Output   json.RawMessage
	input    json.RawMessage

	generation int                     // generation of WORK: 0 in the first run, 1 in its rerun
	taken      map[string]api.RunStage // stages that a rerun has reused
}

// Interpret returns the outcome of a run of a drawing.
func Interpret(w *Drawing, input json.RawMessage) *Reference {
	return InterpretRerun(w, input, 0, nil)
}

// InterpretRerun is Interpret for a rerun that reuses the given stages.
func InterpretRerun(w *Drawing, input json.RawMessage, generation int, reused map[string]api.RunStage) *Reference {
	r := &Reference{
		generation: generation, taken: reused,
		Drawing: w, loops: map[string][]string{}, Fates: map[string]Fate{}, dead: map[string]bool{},
		items: map[string][]json.RawMessage{}, failed: map[string]bool{}, optional: map[string]bool{}, input: input,
	}
	for _, p := range w.Parts {
		r.loops[p.ID] = w.Around(p.ID)
	}
	r.Broken = r.scope("", nil)
	return r
}

// scope runs all components of a scope and returns those with an unhandled failure.
func (r *Reference) scope(loop string, iteration []int) (broken []string) {
	before := maps.Clone(r.Fates)
	for again := true; again; {
		again = false
		for _, p := range r.Parts {
			around := r.loops[p.ID]
			inner := ""
			if len(around) > 0 {
				inner = around[len(around)-1]
			}
			if inner != loop || r.settled(p.ID, iteration) {
				continue
			}
			ready, dead := r.ready(p.ID, loop, iteration)
			switch {
			case dead:
				r.dead[Place(p.ID, iteration)] = true
			case ready:
				r.Fates[Place(p.ID, iteration)] = r.run(p, iteration)
			default:
				continue
			}
			again = true
		}
	}
	for _, p := range r.Parts {
		if f, ran := r.Fates[Place(p.ID, iteration)]; ran && slices.Equal(r.loops[p.ID], r.enclosing(loop)) && f.Status == status.StageFailed && !r.handled(p) {
			broken = append(broken, p.ID)
		}
	}
	if len(broken) > 0 {
		r.loosen(before)
	}
	return broken
}

func (r *Reference) enclosing(loop string) []string {
	if loop == "" {
		return nil
	}
	return append(slices.Clone(r.loops[loop]), loop)
}

// loosen makes all stages optional except those in known.
func (r *Reference) loosen(known map[string]Fate) {
	for at := range r.Fates {
		if _, was := known[at]; !was {
			r.optional[at] = true
		}
	}
}

func (r *Reference) settled(id string, iteration []int) bool {
	_, ran := r.Fates[Place(id, iteration)]
	return ran || r.dead[Place(id, iteration)]
}

func (r *Reference) handled(p Part) bool {
	return p.OnFailure == "continue" || slices.ContainsFunc(r.Arrows, func(a Arrow) bool { return a.From == p.ID && a.Port == "error" })
}

// ready reports whether a component is ready, or dead (decisions 8.3).
func (r *Reference) ready(id, loop string, iteration []int) (ready, dead bool) {
	edges, fired := 0, false
	for _, a := range r.Arrows {
		if a.To != id {
			continue
		}
		edges++
		switch {
		case a.From == loop && a.Port == "each":
			fired = true
		case !r.settled(a.From, iteration):
			return false, false
		default:
			f, ran := r.Fates[Place(a.From, iteration)]
			fired = fired || ran && r.fires(*r.one(a.From), f, a.Port)
		}
	}
	if edges > 0 && !fired {
		return false, true
	}
	for _, c := range r.Wires {
		if giver := r.giver(c, id); giver != "" && !r.settled(giver, iteration) {
			return false, false
		}
	}
	return true, false
}

func (r *Reference) fires(p Part, f Fate, port string) bool {
	if (p.Module == "FOR_EACH" || p.Module == "REPEAT") && port == "done" {
		port = "next"
	}
	if f.Status == status.StageCompleted {
		return port == f.Port
	}
	if slices.ContainsFunc(r.Arrows, func(a Arrow) bool { return a.From == p.ID && a.Port == "error" }) {
		return port == "error"
	}
	plain := map[string]string{"IF": "else", "SWITCH": "default"}[p.Module]
	if plain == "" {
		plain = "next"
	}
	return p.OnFailure == "continue" && port == plain
}

// giver returns the component that a component waits for because of a connection into the
// component or its body.
func (r *Reference) giver(c Wire, id string) string {
	from, to := append(slices.Clone(r.loops[c.From.ComponentID]), c.From.ComponentID), append(slices.Clone(r.loops[c.To.ComponentID]), c.To.ComponentID)
	for level := range to {
		if level >= len(from) {
			return ""
		}
		if from[level] != to[level] {
			if to[level] == id {
				return from[level]
			}
			return ""
		}
	}
	return ""
}

// value returns the value that a connection carries, or nil if it carries none (decisions 8.4,
// 8.5).
func (r *Reference) value(c Wire, iteration []int) json.RawMessage {
	from, to := r.loops[c.From.ComponentID], r.loops[c.To.ComponentID]
	if depth := slices.Index(to, c.From.ComponentID); depth >= 0 {
		if c.From.Output == "index" {
			return json.RawMessage(fmt.Sprint(iteration[depth]))
		}
		return r.items[Place(c.From.ComponentID, iteration[:depth])][iteration[depth]]
	}
	shared := 0
	for shared < min(len(from), len(to)) && from[shared] == to[shared] {
		shared++
	}
	return r.gather(c, from[shared:], iteration[:shared])
}

func (r *Reference) gather(c Wire, leaves []string, iteration []int) json.RawMessage {
	if len(leaves) == 0 {
		return member(r.Fates[Place(c.From.ComponentID, iteration)].Output, c.From.Output)
	}
	loop, ran := r.Fates[Place(leaves[0], iteration)]
	if !ran || loop.Status != status.StageCompleted {
		return nil
	}
	all := []json.RawMessage{}
	for i := range r.items[Place(leaves[0], iteration)] {
		inner := append(slices.Clone(iteration), i)
		value := r.gather(c, leaves[1:], inner)
		if value == nil || r.failed[Place(leaves[0], inner)] {
			value = json.RawMessage("null")
		}
		all = append(all, value)
	}
	return encode(all)
}

// encode returns a value as JSON, without escapes for HTML.
func encode(value any) json.RawMessage {
	text, err := strictjson.Encode(value)
	if err != nil {
		panic(err) // it consists of JSON
	}
	return text
}

func member(output json.RawMessage, name string) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(output, &members) != nil {
		return nil
	}
	return members[name]
}

// run returns the outcome of a component in an iteration.
func (r *Reference) run(p Part, iteration []int) Fate {
	input, missing := r.bind(p, iteration)
	if missing {
		return Fate{Status: status.StageFailed}
	}
	n := 0
	_ = json.Unmarshal(member(input, "n"), &n)
	gives := func(port, format string, args ...any) Fate {
		return Fate{status.StageCompleted, port, fmt.Appendf(nil, format, args...)}
	}
	switch p.Module {
	case "ON_API_CALLED":
		return Fate{status.StageCompleted, "next", nil}
	case "WORK", "SEND", "PURE":
		return r.work(p, input, iteration)
	case "IF":
		return gives(map[bool]string{true: "then", false: "else"}[n%2 == 0], `{"result":%v}`, n%2 == 0)
	case "SWITCH":
		name := []string{"red", "green", "default"}[n%3]
		return gives(name, `{"case":%q}`, name)
	case "TRANSFORM":
		return gives("next", `{"result":%d}`, n+1)
	case "NUMBER_CONSTANT":
		return gives("next", `{"value":%v}`, p.Config["value"])
	case "RESPOND":
		r.Output = input
		return Fate{status.StageCompleted, "next", input}
	case "DELAY":
		return Fate{status.StageCompleted, "next", nil}
	case "WAIT_FOR_SIGNAL":
		if p.Config["name"] == "given" {
			return gives("next", `{"payload":%s}`, Payload)
		}
		return gives("timeout", `{}`)
	case "FOR_EACH":
		return r.forEach(p, input, iteration)
	case "REPEAT":
		return r.repeat(p, input, iteration)
	case "CONTINUE":
		return r.proceed(p, input, iteration)
	case "RUN_WORKFLOW":
		inner := Interpret(r.Below[p.Config["workflowId"].(string)], input)
		if len(inner.Broken) > 0 {
			return Fate{Status: status.StageFailed}
		}
		if inner.Output == nil {
			return gives("next", "{}")
		}
		return Fate{status.StageCompleted, "next", inner.Output}
	case "FAIL":
		return Fate{Status: status.StageFailed}
	}
	return Fate{Status: status.StageFailed}
}

// bind returns the input of a component, or reports that a value is missing.
func (r *Reference) bind(p Part, iteration []int) (input json.RawMessage, missing bool) {
	bound := map[string]any{}
	maps.Copy(bound, p.Input)
	for _, c := range r.Wires {
		if c.To.ComponentID != p.ID {
			continue
		}
		switch value := r.value(c, iteration); {
		case c.way == inText:
			bound[c.To.Input] = inside(value)
		case value == nil && c.way == whole:
			return nil, true
		case value == nil, string(value) == "null" && c.way != connected && c.way != whole:
		default:
			bound[c.To.Input] = value
		}
	}
	return encode(bound), false
}

// inside returns the text of a value between angle brackets.
func inside(value json.RawMessage) string {
	var text string
	if value == nil || string(value) == "null" {
		text = "-"
	} else if json.Unmarshal(value, &text) != nil {
		text = string(value)
	}
	return "<" + text + ">"
}

// work returns the outcome of a WORK, SEND or PURE in an iteration.
func (r *Reference) work(p Part, input json.RawMessage, iteration []int) Fate {
	if stage, taken := r.taken[Place(p.ID, iteration)]; taken && stage.Status != status.StageCanceled {
		return Fate{stage.Status, "next", stage.Output}
	}
	salt, _ := p.Config["salt"].(int)
	fails, _ := p.Config["fails"].(int)
	generation := r.generation
	if p.Module == "PURE" { // it has no lineage
		generation = 0
	}
	output, failed := Worked(input, salt, fails, generation)
	if failed {
		return Fate{Status: status.StageFailed}
	}
	return Fate{status.StageCompleted, "next", output}
}

// Payload is the payload of the signal.
const Payload = `{"by":"ada"}`

// forEach runs a body for each item.
func (r *Reference) forEach(p Part, input json.RawMessage, iteration []int) Fate {
	before := maps.Clone(r.Fates)
	at := Place(p.ID, iteration)
	var items []json.RawMessage
	if json.Unmarshal(member(input, "items"), &items) != nil || items == nil {
		return Fate{Status: status.StageFailed}
	}
	r.items[at] = items
	failed := 0
	for i := range items {
		inner := append(slices.Clone(iteration), i)
		if len(r.scope(p.ID, inner)) > 0 {
			r.failed[Place(p.ID, inner)] = true
			failed++
		}
	}
	if failed > 0 && p.Config["onItemFailure"] == "fail" {
		r.loosen(before)
		return Fate{Status: status.StageFailed}
	}
	return Fate{status.StageCompleted, "next", fmt.Appendf(nil, `{"count":%d,"failedItems":%d}`, len(items), failed)}
}
