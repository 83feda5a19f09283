package workflow

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/reference"
)

// checkRestricted returns FORBIDDEN if a key that is restricted to some workflows may not change a
// component in this way (decisions 2.8). Otherwise the key could access variables, secrets or
// workflows that it may not use. d contains the changed component.
func (s *Service) checkRestricted(d definition, before, now api.WorkflowComponent) error {
	references := envref.Places(before.Config)
	for at, text := range envref.Places(now.Config) {
		if references[at] != text {
			return needsUnrestricted("add or change a reference at /config%s", at)
		}
	}
	if name, err := changedField(before, now, "allowedOrigins"); err != nil || name != "" {
		return cmp.Or(err, needsUnrestricted("change the origins that a component may call, by /config/%s", name))
	}
	if before.Module == component.RunWorkflow {
		name, err := changedField(before, now, "workflow", "workflowId", "version")
		if err != nil {
			return err
		}
		if name != "" {
			return needsUnrestricted("change which workflow a component runs, by /config/%s", name)
		}
	}
	hidden := s.hiddenInput(d, now)
	for _, path := range s.hiddenInput(d, before) {
		if !slices.Contains(hidden, path) {
			return needsUnrestricted("show the secret field %s of the run's input", path)
		}
	}
	at, err := s.changedOrigin(d, before, d, now)
	if err != nil {
		return err
	}
	expression, err := changedField(before, now, "expression", "cases")
	if err != nil || at == "" && expression == "" {
		return err
	}
	if expression != "" && len(s.outputsUsed(d, now)) > 0 {
		return needsUnrestricted("change an expression that names more than inputs, at /config/%s", expression)
	}
	secret, err := s.receivesSecrets(d, before)
	switch {
	case err != nil || !secret:
		return err
	case at != "":
		return needsUnrestricted("change the origin of the address at %s in a component that takes secrets", at)
	}
	return needsUnrestricted("change the expression at /config/%s in a component that takes secrets", expression)
}

// needsUnrestricted returns a FORBIDDEN error for a change that the format describes.
func needsUnrestricted(format string, args ...any) error {
	return &fault.Error{
		Code: fault.Forbidden, Reason: "needs_unrestricted_key",
		Message: "This API key is restricted to some workflows, so it may not " + fmt.Sprintf(format, args...) + ".",
	}
}

// changedField returns the first of the named fields of the config that has changed, or "".
func changedField(before, now api.WorkflowComponent, names ...string) (string, error) {
	was, _, err := objectOf(before.Config)
	if err != nil {
		return "", err
	}
	is, _, err := objectOf(now.Config)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if !bytes.Equal(was.fields[name], is.fields[name]) {
			return name, nil
		}
	}
	return "", nil
}

// receivesSecrets reports whether a component contains a stored secret or a reference to an
// environment variable, or receives a variable or a secret field of the run's input through
// connections or references.
func (s *Service) receivesSecrets(d definition, c api.WorkflowComponent) (bool, error) {
	entry, known := s.modules.Lookup(c.Module)
	takes := s.refersToVariables(d, c)
	alone := definition{Components: []api.WorkflowComponent{c}}
	err := s.eachSecret(&alone, func(at place, value any) any {
		takes = takes || value == placeholder && known && !entry.Open(at.field)
		return value
	})
	if err != nil || takes {
		return takes, err
	}
	// Components whose outputs may contain a secret, either their own or a received one.
	var shows []string
	flows := s.flows(d)
	for _, from := range d.Components {
		entry, known := s.modules.Lookup(from.Module)
		if known && entry.Effect == component.EffectNone && s.refersToVariables(d, from) {
			shows = append(shows, from.ID)
		}
		hidden := s.hiddenInput(d, from)
		for _, carried := range flows {
			if carried.from == from.ID && hides(hidden, carried.output) {
				shows = append(shows, carried.to)
			}
		}
	}
	for i := 0; i < len(shows); i++ { // the slice grows in the loop
		for _, carried := range flows {
			if carried.from == shows[i] && !slices.Contains(shows, carried.to) {
				shows = append(shows, carried.to)
			}
		}
	}
	return slices.Contains(shows, c.ID), nil
}

// refersToVariables reports whether a component refers to an environment variable.
func (s *Service) refersToVariables(d definition, c api.WorkflowComponent) bool {
	return len(envref.Names(c.Input, c.Config)) > 0 || slices.ContainsFunc(s.outputsUsed(d, c), func(path reference.Path) bool {
		return path.Named && path.Root == reference.Env
	})
}

// hiddenInput returns the secret places in the input of a run, in the form of
// component.SecretPaths. It returns nil if the component is not a trigger.
func (s *Service) hiddenInput(d definition, c api.WorkflowComponent) (paths []string) {
	entry, known := s.modules.Lookup(c.Module)
	if !known || !entry.Flow().Trigger {
		return nil
	}
	schemas := []json.RawMessage{d.InputSchema}
	if entry.Flow().RunInput != nil {
		_, config := entry.Known(nil, c.Config) // the config as runs see it
		schemas = append(schemas, entry.Flow().RunInput(config))
	}
	for _, raw := range schemas {
		if len(raw) == 0 || string(raw) == "null" {
			continue
		}
		if schema, _ := component.NewSchema("", raw); schema != nil {
			paths = append(paths, schema.SecretPaths()...)
		}
	}
	return paths
}

// hides reports whether an output of a trigger contains a secret place of the run's input, or lies
// in one. output is a name or a dotted path. The output "input" is the whole input.
func hides(paths []string, output string) bool {
	meets := func(tokens []string) bool {
		return slices.ContainsFunc(paths, func(path string) bool {
			for i, token := range strings.Split(path, "/")[1:] {
				if i == len(tokens) {
					break
				}
				if token != "*" && token != fault.EscapeToken(tokens[i]) {
					return false
				}
			}
			return true
		})
	}
	tokens := strings.Split(output, ".")
	return meets([]string{output}) || meets(tokens) || tokens[0] == "input" && meets(tokens[1:])
}
