package workflowfile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	yaml "github.com/oasdiff/yaml3"
)

// Fault is an error in a file, found before the service checks the workflow.
type Fault struct {
	Line, Column int    // 0: unknown
	Name         string // such as components.pay.after; empty: the whole file, or unknown
	Message      string
}

func (f Fault) Error() string {
	text := f.Message
	if f.Name != "" {
		text = f.Name + ": " + text
	}
	if f.Line > 0 {
		text = fmt.Sprintf("line %d: %s", f.Line, text)
	}
	return text
}

// Faults are all errors that Read found, by line.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, one := range f {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n  ")
}

// reading collects the faults of a file, and remembers what the API's form got other names for.
type reading struct {
	faults  Faults
	aliased int                   // values that were copied for aliases
	written map[*yaml.Node]string // names in the file, by the nodes of keys and edges
}

// fault records an error at a node.
func (r *reading) fault(at *yaml.Node, name, format string, args ...any) {
	r.faults = append(r.faults, Fault{at.Line, at.Column, name, fmt.Sprintf(format, args...)})
}

// err returns the faults, or nil.
func (r *reading) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(r.faults, func(a, b Fault) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)) })
	return slices.CompactFunc(r.faults, func(a, b Fault) bool { return a == b })
}

// rename changes the name of a field from the file.
func (r *reading) rename(object *yaml.Node, from, to string) {
	for i := 0; i < len(object.Content); i += 2 {
		if object.Content[i].Value == from {
			r.written[object.Content[i]] = from
		}
	}
	rename(object, from, to)
}

// Name returns the name in the file of what a JSON pointer into the API's form refers to, such as
// components.pay.input.items[0], or components.pay.after for an edge that the file does not list. It
// returns the pointer if the file has the API's form.
func (f File) Name(pointer string) string {
	if !f.short || pointer == "" {
		return pointer
	}
	var name strings.Builder
	node := f.root
	for depth, part := range tokens(pointer) {
		key, next := inner(node, part)
		_, err := strconv.Atoi(part)
		switch {
		case depth == 1 && next != nil && f.written[next] != "":
			return f.written[next]
		case depth == 1 && strings.HasPrefix(name.String(), "components") && word(next, "id") != "":
			name.WriteString("." + word(next, "id"))
		case err == nil && (node == nil || node.Kind == yaml.SequenceNode):
			name.WriteString("[" + part + "]")
		default:
			if key != nil {
				part = cmp.Or(f.written[key], part)
			}
			if depth > 0 {
				name.WriteByte('.')
			}
			name.WriteString(part)
		}
		node = next
	}
	return name.String()
}

// tokens returns the tokens of a JSON pointer.
func tokens(pointer string) []string {
	parts := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, part := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
	}
	return parts
}

// inner returns the key and the value of a field, or an item as both.
func inner(node *yaml.Node, part string) (key, value *yaml.Node) {
	switch {
	case node == nil:
	case node.Kind == yaml.MappingNode:
		for i := 0; i < len(node.Content); i += 2 {
			if node.Content[i].Value == part {
				key, value = node.Content[i], node.Content[i+1]
			}
		}
	case node.Kind == yaml.SequenceNode:
		if index, err := strconv.Atoi(part); err == nil && index >= 0 && index < len(node.Content) {
			return node.Content[index], node.Content[index]
		}
	}
	return key, value
}
