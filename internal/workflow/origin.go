package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/variable"
)

// moved reports the secrets of the version before that d would send to another origin: a
// stored secret stays with the origins of the addresses beside it (decisions 2.8). kept are
// the places of such secrets in d, whose values are in their places.
func (s *Service) moved(before *earlier, d definition, kept []place) (details []fault.Detail, err error) {
	if len(kept) == 0 {
		return nil, nil
	}
	var was definition
	if err := json.Unmarshal(before.raw, &was); err != nil {
		return nil, fmt.Errorf("read the stored definition: %w", err)
	}
	if _, _, err := s.restore(&was, before.secrets()); err != nil {
		return nil, err
	}
	for _, secret := range kept {
		c := d.Components[secret.component]
		if entry, known := s.modules.Lookup(c.Module); known && entry.Open(secret.member) {
			continue
		}
		if at := was.find(c.ID); at >= 0 && was.Components[at].Module == c.Module {
			changed, err := s.changedOrigin(was, was.Components[at], d, c)
			if err != nil {
				return nil, err
			}
			if changed == "" {
				continue
			}
			details = append(details, fault.Detail{
				Code: string(fault.InvalidInput), Pointer: secret.pointer,
				Message: "must be sent again: it is a stored secret, and " + changed + " has another origin than before",
			})
			continue
		}
		details = append(details, fault.Detail{
			Code: string(fault.InvalidInput), Pointer: secret.pointer,
			Message: "must be sent again: it is a stored secret of another module",
		})
	}
	return details, nil
}

// changedOrigin returns the place of an address that has one origin in a component of one
// definition and another in a component of the other. It returns "" if there is none.
func (s *Service) changedOrigin(was definition, before api.WorkflowComponent, d definition, now api.WorkflowComponent) (string, error) {
	old, err := s.origins(was, before)
	if err != nil {
		return "", err
	}
	fresh, err := s.origins(d, now)
	if err != nil {
		return "", err
	}
	for _, at := range slices.Sorted(maps.Keys(old)) {
		if fresh[at] != old[at] {
			return at, nil
		}
	}
	for _, at := range slices.Sorted(maps.Keys(fresh)) {
		if fresh[at] != old[at] {
			return at, nil
		}
	}
	return "", nil
}

// origins returns the origins of a component's addresses by their places, such as
// /config/apiUrl. Where a connection gives the address, that connection stands for it.
func (s *Service) origins(d definition, c api.WorkflowComponent) (map[string]string, error) {
	found := map[string]string{}
	entry, known := s.modules.Lookup(c.Module)
	if !known {
		return found, nil
	}
	inputs, configs := entry.AddressPaths()
	for _, part := range []struct {
		name  string
		raw   json.RawMessage
		paths []string
	}{{"input", c.Input, inputs}, {"config", c.Config, configs}} {
		if len(part.paths) == 0 {
			continue
		}
		decoder := json.NewDecoder(bytes.NewReader(part.raw))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			return nil, fmt.Errorf("read the %s of a component: %w", part.name, err)
		}
		for _, path := range part.paths {
			walk(value, strings.Split(path, "/")[1:], place{}.inside(part.name), func(at place, value any) any {
				if text, ok := value.(string); ok {
					found[at.pointer] = origin(text)
				}
				return value
			})
		}
	}
	for _, connection := range d.DataConnections {
		name, _, _ := strings.Cut(connection.To.Input, ".")
		if connection.To.ComponentID == c.ID && slices.ContainsFunc(inputs, func(path string) bool { return strings.HasPrefix(path+"/", "/"+name+"/") }) {
			found["/input/"+name] += " from " + connection.From.ComponentID + "." + connection.From.Output
		}
	}
	return found, nil
}

// origin returns the scheme, host and port of an address. An address that is not a URL, or
// has a variable among these, is its own origin.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || variable.In(u.Scheme+u.Host) {
		return address
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// checkRestricted returns FORBIDDEN if the change of a component takes a key that is not
// restricted to some workflows (decisions 2.8): it would let the key use variables, secrets
// or workflows that it was not given. d has the changed component in its place.
func (s *Service) checkRestricted(d definition, before, now api.WorkflowComponent) error {
	references := variable.Places(before.Config)
	for at, text := range variable.Places(now.Config) {
		if references[at] != text {
			return needsUnrestricted("refer to an environment variable at /config%s", at)
		}
	}
	if before.Module == "RUN_WORKFLOW" {
		was, _, err := members(before.Config)
		if err != nil {
			return err
		}
		is, _, err := members(now.Config)
		if err != nil {
			return err
		}
		for _, name := range []string{"workflowId", "version"} {
			if !bytes.Equal(was[name], is[name]) {
				return needsUnrestricted("change which workflow a component runs, by /config/%s", name)
			}
		}
	}
	changed, err := s.changedOrigin(d, before, d, now)
	if err != nil || changed == "" {
		return err
	}
	holds, err := s.holdsSecrets(d, before)
	if err != nil || !holds {
		return err
	}
	return needsUnrestricted("change the origin of the address at %s, beside which there are secrets", changed)
}

func needsUnrestricted(format string, args ...any) error {
	return &fault.Error{
		Code: fault.Forbidden, Reason: "needs_unrestricted_key",
		Message: "This API key is restricted to some workflows, so it may not " + fmt.Sprintf(format, args...) + ".",
	}
}

// holdsSecrets reports whether a component has a stored secret, refers to an environment
// variable, or takes data from a trigger whose input has secret fields.
func (s *Service) holdsSecrets(d definition, c api.WorkflowComponent) (bool, error) {
	if len(variable.Names(c.Input, c.Config)) > 0 {
		return true, nil
	}
	entry, known := s.modules.Lookup(c.Module)
	holds := false
	alone := definition{Components: []api.WorkflowComponent{c}}
	err := s.eachSecret(&alone, func(at place, value any) any {
		holds = holds || value == mark && known && !entry.Open(at.member)
		return value
	})
	if err != nil || holds {
		return holds, err
	}
	return slices.ContainsFunc(d.Components, func(from api.WorkflowComponent) bool {
		return s.hidesInput(d, from) && d.feeds(from.ID, c.ID, map[string]bool{})
	}), nil
}

// hidesInput reports whether a component is a trigger, and the schema of its input has
// secret fields.
func (s *Service) hidesInput(d definition, c api.WorkflowComponent) bool {
	entry, known := s.modules.Lookup(c.Module)
	if !known || !entry.Flow().Trigger {
		return false
	}
	schemas := []json.RawMessage{d.InputSchema}
	if entry.Flow().RunInput != nil {
		schemas = append(schemas, entry.Flow().RunInput(c.Config))
	}
	return slices.ContainsFunc(schemas, func(raw json.RawMessage) bool {
		if len(raw) == 0 || string(raw) == "null" {
			return false
		}
		schema, _ := component.NewSchema("", raw)
		return schema != nil && len(schema.SecretPaths()) > 0
	})
}

// feeds reports whether data of one component reaches another over connections.
func (d definition) feeds(from, to string, seen map[string]bool) bool {
	seen[from] = true
	return slices.ContainsFunc(d.DataConnections, func(connection api.DataConnection) bool {
		next := connection.To.ComponentID
		return connection.From.ComponentID == from && (next == to || !seen[next] && d.feeds(next, to, seen))
	})
}
