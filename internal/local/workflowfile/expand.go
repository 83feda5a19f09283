package workflowfile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yaml "github.com/oasdiff/yaml3"
)

// expander replaces the short form of a workflow with the API's form.
type expander struct {
	ids                []string
	edges, connections []*yaml.Node
}

// expand replaces the short form of a workflow with the API's form.
func expand(root *yaml.Node) error {
	e := &expander{}
	var err error
	if e.edges, err = listOf(root, "sequenceEdges"); err != nil {
		return err
	}
	if e.connections, err = listOf(root, "dataConnections"); err != nil {
		return err
	}
	components := field(root, "components")
	if components != nil && components.Kind == yaml.MappingNode {
		list, err := e.components(components)
		if err != nil {
			return err
		}
		set(root, "components", list)
	}
	setList(root, "sequenceEdges", e.edges, "e")
	setList(root, "dataConnections", e.connections, "d")
	return nil
}

// listOf returns the items of a list, or none if the file leaves it out.
func listOf(root *yaml.Node, name string) ([]*yaml.Node, error) {
	given := field(root, name)
	switch {
	case given == nil || given.Tag == tagNull:
		return nil, nil
	case given.Kind != yaml.SequenceNode:
		return nil, fmt.Errorf("line %d: %s: must be a list", given.Line, name)
	}
	return given.Content, nil
}

// setList sets a list of edges or connections, and gives IDs to those without one: e1, e2 and so on.
func setList(root *yaml.Node, name string, list []*yaml.Node, prefix string) {
	if len(list) == 0 {
		return
	}
	taken := map[string]bool{}
	for _, one := range list {
		taken[word(one, "id")] = true
	}
	next := 1
	for _, one := range list {
		if one.Kind != yaml.MappingNode || field(one, "id") != nil {
			continue
		}
		for taken[prefix+strconv.Itoa(next)] {
			next++
		}
		setID(one, prefix+strconv.Itoa(next))
		next++
	}
	set(root, name, sequence(list[0].Line, list...))
}

// setID sets the ID of an object that has none, as its first field.
func setID(object *yaml.Node, id string) {
	object.Content = append([]*yaml.Node{text("id", object.Line), text(id, object.Line)}, object.Content...)
}

// components returns the list of a map of components, and adds their edges and connections.
func (e *expander) components(byID *yaml.Node) (*yaml.Node, error) {
	entered := map[string]bool{}
	for _, edge := range e.edges {
		entered[word(edge, "to")] = true
	}
	for i := 0; i < len(byID.Content); i += 2 {
		e.ids = append(e.ids, byID.Content[i].Value)
	}
	list := sequence(byID.Line)
	for i, id := range e.ids {
		key, one := byID.Content[2*i], byID.Content[2*i+1]
		if one.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("line %d: components.%s: must be an object with a module", key.Line, id)
		}
		if field(one, "id") != nil {
			return nil, fmt.Errorf("line %d: components.%s: remove id, because the key is the ID", key.Line, id)
		}
		after := remove(one, "after")
		switch {
		case after != nil:
			if err := e.after(id, after); err != nil {
				return nil, err
			}
		case i > 0 && !entered[id]:
			e.edges = append(e.edges, mapping(key.Line, "from", e.ids[i-1], "to", id))
		}
		if input := field(one, "input"); input != nil && input.Kind == yaml.MappingNode {
			if _, err := e.take(input, id, nil); err != nil {
				return nil, err
			}
		}
		if err := e.refuse(field(one, "config"), "components."+id+".config"); err != nil {
			return nil, err
		}
		one.Line = key.Line
		setID(one, id)
		list.Content = append(list.Content, one)
	}
	return list, nil
}

// after adds the edges of `after`: COMPONENT, COMPONENT.PORT, or a list of these.
func (e *expander) after(id string, after *yaml.Node) error {
	all := []*yaml.Node{after}
	if after.Kind == yaml.SequenceNode {
		all = after.Content
	}
	for _, one := range all {
		from, port, hasPort := strings.Cut(one.Value, ".")
		if one.Tag != tagString && one.Tag != tagNumber || !e.known(from) || hasPort && port == "" {
			return fmt.Errorf("line %d: components.%s.after: %q is not a component or COMPONENT.PORT. The components are %s",
				one.Line, id, one.Value, strings.Join(e.ids, ", "))
		}
		edge := mapping(one.Line, "from", from, "to", id)
		if hasPort {
			set(edge, "port", text(port, one.Line))
		}
		e.edges = append(e.edges, edge)
	}
	return nil
}

func (e *expander) known(id string) bool { return slices.Contains(e.ids, id) }

// reference matches {{component.output}}. References to variables, {{env.NAME}}, stay as they are;
// spaced matches those with spaces, which are not references.
var (
	reference = regexp.MustCompile(`^\{\{ *([A-Za-z0-9_-]+)\.([^{} ](?:[^{}]*[^{} ])?) *\}\}$`)
	spaced    = regexp.MustCompile(`\{\{ *env\.([^{} ]*) *\}\}`)
	inText    = regexp.MustCompile(`\{\{ *([A-Za-z0-9_-]+)`)
	index     = regexp.MustCompile(`^[0-9]+$`)
)

// environment is the name before the dot in references to variables.
const environment = "env"

// take replaces the references in an input with connections. It reports whether it found one.
// Objects that have only references are removed, because connections create them.
func (e *expander) take(object *yaml.Node, to string, path []string) (took bool, err error) {
	var kept []*yaml.Node
	for i := 0; i < len(object.Content); i += 2 {
		key, value := object.Content[i], object.Content[i+1]
		at := append(path[:len(path):len(path)], key.Value)
		found := false
		switch value.Kind {
		case yaml.MappingNode:
			found, err = e.take(value, to, at)
		case yaml.SequenceNode:
			err = e.refuse(value, "components."+to+".input."+strings.Join(at, "."))
		default:
			found, err = e.connect(value, to, at)
		}
		if err != nil {
			return false, err
		}
		took = took || found
		if !found || value.Kind == yaml.MappingNode && len(value.Content) > 0 {
			kept = append(kept, key, value)
		}
	}
	object.Content = kept
	return took, nil
}

// connect adds the connection of a string that is a reference, and reports whether it did.
func (e *expander) connect(value *yaml.Node, to string, path []string) (bool, error) {
	if value.Tag != tagString || !strings.Contains(strings.ReplaceAll(value.Value, "{{"+environment+".", ""), "{{") {
		return false, nil
	}
	place := fmt.Sprintf("line %d: components.%s.input.%s", value.Line, to, strings.Join(path, "."))
	for _, variable := range spaced.FindAllStringSubmatch(value.Value, -1) {
		if strings.Contains(variable[0], " ") && !e.known(environment) {
			return false, fmt.Errorf("%s: write {{env.%s}} without spaces", place, variable[1])
		}
	}
	found := reference.FindStringSubmatch(value.Value)
	if found == nil {
		return false, fmt.Errorf("%s: a reference must be the whole value, as in {{%s.OUTPUT}}. To build a string, use a TRANSFORM", place, e.ids[0])
	}
	if !e.known(found[1]) {
		return false, fmt.Errorf("%s: no component has the ID %q. The components are %s", place, found[1], strings.Join(e.ids, ", "))
	}
	for _, name := range path {
		if name == "" || strings.Contains(name, ".") || index.MatchString(name) {
			return false, fmt.Errorf("%s: the key %q cannot have a reference; use dataConnections", place, name)
		}
	}
	e.connections = append(e.connections, mapping(value.Line,
		"from", mapping(value.Line, "componentId", found[1], "output", found[2]),
		"to", mapping(value.Line, "componentId", to, "input", strings.Join(path, "."))))
	return true, nil
}

// refuse returns an error if a value contains a reference, where it can have none.
func (e *expander) refuse(value *yaml.Node, place string) error {
	if value == nil {
		return nil
	}
	for _, found := range inText.FindAllStringSubmatch(value.Value, -1) {
		if value.Tag == tagString && found[1] != environment && e.known(found[1]) {
			return fmt.Errorf("line %d: %s: references to components are possible in objects of input only, not in lists and not in config", value.Line, place)
		}
	}
	for _, item := range value.Content {
		if err := e.refuse(item, place); err != nil {
			return err
		}
	}
	return nil
}
