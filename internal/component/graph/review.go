package graph

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-automation/weft/internal/component/template"
	"github.com/weft-automation/weft/internal/kit/reference"
)

// Review is Compile for a definition that is about to be saved. Its problems include problems of
// definitions that compile but can never work; stored definitions with such problems keep
// running. Its warnings report suspicious parts of the definition.
func Review(d Definition, library Library) (plan *Plan, problems, warnings []Problem) {
	return compile(d, library, (*compiler).review)
}

// warn records a warning.
func (c *compiler) warn(pointer, code, format string, args ...any) {
	c.warnings = append(c.warnings, Problem{Pointer: pointer, Code: code, Message: fmt.Sprintf(format, args...)})
}

// review finds the additional problems and the warnings of Review.
func (c *compiler) review() {
	read := make([]bool, len(c.nodes)) // nodes whose outputs a data connection uses
	for _, connection := range c.definition.DataConnections {
		if from, known := c.index[connection.From.ComponentID]; known {
			read[from] = true
		}
	}
	for i := range c.nodes {
		n, pointer := &c.nodes[i], "/components/"+strconv.Itoa(i)
		c.settings(pointer, n)
		c.exits(pointer, n, read[i])
		if n.module.Responds && len(n.around) > 0 {
			c.warn(pointer, WarnRespond, "component %s: each item of the loop sets the output of the run, and the last one to finish wins; to respond with all items, move it behind the port done of %s",
				quote(n.component.ID), quote(c.nodes[n.around[0]].component.ID))
		}
		if n.module.Review == nil || !isObject(n.component.Input) || !isObject(n.component.Config) {
			continue
		}
		problems, warnings := n.module.Review(object(n.component.Input), object(n.component.Config), n.paths(), c.nameTest(n.hidden))
		for _, p := range problems {
			c.fault(pointer+p.Pointer, p.Code, "component %s: %s", quote(n.component.ID), p.Message)
		}
		for _, w := range warnings {
			c.warn(pointer+w.Pointer, w.Code, "component %s: %s", quote(n.component.ID), w.Message)
		}
	}
	for i, connection := range c.definition.DataConnections {
		pointer := "/dataConnections/" + strconv.Itoa(i)
		c.indexes(pointer+"/from/output", CodeUnknownOutput, connection.From.Output)
		c.indexes(pointer+"/to/input", CodeUnknownInput, connection.To.Input)
		c.resolves(pointer+"/from/output", connection)
	}
	c.branches()
}

// paths returns the inputs that connections fill.
func (n *node) paths() (paths []string) {
	for _, b := range n.bound {
		paths = append(paths, b.path)
	}
	return paths
}

// settings reports settings that have no effect on an inline module.
func (c *compiler) settings(pointer string, n *node) {
	if !n.module.Inline {
		return
	}
	if n.component.Attempts > 1 {
		c.fault(pointer+"/attempts", CodeInvalidSetting, "component %s: %s runs in a single attempt: omit attempts",
			quote(n.component.ID), n.component.Module)
	}
	if n.component.TimeoutMs > 0 && !n.module.Lasts {
		c.fault(pointer+"/timeoutMs", CodeInvalidSetting, "component %s: timeoutMs has no effect on %s: omit it",
			quote(n.component.ID), n.component.Module)
	}
}

// exits warns about ports at which no edge starts, although an edge was probably intended.
func (c *compiler) exits(pointer string, n *node, read bool) {
	follows := func(port string) bool { return n.wired[port] }
	id := quote(n.component.ID)
	switch {
	case n.module.Loop:
		if !follows(PortEach) {
			c.warn(pointer, WarnBody, "component %s: no edge starts at its port each, so the loop does nothing", id)
		}
	case slices.Contains(n.ports, PortTimeout):
		if !follows(PortTimeout) {
			c.warn(pointer, WarnTimeout, "component %s: no edge starts at its port timeout, so nothing follows after a timeout, and the run may complete", id)
		}
	case len(n.ports) < 2:
	case !slices.ContainsFunc(n.ports, follows):
		if !read {
			c.warn(pointer, WarnBranch, "component %s: no edge starts at any of its ports %s, and its output is unused, so it has no effect", id, listing(n.ports))
		}
	case n.module.CasePorts != nil:
		for _, port := range n.ports {
			if port != PortDefault && !follows(port) {
				c.warn(pointer, WarnCase, "component %s: no edge starts at the port of its case %s, so nothing follows if the case matches", id, quote(port))
			}
		}
	}
}

// brackets are indexes in the form of other languages.
var brackets = regexp.MustCompile(`\[(\d*)\]`)

// indexes reports a connection whose path has an index in brackets.
func (c *compiler) indexes(pointer, code, path string) {
	if brackets.MatchString(path) {
		c.fault(pointer, code, "%s has brackets, which are a part of the name here; write %s, or a reference such as {{ id.items[0] }} in the input of the component",
			quote(path), quote(strings.TrimSuffix(brackets.ReplaceAllString(path, ".$1"), ".")))
	}
}

// resolves reports a connection from an output that never has a value.
func (c *compiler) resolves(pointer string, connection Connection) {
	from, known := c.index[connection.From.ComponentID]
	if !known || c.nodes[from].module.Gives == nil || c.reported[Problem{Pointer: pointer, Code: CodeUnknownOutput}] {
		return
	}
	n := &c.nodes[from]
	if !isObject(n.component.Input) || !isObject(n.component.Config) {
		return
	}
	path := connection.From.Output
	for _, output := range n.module.Gives(object(n.component.Input), object(n.component.Config), c.definition.InputSchema, n.paths()) {
		if end, segments, missing := c.schema(output.Possible).Follow(path); missing >= 0 {
			c.fault(pointer, CodeUnknownOutput, "component %s (%s) never has the output %s: %s",
				quote(n.component.ID), n.component.Module, quote(path), lacks(end, segments[:missing], "outputs"))
			return
		}
		if end, segments, missing := c.schema(output.Declared).Follow(path); missing >= 0 {
			c.warn(pointer, WarnOutput, "component %s (%s): its input schema does not define %s, so it has a value only if the caller sends one: %s",
				quote(n.component.ID), n.component.Module, quote(path), lacks(end, segments[:missing], "outputs"))
			return
		}
	}
}

// LengthHint says how to count items and characters, for expressions that read a field named length.
const LengthHint = ".length reads a field with this name; for the number of items or characters, write len(value)"

const length = "length"

// statement matches the beginning of a statement of Jinja and similar languages.
var statement = regexp.MustCompile(`\{%-?\s*\w+`)

// strays match the references of other tools, and the path in them.
var strays = []struct {
	form    string
	pattern *regexp.Regexp
}{
	{"${…}", regexp.MustCompile(`\$\{ *([\w-]+(?:[.\[][\w.\[\]-]*)?) *\}`)},
	{"$(…)", regexp.MustCompile(`\$\( *([\w-]+(?:[.\[][\w.\[\]-]*)?) *\)`)},
	{"<% … %>", regexp.MustCompile(`<%=? *([\w-]+(?:[.\[][\w.\[\]-]*)?) *%>`)},
	{"{…}", regexp.MustCompile(`(?:^|[^{$])\{ *([\w-]+[.\[][\w.\[\]-]*) *\}(?:[^}]|$)`)},
	{"$", regexp.MustCompile(`(?:^|[^\w$])\$([A-Za-z_][\w-]*[.\[][\w.\[\]-]*\w\]?)`)},
}

// statements warns about a string with a statement or a reference of another language.
func (c *compiler) statements(n *node, place, written string) {
	id, known := quote(n.component.ID), c.nameTest(nil)
	if statement.MatchString(written) {
		c.warn(place, WarnText, "component %s: {%% … %%} is text here; write {{ condition ? value : other }}, or use the component IF", id)
	}
	switch {
	case strings.Contains(written, "${{"):
		c.warn(place, WarnText, "component %s: the $ before {{ is text here; remove it, unless the value is to start with $", id)
	case strings.HasPrefix(written, "={{"):
		c.warn(place, WarnText, "component %s: the = before {{ is text here; remove it", id)
	}
	for _, stray := range strays {
		found := stray.pattern.FindStringSubmatch(written)
		if found == nil {
			continue
		}
		if root, _, _ := strings.Cut(strings.ReplaceAll(found[1], "[", "."), "."); known(root) {
			c.warn(place, WarnText, "component %s: %s is text here; write {{ %s }}", id, stray.form, found[1])
		}
	}
}

// suspicious warns about the form of a string with references.
func (c *compiler) suspicious(n *node, place, written string, compiled *template.Text) {
	if strings.TrimSpace(written) != written && compiled.Whole() == nil {
		if _, alone := reference.Whole(strings.TrimSpace(written)); alone {
			c.warn(place, WarnText, "component %s: spaces or line ends around the reference make its value a string; remove them to keep its type", quote(n.component.ID))
		}
	}
	if compiled.ReadsLength() {
		c.warn(place, WarnLength, "component %s: %s", quote(n.component.ID), LengthHint)
	}
}
