package workflow

import (
	"encoding/json"
	"strings"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component/template"
	"github.com/weft-automation/weft/internal/kit/reference"
)

// outputsUsed returns the paths to which a component's strings and expressions refer: outputs of
// components, and names of the language.
func (s *Service) outputsUsed(d definition, c api.WorkflowComponent) (paths []reference.Path) {
	entry, known := s.modules.Lookup(c.Module)
	inputs := d.inputsOf(c)
	for _, part := range []struct {
		raw         json.RawMessage
		expressions bool
	}{{c.Input, false}, {c.Config, known && entry.Flow().Expressions != nil}} {
		starts := func(name string) bool {
			return (d.index(name) >= 0 || reference.IsName(name)) && !(part.expressions && inputs[name])
		}
		_, _ = template.Walk("", part.raw, func(_, text string) (any, bool, error) {
			for _, code := range codeIn(text, part.expressions) {
				found, _ := reference.Paths(code, starts) // the save reports errors
				paths = append(paths, found...)
			}
			return text, true, nil
		})
	}
	return paths
}

// codeIn returns the expressions in a string.
func codeIn(text string, expression bool) (code []string) {
	if expression {
		return []string{text}
	}
	parts, err := reference.Parse(text)
	if err != nil {
		return nil
	}
	for _, part := range parts {
		if part.IsCode {
			code = append(code, part.Text)
		}
	}
	return code
}

// inputsOf returns the names of the inputs of a component that have a literal value or a connection.
func (d definition) inputsOf(c api.WorkflowComponent) map[string]bool {
	names := map[string]bool{}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(c.Input, &fields) // the save reports errors
	for name := range fields {
		names[name] = true
	}
	for _, connection := range d.DataConnections {
		if connection.To.ComponentID == c.ID {
			name, _, _ := strings.Cut(connection.To.Input, ".")
			names[name] = true
		}
	}
	return names
}

// flow is a value that gets from one component to another.
type flow struct{ from, output, to string }

// flows returns what data connections and references carry.
func (s *Service) flows(d definition) (all []flow) {
	for _, connection := range d.DataConnections {
		all = append(all, flow{connection.From.ComponentID, connection.From.Output, connection.To.ComponentID})
	}
	for _, c := range d.Components {
		for _, path := range s.outputsUsed(d, c) {
			if !path.Named {
				all = append(all, flow{path.Root, strings.Join(path.Segments, "."), c.ID})
			}
		}
	}
	return all
}
