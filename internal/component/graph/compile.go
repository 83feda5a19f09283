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
	"github.com/weft-automation/weft/internal/kit/retry"
)

// Limits of a definition.
const (
	MaxComponents  = 500
	MaxEdges       = 2000
	MaxConnections = 2000
	MaxDepth       = 8 // nesting of loops

	maxAttempts = 3
	maxProblems = 100 // reported at once
	maxQuoted   = 128 // characters of a quoted name in a message
	maxListing  = 20  // names in a message
)

// identifier has no length limit, because regexp compiles a counted repetition into that many
// steps.
var identifier = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// IsIdentifier reports whether a string is a valid ID in a graph, or a valid name of a port.
func IsIdentifier(text string) bool { return len(text) <= 64 && identifier.MatchString(text) }

// node is a component in the graph. Other nodes are referred to by their index in the definition.
type node struct {
	component     Component
	module        Module
	known         bool     // the library has the module
	duplicate     bool     // an earlier component has the same ID
	unknownSource bool     // an edge from an unknown component leads to this node
	ports         []string // without `error`
	around        []int    // the loops around the node, outermost first
	wired         map[string]bool
	sources       []Source
	bound         []binding
	references    []Source        // the outputs to which strings and expressions refer
	texts         map[string]text // strings with references, by their JSON pointers
	variables     []string        // environment variables in expressions
	hidden        map[string]bool // names that mean inputs in expressions
	aboutRun      bool            // a reference starts with run, or is now()
	input         *jsonschema.Schema
	output        *jsonschema.Schema

	// The position of the node in its scope, whose components are in topological order.
	at    int     // index in that order
	entry bool    // no edge in the scope leads to it
	in    []arrow // edges to this node
	needs []int   // nodes from which this node receives data
}

// arrow is an edge between two nodes, or a data connection.
type arrow struct {
	from, to int
	port     string
	pointer  string
	data     string // of a connection: a description of the value
}

// compiler collects facts about a definition, and its errors.
type compiler struct {
	definition Definition
	library    Library
	nodes      []node
	index      map[string]int // by ID; the first of duplicates
	arrows     []arrow        // edges, without those that close a cycle after cutCycles
	flows      []arrow        // edges and connections between the nodes of a scope
	uses       []use
	items      map[int]Connection            // connections into the items of FOR_EACH components
	schemas    map[string]*jsonschema.Schema // cache of parsed schemas
	problems   []Problem
	warnings   []Problem
	reported   map[Problem]bool // reported problems, without messages
}

// Compile returns the plan of a definition, or all its errors.
func Compile(d Definition, library Library) (*Plan, []Problem) {
	plan, problems, _ := compile(d, library, func(*compiler) {})
	return plan, problems
}

// compile is Compile with additional checks, which may add errors and warnings.
func compile(d Definition, library Library, more func(c *compiler)) (plan *Plan, problems, warnings []Problem) {
	c := &compiler{definition: d, library: library, index: map[string]int{}, items: map[int]Connection{}, schemas: map[string]*jsonschema.Schema{}, reported: map[Problem]bool{}}
	if c.limits() {
		c.policy("", "the default retry policy", c.definition.Retry)
		c.components()
		c.references()
		c.edges()
		c.cutCycles()
		c.bodies()
		c.reach()
		c.connections()
		c.connectReferences()
		order := c.cutDeadlocks()
		c.inputs()
		more(c)
		if len(c.problems) == 0 {
			return c.plan(order), nil, inOrder(c.warnings)
		}
	}
	return nil, inOrder(c.problems), nil
}

// inOrder sorts problems by their position in the definition and returns at most maxProblems.
func inOrder(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int { return slices.Compare(placed(a), placed(b)) })
	return problems[:min(len(problems), maxProblems)]
}

// placed returns the sort key of a problem: its position in the definition.
func placed(p Problem) []int {
	tokens := append(strings.Split(p.Pointer, "/"), "", "", "")
	index, _ := strconv.Atoi(tokens[2])
	return []int{slices.Index([]string{"components", "sequenceEdges", "dataConnections"}, tokens[1]), index}
}

// fault records an error, once for each pointer and code.
func (c *compiler) fault(pointer, code, format string, args ...any) {
	key := Problem{Pointer: pointer, Code: code}
	if !c.reported[key] {
		c.reported[key] = true
		c.problems = append(c.problems, Problem{Pointer: pointer, Code: code, Message: fmt.Sprintf(format, args...)})
	}
}

// limits reports whether the definition is within the size limits, which bound the work of the
// other checks.
func (c *compiler) limits() bool {
	check := func(pointer, code, things string, count, limit int) {
		if count > limit {
			c.fault(pointer, code, "there are %d %s; at most %d are allowed", count, things, limit)
		}
	}
	check("/components", CodeTooManyComponents, "components", len(c.definition.Components), MaxComponents)
	check("/sequenceEdges", CodeTooManyEdges, "sequence edges", len(c.definition.SequenceEdges), MaxEdges)
	check("/dataConnections", CodeTooManyConnections, "data connections", len(c.definition.DataConnections), MaxConnections)
	return len(c.problems) == 0
}

// identify checks an ID, and reports whether this is the first use of the ID.
func (c *compiler) identify(pointer, id, thing string, first map[string]int, at int) bool {
	if !IsIdentifier(id) {
		c.fault(pointer, CodeInvalidID, "the id %s of a %s must be 1 to 64 letters, digits, hyphens and underscores", quote(id), thing)
	}
	if other, duplicate := first[id]; duplicate {
		c.fault(pointer, CodeDuplicateID, "the %ss %d and %d both have the id %s", thing, other, at, quote(id))
		return false
	}
	first[id] = at
	return true
}

// components checks the components and makes their nodes.
func (c *compiler) components() {
	for i, component := range c.definition.Components {
		pointer := "/components/" + strconv.Itoa(i)
		n := node{component: component, wired: map[string]bool{}}
		n.duplicate = !c.identify(pointer+"/id", component.ID, "component", c.index, i)
		n.module, n.known = c.library.Module(component.Module)
		if !n.known {
			c.fault(pointer+"/module", CodeUnknownModule, "component %s: %s", quote(component.ID), c.library.Unknown(component.Module))
		}
		n.input, n.output = c.schema(n.module.Input), c.schema(n.module.Output)
		n.ports = portsOf(n.module, component.Config)
		if component.Attempts < 0 || component.Attempts > maxAttempts {
			c.fault(pointer+"/attempts", CodeInvalidSetting, "component %s: attempts must be 1 to %d", quote(component.ID), maxAttempts)
		}
		c.retry(pointer, &n)
		if component.TimeoutMs < 0 {
			c.fault(pointer+"/timeoutMs", CodeInvalidSetting, "component %s: timeoutMs must not be negative", quote(component.ID))
		}
		if !slices.Contains([]string{"", OnFailureFail, OnFailureContinue}, component.OnFailure) {
			c.fault(pointer+"/onFailure", CodeInvalidSetting, "component %s: onFailure must be fail or continue", quote(component.ID))
		}
		c.nodes = append(c.nodes, n)
	}
}

// policy checks a retry policy, which may be nil.
func (c *compiler) policy(pointer, owner string, policy json.RawMessage) {
	if policy != nil {
		_, details := retry.Parse(pointer+"/retry", policy)
		for _, detail := range details {
			c.fault(detail.Pointer, CodeInvalidSetting, "%s: %s", owner, detail.Message)
		}
	}
}

// retry checks the retry policy of a component, or sets it to the default.
func (c *compiler) retry(pointer string, n *node) {
	if n.component.Retry == nil {
		if n.component.Attempts == 0 && !n.module.Inline {
			n.component.Retry = c.definition.Retry
		}
		return
	}
	switch {
	case n.component.Attempts > 0:
		c.fault(pointer+"/retry", CodeInvalidSetting, "component %s: retry cannot be combined with attempts", quote(n.component.ID))
	case n.module.Inline:
		c.fault(pointer+"/retry", CodeInvalidSetting, "component %s: %s runs in a single attempt: omit retry", quote(n.component.ID), n.component.Module)
	}
	c.policy(pointer, "component "+quote(n.component.ID), n.component.Retry)
}

// schema parses a schema. Components often share schemas, so the result is cached. It returns nil,
// which allows any value, if the schema is invalid.
func (c *compiler) schema(text json.RawMessage) *jsonschema.Schema {
	read, known := c.schemas[string(text)]
	if !known {
		read, _ = jsonschema.Parse(text)
		c.schemas[string(text)] = read
	}
	return read
}

// portsOf returns the ports of a component without `error`.
func portsOf(module Module, config json.RawMessage) []string {
	if module.Loop {
		return append([]string{PortEach, PortDone, PortNext}, module.Ports...)
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

// find returns the index of a component, and whether it exists.
func (c *compiler) find(pointer, id, thing string) (int, bool) {
	at, ok := c.index[id]
	if !ok {
		c.fault(pointer, CodeUnknownComponent, "the %s refers to the unknown component %s", thing, quote(id))
	}
	return at, ok
}

// edges checks the sequence edges and makes their arrows.
func (c *compiler) edges() {
	first := map[string]int{}
	for i, edge := range c.definition.SequenceEdges {
		pointer := "/sequenceEdges/" + strconv.Itoa(i)
		c.identify(pointer+"/id", edge.ID, "sequence edge", first, i)
		from, sourceKnown := c.find(pointer+"/from", edge.From, "sequence edge "+quote(edge.ID))
		to, targetKnown := c.find(pointer+"/to", edge.To, "sequence edge "+quote(edge.ID))
		port := c.port(pointer+"/port", from, sourceKnown, edge.Port)
		switch {
		case !targetKnown:
		case !sourceKnown:
			c.nodes[to].unknownSource = true
		case from == to:
			c.fault(pointer, CodeSelfEdge, "the sequence edge %s leads from %s to itself", quote(edge.ID), quote(edge.From))
		case c.nodes[to].module.Trigger:
			c.fault(pointer+"/to", CodeIntoTrigger, "the sequence edge %s leads from %s to the trigger %s: edges cannot lead to a trigger",
				quote(edge.ID), quote(edge.From), quote(edge.To))
		default:
			c.nodes[from].wired[port] = true
			c.arrows = append(c.arrows, arrow{from: from, to: to, port: port, pointer: pointer})
		}
	}
}

// port checks the port of an edge and returns its canonical name.
func (c *compiler) port(pointer string, from int, sourceKnown bool, port string) string {
	port = cmp.Or(port, PortNext)
	if !sourceKnown || !c.nodes[from].known || c.nodes[from].module.Continues { // continues reports those
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

// reach reports the components that no run can reach from the trigger. Without a trigger, a run
// starts at every component that no edge leads to, so it reaches all components outside of
// cycles.
func (c *compiler) reach() {
	var start, triggers []int
	for i, n := range c.nodes {
		if n.module.Trigger {
			triggers = append(triggers, i)
		}
		if n.module.Trigger || n.unknownSource || !n.known {
			start = append(start, i)
		}
	}
	if len(triggers) == 0 {
		return
	}
	out := c.outgoing()
	reached := reachable(out, start)
	for more := c.dataSources(reached); len(more) > 0; more = c.dataSources(reached) {
		start = append(start, more...)
		reached = reachable(out, start)
	}
	for i, n := range c.nodes {
		if !reached[i] && !n.duplicate {
			c.fault("/components/"+strconv.Itoa(i), CodeUnreachable,
				"component %s is never started: no sequence edges lead to it from the trigger %s", quote(n.component.ID), quote(c.nodes[triggers[0]].component.ID))
		}
	}
}

// dataSources returns the unreached components that no edge leads to and that send data to a
// reached component, such as constants. A run also starts these components.
func (c *compiler) dataSources(reached []bool) []int {
	entered := make([]bool, len(c.nodes))
	for _, a := range c.arrows {
		entered[a.to] = true
	}
	var sources []int
	for _, connection := range c.definition.DataConnections {
		from, sourceKnown := c.index[connection.From.ComponentID]
		to, targetKnown := c.index[connection.To.ComponentID]
		if sourceKnown && targetKnown && reached[to] && !reached[from] && !entered[from] && !slices.Contains(sources, from) {
			sources = append(sources, from)
		}
	}
	for _, u := range c.uses {
		from, known := c.index[u.Root]
		if known && !u.Named && reached[u.node] && !reached[from] && !entered[from] && !slices.Contains(sources, from) {
			sources = append(sources, from)
		}
	}
	return sources
}

// outgoing returns the edges by their source.
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

// reachable reports for each node whether it can be reached from the start nodes. The start
// nodes are reachable themselves.
func reachable(out [][]arrow, start []int) []bool {
	reached := make([]bool, len(out))
	for _, n := range start {
		reached[n] = true
	}
	for queue := slices.Clone(start); len(queue) > 0; queue = queue[1:] {
		for _, a := range out[queue[0]] {
			if !reached[a.to] {
				reached[a.to] = true
				queue = append(queue, a.to)
			}
		}
	}
	return reached
}

// quote returns a string from the author for a message, in ASCII and quotes, truncated.
func quote(text string) string { return fault.Quote(text, maxQuoted) }

// listing returns names as a comma-separated list, truncated.
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
