package graph

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-automation/weft/internal/component/expression"
	"github.com/weft-automation/weft/internal/component/template"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
	"github.com/weft-automation/weft/internal/kit/reference"
	"github.com/weft-automation/weft/internal/kit/spelling"
)

// maxReferences limits the references of one component.
const maxReferences = 1000

// text is a string of a component with references.
type text struct {
	*template.Text
	address bool // says where a call goes
	free    bool // an address that may have any origin
}

// use is a path that a string or an expression of a component refers to.
type use struct {
	reference.Path
	node    int
	pointer string
	target  *jsonschema.Schema // schema of the field, if the path is its whole value
	typed   bool               // whether target is set

	expression bool // in an expression, and not in a string with double braces
}

// RunFields are the names that follow `run.` in a reference.
var RunFields = []string{"id", "metadata", "rerunOf", "startedAt", "trigger", "url", "workflow.id", "workflow.key", "workflow.name", "workflow.version"}

var variable = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)

// references compiles the strings with references, and collects the paths to which they refer.
func (c *compiler) references() {
	for at := range c.nodes {
		n := &c.nodes[at]
		if !n.known {
			continue
		}
		n.texts = map[string]text{}
		start := len(c.uses)
		for _, part := range []struct {
			name      string
			data      json.RawMessage
			schema    *jsonschema.Schema
			addresses []string
		}{{"/input", n.component.Input, n.input, n.module.InputAddresses}, {"/config", n.component.Config, c.schema(n.module.Config), n.module.ConfigAddresses}} {
			_, err := template.Walk(part.name, object(part.data), func(pointer, written string) (any, bool, error) {
				tokens := fault.Tokens(strings.TrimPrefix(pointer, part.name))
				address := slices.ContainsFunc(part.addresses, func(path string) bool { return matches(path, tokens) })
				c.reference(at, pointer, written, part.schema, tokens, address)
				return written, true, nil
			})
			if err != nil {
				return // reported by inputs
			}
		}
		if count := len(c.uses) - start; count > maxReferences {
			c.fault("/components/"+strconv.Itoa(at), CodeInvalidReference, "component %s has %d references; at most %d are allowed", quote(n.component.ID), count, maxReferences)
		}
	}
}

// matches reports whether a path, in which `*` stands for any token, is that of the tokens.
func matches(path string, tokens []string) bool {
	return slices.EqualFunc(fault.Tokens(path), tokens, func(want, token string) bool { return want == "*" || want == token })
}

// Kinds of fields in which references have no or another meaning: the values of the keyword x-literal.
const (
	literalField    = "true"         // only {{env.NAME}} is a reference, because ports, outputs, waits or prices depend on the value
	literalText     = `"text"`       // braces are text
	expressionField = `"expression"` // the string is an expression
)

// literalKind returns the value of the keyword x-literal of a field, or of a field around it.
func literalKind(schema *jsonschema.Schema, tokens []string) string {
	for _, token := range tokens {
		if kind := schema.Keyword("x-literal"); kind != nil {
			return string(kind)
		}
		schema = schema.Inner(token)
	}
	return string(schema.Keyword("x-literal"))
}

// reference compiles one string of a component.
func (c *compiler) reference(at int, pointer, written string, schema *jsonschema.Schema, tokens []string, address bool) {
	n := &c.nodes[at]
	inConfig := strings.HasPrefix(pointer, "/config/")
	kind := literalKind(schema, tokens)
	place := "/components/" + strconv.Itoa(at) + pointer
	if kind == "" {
		c.statements(n, place, written)
	}
	switch {
	case kind == expressionField:
		c.expression(at, place, written)
	case !reference.In(written), kind == literalText, envref.All(written):
	case kind == literalField, n.module.Trigger, n.module.Loop && inConfig:
		c.fault(place, CodeInvalidReference, "component %s: this field is fixed when the workflow is saved, so only {{env.NAME}} is possible in it", quote(n.component.ID))
	default:
		compiled, err := template.Compile(written, c.nameTest(nil))
		if err != nil {
			c.fault(place, CodeInvalidReference, "component %s: %s", quote(n.component.ID), err)
			return
		}
		t := text{Text: compiled, address: address, free: address && !inConfig}
		if t.address {
			if reason := t.CheckAddress(hasOrigins(n.component.Config), t.free); reason != "" {
				c.fault(place, CodeInvalidAddress, "component %s: %s", quote(n.component.ID), reason)
			}
		}
		n.texts[pointer] = t
		c.suspicious(n, place, written, compiled)
		c.unknown(at, place, compiled.Unknown())
		whole := compiled.Whole()
		for _, path := range compiled.Paths() {
			u := use{Path: path, node: at, pointer: place}
			if found, is := wholePath(whole); is && found.From == path.From && !address {
				u.target, u.typed = schema.Within(tokens), true
				if n.module.Loop && pointer == "/input/items" {
					c.items[at] = Connection{From: Output{ComponentID: path.Root, Output: strings.Join(path.Segments, ".")}}
				}
			}
			c.uses = append(c.uses, u)
		}
	}
}

func wholePath(program *expression.Program) (reference.Path, bool) {
	if program == nil {
		return reference.Path{}, false
	}
	return program.Path()
}

// hasOrigins reports whether a config has allowedOrigins.
func hasOrigins(config json.RawMessage) bool {
	var c struct{ AllowedOrigins json.RawMessage }
	return json.Unmarshal(config, &c) == nil && len(c.AllowedOrigins) > 0
}

// nameTest returns a function that reports whether a name is that of a component or of the language, and
// not in hidden.
func (c *compiler) nameTest(hidden map[string]bool) func(string) bool {
	return func(name string) bool {
		_, known := c.index[name]
		return (known || reference.IsName(name)) && !hidden[name]
	}
}

// expression collects the paths of an expression. What the component's input provides hides the names
// of components.
func (c *compiler) expression(at int, place, written string) {
	n := &c.nodes[at]
	if n.hidden == nil {
		n.hidden = c.provided(n.component)
	}
	program, err := expression.CompileReferring(written, c.nameTest(n.hidden))
	if err != nil {
		return // reported by Check
	}
	for _, path := range program.Paths() {
		c.uses = append(c.uses, use{Path: path, node: at, pointer: place, expression: true})
	}
}

// provided returns the names of the inputs that have a literal value or a connection.
func (c *compiler) provided(of Component) map[string]bool {
	names := map[string]bool{}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(object(of.Input), &fields) // reported by inputs
	for name := range fields {
		names[name] = true
	}
	for _, connection := range c.definition.DataConnections {
		if connection.To.ComponentID == of.ID {
			name, _, _ := strings.Cut(connection.To.Input, ".")
			names[name] = true
		}
	}
	return names
}

// unknown reports names that are neither components nor names of the language.
func (c *compiler) unknown(at int, place string, names []string) {
	for _, name := range names {
		if instead := expression.Foreign(name); instead != "" {
			c.fault(place, CodeInvalidReference, "component %s: write %s instead of %s", quote(c.nodes[at].component.ID), instead, quote(name))
			continue
		}
		ids := make([]string, 0, len(c.nodes))
		for _, n := range c.nodes {
			ids = append(ids, n.component.ID)
		}
		hint := "The components are " + listing(ids)
		if near := spelling.Nearest(name, append(ids, reference.Env, reference.Run)); near != "" {
			hint = "did you mean " + near + "? " + hint
		}
		c.fault(place, CodeInvalidReference, "component %s: no component has the ID %s; %s", quote(c.nodes[at].component.ID), quote(name), hint)
	}
}

// connectReferences checks the paths to which the components refer, and creates their sources.
func (c *compiler) connectReferences() {
	for _, u := range c.uses {
		switch {
		case u.Named:
			c.named(u)
		default:
			c.connectPath(u)
		}
	}
}

// named checks a path that starts with a name of the language.
func (c *compiler) named(u use) {
	n := &c.nodes[u.node]
	fail := func(format string, args ...any) {
		c.fault(u.pointer, CodeInvalidReference, "component "+quote(n.component.ID)+": "+format, args...)
	}
	switch name := strings.Join(u.Segments, "."); u.Root {
	case reference.Env:
		if len(u.Segments) != 1 || !variable.MatchString(name) {
			fail("env must be followed by the name of a variable, such as env.NAME, of A to Z, 0 to 9 and _")
			return
		}
		if u.expression && !slices.Contains(n.variables, name) {
			n.variables = append(n.variables, name)
		}
	case reference.Run:
		if len(u.Segments) == 0 || u.Segments[0] != "metadata" && !slices.Contains(RunFields, name) {
			fail("run has no field %s; its fields are %s", quote(name), strings.Join(RunFields, ", "))
			return
		}
		n.aboutRun = true
	case reference.Now:
		n.aboutRun = true
	default:
		fail(`outputs must be followed by the ID of a component in brackets, such as outputs["my-id"].status`)
	}
}

// outputs returns the names of a component's outputs, or an example of one if any name is possible.
func (n *node) outputs() string {
	if names := n.output.Names(); len(names) > 0 {
		return "; its outputs are " + listing(names)
	}
	return ", such as " + n.component.ID + ".NAME"
}

// connectPath checks a path to an output, or to the error, of a component.
func (c *compiler) connectPath(u use) {
	from, known := c.index[u.Root]
	if !known {
		c.unknown(u.node, u.pointer, []string{u.Root})
		return
	}
	receiver, sender := &c.nodes[u.node], &c.nodes[from]
	if len(u.Segments) == 0 {
		c.fault(u.pointer, CodeInvalidReference, "component %s: %s must be followed by the name of an output%s", quote(receiver.component.ID), quote(u.Root), sender.outputs())
		return
	}
	failure := u.Segments[0] == "error" && !sender.module.Trigger
	path := strings.Join(u.Segments, ".")
	value, reason := (*jsonschema.Schema)(nil), ""
	if !failure {
		value, reason = c.received(from, u.node, path, 0)
	}
	first, second := c.level(from, u.node)
	switch inside := slices.Contains(receiver.around, from); {
	case from == u.node:
		c.fault(u.pointer, CodeSelfEdge, "component %s refers to itself", quote(u.Root))
		return
	case reason != "":
		if strings.Contains(path, "-") {
			reason += "; to subtract, write spaces on both sides of the minus sign"
		}
		if u.Segments[len(u.Segments)-1] == length {
			reason += "; " + LengthHint
		}
		c.fault(u.pointer, CodeUnknownOutput, "%s", reason)
		return
	case failure && inside:
		c.fault(u.pointer, CodeUnknownOutput, "inside its body, the %s has no error yet", sender.loopName())
		return
	case first == second && second == u.node:
		c.fault(u.pointer, CodeCycle, "the %s refers to %s, which is in its own body", receiver.loopName(), quote(u.Root))
		return
	}
	if value == nil && u.Segments[len(u.Segments)-1] == length {
		c.warn(u.pointer, WarnLength, "component %s: %s", quote(receiver.component.ID), LengthHint)
	}
	if first != second {
		about := quote(receiver.component.ID) + " needs the value of " + quote(u.String())
		c.flows = append(c.flows, arrow{from: first, to: second, pointer: u.pointer, data: about})
	}
	if u.typed {
		if reason := jsonschema.Mismatch(value, u.target); reason != "" {
			c.fault(u.pointer, CodeTypeMismatch, "the value of %s does not fit here: %s", quote(u.String()), reason)
		}
	}
	shared := c.shared(from, u.node)
	source := Source{
		From: u.Root, Path: path, Segments: u.Segments, Into: receiver.component.ID, Failure: failure,
		Depth: shared, Collected: len(sender.around) - shared, Item: first == second,
	}
	if !slices.ContainsFunc(receiver.references, func(other Source) bool { return other.Reference() == source.Reference() }) {
		receiver.references = append(receiver.references, source)
	}
}

// References returns the outputs to which a component's strings and expressions refer.
func (p *Plan) References(id string) []Source { return p.node(id).references }

// Variables returns the environment variables in a component's expressions outside of double braces. In
// double braces, envref.Names finds them.
func (p *Plan) Variables(id string) []string { return p.node(id).variables }

// AboutRun reports whether a component refers to the run, or to the current time.
func (p *Plan) AboutRun(id string) bool { return p.node(id).aboutRun }

// ReadsRun reports whether any component refers to the run, or to the current time.
func (p *Plan) ReadsRun() bool {
	return slices.ContainsFunc(p.nodes, func(n node) bool { return n.aboutRun })
}

// Refers reports whether strings of a component contain references to fill.
func (p *Plan) Refers(id string) bool { return len(p.node(id).texts) > 0 }

// Known returns a function that reports whether a name in an expression of a component starts a path.
func (p *Plan) Known(id string) func(name string) bool {
	hidden := p.node(id).hidden
	return func(name string) bool {
		_, known := p.index[name]
		return (known || reference.IsName(name)) && !hidden[name]
	}
}
