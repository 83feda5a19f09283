package workflowfile

import (
	"slices"
	"strconv"
	"strings"

	yaml "github.com/oasdiff/yaml3"

	"github.com/weft-automation/weft/internal/kit/spelling"
)

// expander replaces the short form of a workflow with the API's form.
type expander struct {
	*reading
	ids   []string
	edges []*yaml.Node
}

// expand replaces the short form of a workflow with the API's form. It reports whether the file has the
// short form.
func (r *reading) expand(root *yaml.Node) (short bool) {
	e := &expander{reading: r}
	e.edges = r.listOf(root, "sequenceEdges")
	connections := r.listOf(root, "dataConnections")
	components := field(root, "components")
	if short = components != nil && components.Kind == yaml.MappingNode; short {
		set(root, "components", e.components(components))
	}
	setList(root, "sequenceEdges", e.edges, "e")
	setList(root, "dataConnections", connections, "d")
	return short
}

// listOf returns the items of a list, or none if the file leaves it out.
func (r *reading) listOf(root *yaml.Node, name string) []*yaml.Node {
	given := field(root, name)
	switch {
	case given == nil || given.Tag == tagNull:
		return nil
	case given.Kind != yaml.SequenceNode:
		r.fault(given, name, "must be a list")
		remove(root, name)
		return nil
	}
	return given.Content
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
func (e *expander) components(byID *yaml.Node) *yaml.Node {
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
			e.fault(key, "components."+id, "must be an object with a module, such as %s: {module: RESPOND}", id)
			one = mapping(key.Line)
		}
		if remove(one, "id") != nil {
			e.fault(key, "components."+id, "remove id, because the key is the ID")
		}
		after := remove(one, "after")
		switch {
		case after != nil:
			e.after(id, after)
		case i > 0 && !entered[id]:
			e.edge(mapping(key.Line, "from", e.ids[i-1], "to", id))
		}
		one.Line = key.Line
		setID(one, id)
		list.Content = append(list.Content, one)
	}
	return list
}

// edge adds an edge that the file does not list.
func (e *expander) edge(edge *yaml.Node) {
	e.written[edge] = "components." + word(edge, "to") + ".after"
	e.edges = append(e.edges, edge)
}

// after adds the edges of `after`: COMPONENT, COMPONENT.PORT, or a list of these.
func (e *expander) after(id string, after *yaml.Node) {
	all := []*yaml.Node{after}
	if after.Kind == yaml.SequenceNode {
		all = after.Content
	}
	for _, one := range all {
		from, port, hasPort := strings.Cut(one.Value, ".")
		if one.Tag != tagString && one.Tag != tagNumber || !e.known(from) || hasPort && port == "" {
			hint := ""
			if near := spelling.Nearest(from, e.ids); near != "" && !e.known(from) {
				hint = "Did you mean " + near + "? "
			}
			e.fault(one, "components."+id+".after", "%q is not a component or COMPONENT.PORT. %sThe components are %s",
				one.Value, hint, strings.Join(e.ids, ", "))
			continue
		}
		edge := mapping(one.Line, "from", from, "to", id)
		if hasPort {
			set(edge, "port", text(port, one.Line))
		}
		edge.Column = one.Column
		e.edge(edge)
	}
}

func (e *expander) known(id string) bool { return slices.Contains(e.ids, id) }
