package workflowfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	yaml "github.com/oasdiff/yaml3"
)

// expander replaces the short form of a workflow with the API's form.
type expander struct {
	ids   []string
	edges []*yaml.Node
}

// expand replaces the short form of a workflow with the API's form.
func expand(root *yaml.Node) error {
	e := &expander{}
	var err error
	if e.edges, err = listOf(root, "sequenceEdges"); err != nil {
		return err
	}
	connections, err := listOf(root, "dataConnections")
	if err != nil {
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
	setList(root, "dataConnections", connections, "d")
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

// components returns the list of a map of components, and adds their edges.
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
