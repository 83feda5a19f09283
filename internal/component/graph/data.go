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
	"github.com/weft-automation/weft/internal/kit/reference"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

const (
	maxPath = 256 // bytes of the path of an output or input
	maxHops = 2 * MaxDepth
)

// Source is a data connection from the receiver's point of view.
type Source struct {
	Connection string // ID of the connection; empty for a reference

	From string // source component
	Path string // name or dotted path in the source's output, for Select

	// Segments are those of a reference's path; nil for a connection. Failure reports whether the
	// reference leads into the error of From; the path then starts with `error`.
	Segments []string
	Failure  bool

	To   string // name or dotted path in the receiver's input, for Bind
	Into string // receiving component

	// Depth is the number of loops around both the sender and the receiver. Their
	// stages share this number of loop indexes.
	Depth int
	// Collected is the number of loops that the value leaves: 0 is a plain value, 1
	// an array of the values of all items in their order, 2 an array of such arrays.
	Collected int
	// Item reports whether From is a loop around the receiver. If it is, Path starts with item, state
	// or index and refers to the receiver's own iteration, whose index is at Depth.
	Item bool

	Required bool               // the receiver's schema requires the input
	Schema   *jsonschema.Schema // schema of the input; nil: any value

	segments []string // To, split
}

// Reference returns the path of a reference.
func (s Source) Reference() string {
	return reference.Path{Root: s.From, Segments: s.Segments}.String()
}

// binding is an input that a connection fills.
type binding struct {
	pointer  string
	id       string
	path     string
	segments []string
}

// connections checks the data connections.
func (c *compiler) connections() {
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
		from, sourceKnown := c.find(pointer+"/from/componentId", connection.From.ComponentID, thing)
		to, targetKnown := c.find(pointer+"/to/componentId", connection.To.ComponentID, thing)
		output := c.path(pointer+"/from/output", CodeUnknownOutput, connection.From.Output)
		input := c.path(pointer+"/to/input", CodeUnknownInput, connection.To.Input)
		switch {
		case !targetKnown || !input:
		case c.nodes[to].module.Trigger:
			c.fault(pointer+"/to/componentId", CodeIntoTrigger, "the %s leads to the trigger %s, which has no inputs", thing, quote(connection.To.ComponentID))
		default:
			if c.claimInput(pointer, to, connection) && sourceKnown && output {
				c.connect(pointer, from, to, connection)
			}
		}
	}
}

// path checks a name or dotted path.
func (c *compiler) path(pointer, code, path string) bool {
	ok := path != "" && len(path) <= maxPath && !slices.Contains(strings.Split(path, "."), "")
	if !ok {
		c.fault(pointer, code, "%s must be a name or a dotted path of at most %d characters", quote(path), maxPath)
	}
	return ok
}

// claimInput binds an input to a connection, and reports whether the input exists.
func (c *compiler) claimInput(pointer string, to int, connection Connection) bool {
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
				quote(other.id), quote(connection.ID), endpoint(connection.To.ComponentID, connection.To.Input))
			break
		}
	}
	n.bound = append(n.bound, binding{pointer: pointer, id: connection.ID, path: connection.To.Input, segments: segments})
	return missing < 0
}

// connect checks a connection between two existing components and creates its source.
func (c *compiler) connect(pointer string, from, to int, connection Connection) {
	sender, receiver := &c.nodes[from], &c.nodes[to]
	first, second := c.level(from, to)
	switch {
	case from == to:
		c.fault(pointer, CodeSelfEdge, "the data connection %s leads from %s to itself", quote(connection.ID), quote(connection.From.ComponentID))
		return
	case first != second:
		about := fmt.Sprintf("%s needs the value of %s", endpoint(connection.To.ComponentID, connection.To.Input), endpoint(connection.From.ComponentID, connection.From.Output))
		c.flows = append(c.flows, arrow{from: first, to: second, pointer: pointer, data: about})
	case second == to:
		c.fault(pointer, CodeCycle, "the %s receives data from %s, which is in its own body", receiver.loopName(), quote(sender.component.ID))
		return
	}
	value, reason := c.received(from, to, connection.From.Output, 0)
	if reason != "" {
		c.fault(pointer+"/from/output", CodeUnknownOutput, "%s", reason)
		return
	}
	target, segments, _ := receiver.input.Follow(connection.To.Input)
	if reason := jsonschema.Mismatch(value, target); reason != "" {
		c.fault(pointer, CodeTypeMismatch, "%s does not fit into %s: %s; only integers and decimal strings are converted to each other, and numbers to strings",
			endpoint(connection.From.ComponentID, connection.From.Output), endpoint(connection.To.ComponentID, connection.To.Input), reason)
	}
	shared := c.shared(from, to)
	receiver.sources = append(receiver.sources, Source{
		Connection: connection.ID,
		From:       connection.From.ComponentID, Path: connection.From.Output,
		Into: connection.To.ComponentID, To: connection.To.Input,
		Depth: shared, Collected: len(sender.around) - shared, Item: first == second,
		Required: slices.Contains(receiver.input.RequiredNames(), segments[0]),
		Schema:   target,
		segments: segments,
	})
}

// received returns the schema of the value that one component receives from an output of another,
// or an error message if the output does not exist.
func (c *compiler) received(from, to int, path string, hops int) (*jsonschema.Schema, string) {
	n := c.nodes[from]
	name, rest, deeper := strings.Cut(path, ".")
	around := slices.Contains(c.nodes[to].around, from)
	own := n.module.Loop && slices.Contains(n.module.inside(), name) && (around || name != OutputState)
	switch {
	case own && !around:
		return nil, fmt.Sprintf("%s is available only in the body of the %s; put the component into the body with after: %s.each, or outside of it, refer to an output of a component of the body, which yields the array of its values",
			quote(name), n.loopName(), n.component.ID)
	case !own && around:
		return nil, fmt.Sprintf("inside its body, the %s has only the outputs %s, not %s", n.loopName(), strings.Join(n.module.inside(), " and "), quote(path))
	}
	whole, inner := n.output, path
	if own {
		whole, inner = &jsonschema.Schema{Types: []string{"integer"}}, rest
		switch name {
		case OutputItem:
			whole = c.item(from, hops)
		case OutputState:
			whole = nil
		}
		if !deeper {
			return whole, ""
		}
	}
	value, segments, missing := whole.Follow(inner)
	if missing >= 0 {
		segments = segments[:missing]
		if own {
			segments = append([]string{name}, segments...)
		}
		return nil, fmt.Sprintf("component %s (%s) has no output %s: %s", quote(n.component.ID), n.component.Module, quote(path), lacks(value, segments, "outputs"))
	}
	for range len(n.around) - c.shared(from, to) {
		value = &jsonschema.Schema{Types: []string{"array"}, Items: value}
	}
	return value, ""
}

// inside returns the outputs that a loop has in its body.
func (m Module) inside() []string {
	if m.Repeats {
		return []string{OutputState, OutputIndex}
	}
	return []string{OutputItem, OutputIndex}
}

// item returns the schema of an item of a FOR_EACH, as far as the source of the items defines it.
func (c *compiler) item(loop, hops int) *jsonschema.Schema {
	connection, ok := c.items[loop]
	from, known := c.index[connection.From.ComponentID]
	if !ok || !known || from == loop || hops == maxHops {
		return nil
	}
	items, reason := c.received(from, loop, connection.From.Output, hops+1)
	if reason != "" {
		return nil
	}
	return items.Item(0)
}

// inputs checks the literals, and that required inputs have a value.
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
		for _, problem := range n.module.Check(object(n.component.Input), object(n.component.Config), bound, c.nameTest(n.hidden)) {
			if !c.reported[Problem{Pointer: pointer + problem.Pointer, Code: CodeMissingInput}] {
				if problem.Code == "" {
					problem.Code = CodeInvalidInput
				}
				c.fault(pointer+problem.Pointer, problem.Code, "component %s: %s", quote(n.component.ID), problem.Message)
			}
		}
	}
}

// literal decodes the literal input, and checks that the values of the connections can be inserted
// into the input.
func (c *compiler) literal(pointer string, n *node) (map[string]json.RawMessage, bool) {
	tree, err := strictjson.Decode(object(n.component.Input))
	if _, ok := tree.(map[string]any); err != nil || !ok {
		c.fault(pointer, CodeInvalidInput, "component %s: input must be an object", quote(n.component.ID))
		return nil, false
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(object(n.component.Input), &fields) != nil {
		return nil, false
	}
	l := inserter{left: maxExtended}
	for _, b := range n.bound {
		if _, err := l.insert(tree, b.segments, nil); err != nil {
			c.fault(b.pointer+"/to/input", CodeInvalidInput, "no value can be inserted into %s: %s", endpoint(n.component.ID, b.path), err)
		}
	}
	return fields, true
}

// missing reports the required inputs that are neither set nor connected.
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
			c.fault(pointer+"/input/"+fault.EscapeToken(name), CodeMissingInput, "component %s (%s): the input %s is required, but neither set nor connected%s",
				quote(n.component.ID), n.component.Module, quote(name), wanted)
		}
	}
}

// endpoint returns the quoted name of one end of a connection.
func endpoint(id, path string) string { return quote(id + "." + path) }

// lacks describes what a schema has instead of a missing field. segments are the part of the path
// that leads to the schema.
func lacks(schema *jsonschema.Schema, segments []string, things string) string {
	whose := "its " + things
	if len(segments) > 0 {
		whose = "the fields of " + quote(strings.Join(segments, "."))
	}
	if names := schema.Names(); len(names) > 0 {
		return whose + " are " + listing(names)
	}
	if len(segments) == 0 {
		return "it has no " + things
	}
	return quote(strings.Join(segments, ".")) + " is " + schema.TypeSet().String()
}

// object returns a JSON object that may be missing or null, `{}` in that case.
func object(data json.RawMessage) json.RawMessage {
	if trimmed := bytes.TrimSpace(data); len(trimmed) == 0 || string(trimmed) == "null" {
		return json.RawMessage(`{}`)
	}
	return data
}

func isObject(data json.RawMessage) bool {
	var fields map[string]json.RawMessage
	return json.Unmarshal(object(data), &fields) == nil
}
