package graph

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
)

// The bounds of one definition.
const (
	MaxComponents  = 500
	MaxEdges       = 2000
	MaxConnections = 2000
	MaxDepth       = 8 // FOR_EACH inside FOR_EACH

	maxAttempts = 3
	maxProblems = 100 // told at once
	maxQuoted   = 128 // characters of an author's text in a message
	maxListing  = 20  // names in a message
)

// identifier has no bound on its length: each step of one that a pattern counts is kept
// in memory.
var identifier = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// IsIdentifier reports whether a text may be an id of the graph, or the name of a port.
func IsIdentifier(text string) bool { return len(text) <= 64 && identifier.MatchString(text) }

// node is a component among the others. Other nodes are named by their place in
// the definition.
type node struct {
	component Component
	module    Module
	known     bool     // the library has the module
	spare     bool     // another component has the same id
	loose     bool     // an edge from nowhere leads to it
	ports     []string // all but `error`
	around    []int    // the FOR_EACH around it, outermost first
	wired     map[string]bool
	sources   []Source
	bound     []binding
	input     *jsonschema.Schema
	output    *jsonschema.Schema

	// Within its scope, whose members are in an order in which everything comes
	// after what it waits for.
	at    int     // its place in that order
	entry bool    // nothing in the scope leads to it
	in    []arrow // what leads to it
	needs []int   // whose end it waits for, because data comes from there
}

// arrow is an edge or, of data, a connection between two nodes.
type arrow struct {
	from, to int
	port     string
	pointer  string
	data     string // of a connection: which value it is for what
}

// compiler collects what is known of a definition, and what is wrong with it.
type compiler struct {
	definition Definition
	library    Library
	nodes      []node
	index      map[string]int                // by id, the first of that id
	arrows     []arrow                       // the edges, later without those that close a cycle
	flows      []arrow                       // edges and connections between the members of a scope
	items      map[int]Connection            // into the items of a FOR_EACH
	schemas    map[string]*jsonschema.Schema // parsed once
	problems   []Problem
	warnings   []Problem
	told       map[Problem]bool // without its message
}

// Compile makes the plan of a definition, or tells all that is wrong with it.
func Compile(d Definition, library Library) (*Plan, []Problem) {
	plan, problems, _ := compile(d, library, func(*compiler) {})
	return plan, problems
}

func compile(d Definition, library Library, more func(c *compiler)) (plan *Plan, problems, warnings []Problem) {
	c := &compiler{definition: d, library: library, index: map[string]int{}, schemas: map[string]*jsonschema.Schema{}, told: map[Problem]bool{}}
	if c.limits() {
		c.components()
		c.edges()
		c.cutCycles()
		c.bodies()
		c.reach()
		c.connections()
		order := c.cutDeadlocks()
		c.inputs()
		more(c)
		if len(c.problems) == 0 {
			return c.plan(order), nil, inOrder(c.warnings)
		}
	}
	return nil, inOrder(c.problems), nil
}

// inOrder is as many problems as are told at once, as the definition is read from top to bottom.
func inOrder(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int { return slices.Compare(placed(a), placed(b)) })
	return problems[:min(len(problems), maxProblems)]
}

// placed is where a problem is, as the definition is read from top to bottom.
func placed(p Problem) []int {
	tokens := append(strings.Split(p.Pointer, "/"), "", "", "")
	index, _ := strconv.Atoi(tokens[2])
	return []int{slices.Index([]string{"components", "sequenceEdges", "dataConnections"}, tokens[1]), index}
}

func (c *compiler) fault(pointer, code, format string, args ...any) {
	key := Problem{Pointer: pointer, Code: code}
	if !c.told[key] {
		c.told[key] = true
		c.problems = append(c.problems, Problem{Pointer: pointer, Code: code, Message: fmt.Sprintf(format, args...)})
	}
}

// limits reports whether the definition is of a size to look at: whatever it
// holds, the work is bounded.
func (c *compiler) limits() bool {
	check := func(pointer, code, things string, count, limit int) {
		if count > limit {
			c.fault(pointer, code, "there are %d %s, and at most %d are allowed", count, things, limit)
		}
	}
	check("/components", CodeTooManyComponents, "components", len(c.definition.Components), MaxComponents)
	check("/sequenceEdges", CodeTooManyEdges, "sequence edges", len(c.definition.SequenceEdges), MaxEdges)
	check("/dataConnections", CodeTooManyConnections, "data connections", len(c.definition.DataConnections), MaxConnections)
	return len(c.problems) == 0
}

// identify checks an id and reports whether it is the first of its kind.
func (c *compiler) identify(pointer, id, thing string, first map[string]int, at int) bool {
	if !IsIdentifier(id) {
		c.fault(pointer, CodeInvalidID, "the id %s of a %s must be 1 to 64 letters, digits, hyphens and underscores", quote(id), thing)
	}
	if other, double := first[id]; double {
		c.fault(pointer, CodeDuplicateID, "the %ss %d and %d both have the id %s", thing, other, at, quote(id))
		return false
	}
	first[id] = at
	return true
}

func (c *compiler) components() {
	for i, component := range c.definition.Components {
		pointer := "/components/" + strconv.Itoa(i)
		n := node{component: component, wired: map[string]bool{}}
		n.spare = !c.identify(pointer+"/id", component.ID, "component", c.index, i)
		n.module, n.known = c.library.Module(component.Module)
		if !n.known {
			c.fault(pointer+"/module", CodeUnknownModule, "component %s: %s", quote(component.ID), c.library.Unknown(component.Module))
		}
		n.input, n.output = c.schema(n.module.Input), c.schema(n.module.Output)
		n.ports = portsOf(n.module, component.Config)
		if component.Attempts < 0 || component.Attempts > maxAttempts {
			c.fault(pointer+"/attempts", CodeInvalidSetting, "component %s: attempts must be 1 to %d", quote(component.ID), maxAttempts)
		}
		if component.TimeoutMs < 0 {
			c.fault(pointer+"/timeoutMs", CodeInvalidSetting, "component %s: timeoutMs must not be negative", quote(component.ID))
		}
		if !slices.Contains([]string{"", OnFailureFail, OnFailureContinue}, component.OnFailure) {
			c.fault(pointer+"/onFailure", CodeInvalidSetting, "component %s: onFailure must be fail or continue", quote(component.ID))
		}
		c.nodes = append(c.nodes, n)
	}
}

// schema reads a schema once, because many components have the same. It returns nil, which
// allows any value, for one that cannot be read.
func (c *compiler) schema(text json.RawMessage) *jsonschema.Schema {
	read, known := c.schemas[string(text)]
	if !known {
		read, _ = jsonschema.Parse(text)
		c.schemas[string(text)] = read
	}
	return read
}

// portsOf are the ports of a component beside `error`.
func portsOf(module Module, config json.RawMessage) []string {
	if module.Loop {
		return []string{PortEach, PortDone, PortNext}
	}
	ports := slices.Clone(module.Ports)
	if module.CasePorts != nil {
		ports = append(ports, module.CasePorts(object(config))...)
		if len(module.Ports) == 0 {
			ports = append(ports, PortDefault)
		}
	}
	if ports == nil {
		ports = []string{PortNext}
	}
	return ports
}

// find is the component of an id.
func (c *compiler) find(pointer, id, thing string) (int, bool) {
	at, ok := c.index[id]
	if !ok {
		c.fault(pointer, CodeUnknownComponent, "the %s names the component %s, which is not there", thing, quote(id))
	}
	return at, ok
}

func (c *compiler) edges() {
	first := map[string]int{}
	for i, edge := range c.definition.SequenceEdges {
		pointer := "/sequenceEdges/" + strconv.Itoa(i)
		c.identify(pointer+"/id", edge.ID, "sequence edge", first, i)
		from, begins := c.find(pointer+"/from", edge.From, "sequence edge "+quote(edge.ID))
		to, ends := c.find(pointer+"/to", edge.To, "sequence edge "+quote(edge.ID))
		port := c.port(pointer+"/port", from, begins, edge.Port)
		switch {
		case !ends:
		case !begins:
			c.nodes[to].loose = true
		case from == to:
			c.fault(pointer, CodeSelfEdge, "the sequence edge %s leads from %s to itself", quote(edge.ID), quote(edge.From))
		case c.nodes[to].module.Trigger:
			c.fault(pointer+"/to", CodeIntoTrigger, "the sequence edge %s leads from %s to %s, which is a trigger: runs begin there, nothing leads to it",
				quote(edge.ID), quote(edge.From), quote(edge.To))
		default:
			c.nodes[from].wired[port] = true
			c.arrows = append(c.arrows, arrow{from: from, to: to, port: port, pointer: pointer})
		}
	}
}

// port is the port of an edge, by the one name that it goes by inside.
func (c *compiler) port(pointer string, from int, begins bool, port string) string {
	port = cmp.Or(port, PortNext)
	if !begins || !c.nodes[from].known {
		return port
	}
	n := c.nodes[from]
	if port != PortError && !slices.Contains(n.ports, port) {
		c.fault(pointer, CodeUnknownPort, "component %s (%s) has no port %s; its ports are %s",
			quote(n.component.ID), n.component.Module, quote(port), listing(append(slices.Clone(n.ports), PortError)))
	}
	if n.module.Loop && port == PortNext {
		return PortDone
	}
	return port
}

// reach tells what no run comes to. Without a trigger a run begins at every
// component that no edge leads to, and what is left then is in a cycle.
func (c *compiler) reach() {
	var begin, triggers []int
	for i, n := range c.nodes {
		if n.module.Trigger {
			triggers = append(triggers, i)
		}
		if n.module.Trigger || n.loose || !n.known {
			begin = append(begin, i)
		}
	}
	if len(triggers) == 0 {
		return
	}
	out := c.outgoing()
	reached := spread(out, begin)
	for more := c.givers(reached); len(more) > 0; more = c.givers(reached) {
		begin = append(begin, more...)
		reached = spread(out, begin)
	}
	for i, n := range c.nodes {
		if !reached[i] && !n.spare {
			c.fault("/components/"+strconv.Itoa(i), CodeUnreachable,
				"component %s is never started: no sequence edges lead to it from the trigger %s", quote(n.component.ID), quote(c.nodes[triggers[0]].component.ID))
		}
	}
}

// givers are the components, not reached yet, that no edge leads to and that give data to
// what is reached: a constant, say. A run begins at them too.
func (c *compiler) givers(reached []bool) []int {
	entered := make([]bool, len(c.nodes))
	for _, a := range c.arrows {
		entered[a.to] = true
	}
	var givers []int
	for _, connection := range c.definition.DataConnections {
		from, begins := c.index[connection.From.ComponentID]
		to, ends := c.index[connection.To.ComponentID]
		if begins && ends && reached[to] && !reached[from] && !entered[from] && !slices.Contains(givers, from) {
			givers = append(givers, from)
		}
	}
	return givers
}

// outgoing are the edges by the node where they begin.
func (c *compiler) outgoing() [][]arrow {
	return outgoing(len(c.nodes), c.arrows)
}

func outgoing(count int, arrows []arrow) [][]arrow {
	out := make([][]arrow, count)
	for _, a := range arrows {
		out[a.from] = append(out[a.from], a)
	}
	return out
}

// spread is what can be reached from some nodes, and they themselves.
func spread(out [][]arrow, begin []int) []bool {
	reached := make([]bool, len(out))
	for _, n := range begin {
		reached[n] = true
	}
	for queue := slices.Clone(begin); len(queue) > 0; queue = queue[1:] {
		for _, a := range out[queue[0]] {
			if !reached[a.to] {
				reached[a.to] = true
				queue = append(queue, a.to)
			}
		}
	}
	return reached
}

// quote returns an author's text for a message.
func quote(text string) string { return fault.Quote(text, maxQuoted) }

// listing names some things, in words.
func listing(names []string) string {
	words := make([]string, 0, maxListing)
	for _, name := range names[:min(len(names), maxListing)] {
		if !IsIdentifier(name) {
			name = quote(name)
		}
		words = append(words, name)
	}
	if len(names) > maxListing {
		words = append(words, "...")
	}
	return strings.Join(words, ", ")
}
