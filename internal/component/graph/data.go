package graph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

const (
	maxPath = 256 // characters of the path of an output or input
	maxHops = 2 * MaxDepth
)

// Source is a data connection as its receiver sees it.
type Source struct {
	Connection string // its id

	From string // the component that gives
	Path string // name or dotted path in its output, for Select
	To   string // name or dotted path in the input, for Bind
	Into string // the component that takes

	// Depth is how many loop indexes the stages of both ends share: those of the
	// FOR_EACH that are around both.
	Depth int
	// Collected counts the FOR_EACH that the value leaves: 0 is a plain value, 1 an
	// array of the per-item values in item order, 2 an array of such arrays.
	Collected int
	// Item says that From is a FOR_EACH around the receiver. Path begins with item
	// or index then, and means the receiver's own iteration: its index at Depth.
	Item bool

	Required bool               // by the receiver's schema
	Schema   *jsonschema.Schema // what the receiver takes there; nil: any value

	segments []string // of To
}

// binding is an input that a connection fills.
type binding struct {
	pointer  string
	id       string
	path     string
	segments []string
}

// connections looks at the data connections, one by one.
func (c *compiler) connections() {
	c.items = map[int]Connection{}
	for _, connection := range c.definition.DataConnections {
		if to, ok := c.index[connection.To.ComponentID]; ok && c.nodes[to].module.Loop && connection.To.Input == "items" {
			c.items[to] = connection
		}
	}
	first := map[string]int{}
	for i, connection := range c.definition.DataConnections {
		pointer := "/dataConnections/" + strconv.Itoa(i)
		thing := "data connection " + quote(connection.ID)
		c.identify(pointer+"/id", connection.ID, "data connection", first, i)
		from, begins := c.find(pointer+"/from/componentId", connection.From.ComponentID, thing)
		to, ends := c.find(pointer+"/to/componentId", connection.To.ComponentID, thing)
		output := c.path(pointer+"/from/output", CodeUnknownOutput, connection.From.Output)
		input := c.path(pointer+"/to/input", CodeUnknownInput, connection.To.Input)
		switch {
		case !ends || !input:
		case c.nodes[to].module.Trigger:
			c.fault(pointer+"/to/componentId", CodeIntoTrigger, "the %s leads into %s, which is a trigger and takes no data", thing, quote(connection.To.ComponentID))
		default:
			if c.claim(pointer, to, connection) && begins && output {
				c.connect(pointer, from, to, connection)
			}
		}
	}
}

func (c *compiler) path(pointer, code, path string) bool {
	ok := path != "" && len(path) <= maxPath && !slices.Contains(strings.Split(path, "."), "")
	if !ok {
		c.fault(pointer, code, "%s is neither a name nor a dotted path of at most %d characters", quote(path), maxPath)
	}
	return ok
}

// claim takes an input for a connection, and reports whether there is such an input.
func (c *compiler) claim(pointer string, to int, connection Connection) bool {
	n := &c.nodes[to]
	whole, segments, missing := n.input.Follow(connection.To.Input)
	if missing >= 0 {
		c.fault(pointer+"/to/input", CodeUnknownInput, "component %s (%s) has no input %s: %s",
			quote(n.component.ID), n.component.Module, quote(connection.To.Input), lacks(whole, segments[:missing], "inputs"))
	}
	for _, other := range n.bound {
		shorter := min(len(other.segments), len(segments))
		if slices.Equal(other.segments[:shorter], segments[:shorter]) {
			c.fault(pointer+"/to/input", CodeInputTaken, "the data connections %s and %s both lead into %s",
				quote(other.id), quote(connection.ID), end(connection.To.ComponentID, connection.To.Input))
			break
		}
	}
	n.bound = append(n.bound, binding{pointer: pointer, id: connection.ID, path: connection.To.Input, segments: segments})
	return missing < 0
}

// connect makes the source of a connection between two components that are there.
func (c *compiler) connect(pointer string, from, to int, connection Connection) {
	giver, taker := &c.nodes[from], &c.nodes[to]
	first, second := c.level(from, to)
	switch {
	case from == to:
		c.fault(pointer, CodeSelfEdge, "the data connection %s leads from %s to itself", quote(connection.ID), quote(connection.From.ComponentID))
		return
	case first != second:
		about := fmt.Sprintf("%s needs the value of %s", end(connection.To.ComponentID, connection.To.Input), end(connection.From.ComponentID, connection.From.Output))
		c.flows = append(c.flows, arrow{from: first, to: second, pointer: pointer, data: about})
	case second == to:
		c.fault(pointer, CodeCycle, "the FOR_EACH %s takes data from %s, which is in its own body", quote(taker.component.ID), quote(giver.component.ID))
		return
	}
	given, reason := c.arriving(from, to, connection.From.Output, 0)
	if reason != "" {
		c.fault(pointer+"/from/output", CodeUnknownOutput, "%s", reason)
		return
	}
	taken, segments, _ := taker.input.Follow(connection.To.Input)
	if reason := jsonschema.Mismatch(given, taken); reason != "" {
		c.fault(pointer, CodeTypeMismatch, "%s does not fit into %s: %s; only integers and decimal strings are converted into each other, and numbers into strings",
			end(connection.From.ComponentID, connection.From.Output), end(connection.To.ComponentID, connection.To.Input), reason)
	}
	shared := c.shared(from, to)
	taker.sources = append(taker.sources, Source{
		Connection: connection.ID,
		From:       connection.From.ComponentID, Path: connection.From.Output,
		Into: connection.To.ComponentID, To: connection.To.Input,
		Depth: shared, Collected: len(giver.around) - shared, Item: first == second,
		Required: slices.Contains(taker.input.RequiredNames(), segments[0]),
		Schema:   taken,
		segments: segments,
	})
}

// arriving returns the schema of what one component receives of another's output, or why
// there is no such output.
func (c *compiler) arriving(from, to int, path string, hops int) (*jsonschema.Schema, string) {
	n := c.nodes[from]
	name, rest, deeper := strings.Cut(path, ".")
	own := n.module.Loop && (name == OutputItem || name == OutputIndex)
	around := slices.Contains(c.nodes[to].around, from)
	switch {
	case own && !around:
		return nil, fmt.Sprintf("%s is there in the body of the FOR_EACH %s only; outside, connect an output of a component of the body, which gives the array of its values",
			quote(name), quote(n.component.ID))
	case !own && around:
		return nil, fmt.Sprintf("inside its body the FOR_EACH %s gives item and index only, not %s", quote(n.component.ID), quote(path))
	}
	whole, inner := n.output, path
	if own {
		whole, inner = &jsonschema.Schema{Types: []string{"integer"}}, rest
		if name == OutputItem {
			whole = c.item(from, hops)
		}
		if !deeper {
			return whole, ""
		}
	}
	given, segments, missing := whole.Follow(inner)
	if missing >= 0 {
		segments = segments[:missing]
		if own {
			segments = append([]string{name}, segments...)
		}
		return nil, fmt.Sprintf("component %s (%s) has no output %s: %s", quote(n.component.ID), n.component.Module, quote(path), lacks(given, segments, "outputs"))
	}
	for range len(n.around) - c.shared(from, to) {
		given = &jsonschema.Schema{Types: []string{"array"}, Items: given}
	}
	return given, ""
}

// item returns the schema of one item of a FOR_EACH, as far as the output that gives the items
// says it.
func (c *compiler) item(loop, hops int) *jsonschema.Schema {
	connection, ok := c.items[loop]
	from, known := c.index[connection.From.ComponentID]
	if !ok || !known || from == loop || hops == maxHops {
		return nil
	}
	items, reason := c.arriving(from, loop, connection.From.Output, hops+1)
	if reason != "" {
		return nil
	}
	return items.Item(0)
}

// inputs checks the literals, and that what is required is given.
func (c *compiler) inputs() {
	for i := range c.nodes {
		n := &c.nodes[i]
		pointer := "/components/" + strconv.Itoa(i)
		input, fine := c.literal(pointer+"/input", n)
		if !isObject(n.component.Config) {
			c.fault(pointer+"/config", CodeInvalidInput, "component %s: config must be an object", quote(n.component.ID))
			fine = false
		}
		if !fine {
			continue
		}
		c.missing(pointer, n, input)
		if n.module.Check == nil {
			continue
		}
		var bound []string
		for _, b := range n.bound {
			bound = append(bound, b.path)
		}
		for _, problem := range n.module.Check(object(n.component.Input), object(n.component.Config), bound) {
			if !c.told[Problem{Pointer: pointer + problem.Pointer, Code: CodeMissingInput}] {
				if problem.Code == "" {
					problem.Code = CodeInvalidInput
				}
				c.fault(pointer+problem.Pointer, problem.Code, "component %s: %s", quote(n.component.ID), problem.Message)
			}
		}
	}
}

// literal reads the input that the author wrote, and tries whether the values of
// the connections can be laid into it.
func (c *compiler) literal(pointer string, n *node) (map[string]json.RawMessage, bool) {
	tree, err := strictjson.Decode(object(n.component.Input))
	if _, ok := tree.(map[string]any); err != nil || !ok {
		c.fault(pointer, CodeInvalidInput, "component %s: input must be an object", quote(n.component.ID))
		return nil, false
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(object(n.component.Input), &members) != nil {
		return nil, false
	}
	l := layer{left: maxFilled}
	for _, b := range n.bound {
		if _, err := l.lay(tree, b.segments, nil); err != nil {
			c.fault(b.pointer+"/to/input", CodeInvalidInput, "nothing can be put into %s: %s", end(n.component.ID, b.path), err)
		}
	}
	return members, true
}

// missing tells the required inputs that are neither written nor connected.
func (c *compiler) missing(pointer string, n *node, literal map[string]json.RawMessage) {
	for _, name := range n.input.RequiredNames() {
		_, written := literal[name]
		connected := slices.ContainsFunc(n.bound, func(b binding) bool { return b.segments[0] == name })
		if !written && !connected {
			wanted := ""
			property, _ := n.input.Resolve().Property(name)
			if types := property.TypeSet(); types != jsonschema.AnyType {
				wanted = ": expected " + types.String()
			}
			c.fault(pointer+"/input/"+fault.EscapeToken(name), CodeMissingInput, "component %s (%s): the input %s is required, and is neither given nor connected%s",
				quote(n.component.ID), n.component.Module, quote(name), wanted)
		}
	}
}

// end names one end of a connection.
func end(id, path string) string { return quote(id + "." + path) }

// lacks says what a schema has instead of a member at a path. The given segments of the path
// lead to the schema.
func lacks(schema *jsonschema.Schema, segments []string, things string) string {
	whose := "its " + things
	if len(segments) > 0 {
		whose = "the members of " + quote(strings.Join(segments, "."))
	}
	if names := schema.Names(); len(names) > 0 {
		return whose + " are " + listing(names)
	}
	if len(segments) == 0 {
		return "it has no " + things
	}
	return quote(strings.Join(segments, ".")) + " is " + schema.TypeSet().String()
}

// object is a value that may be left out.
func object(data json.RawMessage) json.RawMessage {
	if trimmed := bytes.TrimSpace(data); len(trimmed) == 0 || string(trimmed) == "null" {
		return json.RawMessage(`{}`)
	}
	return data
}

func isObject(data json.RawMessage) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal(object(data), &members) == nil
}
