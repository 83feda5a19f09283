package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// runModule is the module whose config names another workflow.
const runModule = "RUN_WORKFLOW"

// checkRestricted returns FORBIDDEN if the change of a component needs a key that is not
// restricted to some workflows (decisions 2.8): otherwise the key could use variables,
// secrets or workflows that it was not given. d contains the changed component.
func (s *Service) checkRestricted(d definition, before, now api.WorkflowComponent) error {
	references := envref.Places(before.Config)
	for at, text := range envref.Places(now.Config) {
		if references[at] != text {
			return needsUnrestricted("refer to an environment variable at /config%s", at)
		}
	}
	if before.Module == runModule {
		name, err := changedMember(before, now, "workflowId", "version")
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
	expression, err := changedMember(before, now, "expression", "cases")
	if err != nil || at == "" && expression == "" {
		return err
	}
	secret, err := s.takesSecrets(d, before)
	switch {
	case err != nil || !secret:
		return err
	case at != "":
		return needsUnrestricted("change the origin of the address at %s in a component that takes secrets", at)
	}
	return needsUnrestricted("change the expression at /config/%s in a component that takes secrets", expression)
}

func needsUnrestricted(format string, args ...any) error {
	return &fault.Error{
		Code: fault.Forbidden, Reason: "needs_unrestricted_key",
		Message: "This API key is restricted to some workflows, so it may not " + fmt.Sprintf(format, args...) + ".",
	}
}

// changedMember returns the first of these members of a config that has changed, or "".
func changedMember(before, now api.WorkflowComponent, names ...string) (string, error) {
	was, _, err := members(before.Config)
	if err != nil {
		return "", err
	}
	is, _, err := members(now.Config)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if !bytes.Equal(was[name], is[name]) {
			return name, nil
		}
	}
	return "", nil
}

// takesSecrets reports whether a component has a stored secret or refers to an environment
// variable, or whether connections bring it a variable or a secret field of the run's input.
func (s *Service) takesSecrets(d definition, c api.WorkflowComponent) (bool, error) {
	entry, known := s.modules.Lookup(c.Module)
	takes := len(envref.Names(c.Input, c.Config)) > 0
	alone := definition{Components: []api.WorkflowComponent{c}}
	err := s.eachSecret(&alone, func(at place, value any) any {
		takes = takes || value == mark && known && !entry.Open(at.member)
		return value
	})
	if err != nil || takes {
		return takes, err
	}
	// The components whose outputs show a secret: their own, or one that they receive.
	var shows []string
	for _, from := range d.Components {
		entry, known := s.modules.Lookup(from.Module)
		if known && entry.Effect == component.EffectNone && len(envref.Names(from.Input, from.Config)) > 0 {
			shows = append(shows, from.ID)
		}
		hidden := s.hiddenInput(d, from)
		for _, connection := range d.DataConnections {
			if connection.From.ComponentID == from.ID && hides(hidden, connection.From.Output) {
				shows = append(shows, connection.To.ComponentID)
			}
		}
	}
	for i := 0; i < len(shows); i++ { // it grows meanwhile
		for _, connection := range d.DataConnections {
			if to := connection.To.ComponentID; connection.From.ComponentID == shows[i] && !slices.Contains(shows, to) {
				shows = append(shows, to)
			}
		}
	}
	return slices.Contains(shows, c.ID), nil
}

// hiddenInput returns the places of secret values in the input of a run, as
// component.SecretPaths has them, if the component is its trigger.
func (s *Service) hiddenInput(d definition, c api.WorkflowComponent) (paths []string) {
	entry, known := s.modules.Lookup(c.Module)
	if !known || !entry.Flow().Trigger {
		return nil
	}
	schemas := []json.RawMessage{d.InputSchema}
	if entry.Flow().RunInput != nil {
		_, config := entry.Known(nil, c.Config) // as runs see it
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

// hides reports whether an output of a trigger, by its name or dotted path, holds one of
// these places of the run's input or lies in one. The output input is the input as a whole.
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
