package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/reference"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// movedSecrets reports the secrets of the earlier version that d would send to a different origin.
// A stored secret may only be sent to the origins of the addresses next to it (decisions 2.8).
// kept lists the places of the earlier version's secrets in d, which contains their values.
func (s *Service) movedSecrets(before *earlier, d definition, kept []place) (details []fault.Detail, err error) {
	if len(kept) == 0 {
		return nil, nil
	}
	var was definition
	if err := json.Unmarshal(before.raw, &was); err != nil {
		return nil, fmt.Errorf("decode the stored definition: %w", err)
	}
	if _, _, err := s.restore(&was, before.secrets()); err != nil {
		return nil, err
	}
	fixed, err := s.fixed(d, kept)
	if err != nil {
		return nil, err
	}
	for _, secret := range kept {
		c := d.Components[secret.component]
		if s.notSecret(c, secret) {
			continue
		}
		if at := was.index(c.ID); at >= 0 && was.Components[at].Module == c.Module {
			changed, err := s.changedOrigin(was, was.Components[at], d, c)
			if err != nil {
				return nil, err
			}
			if changed == "" {
				if changed, err = before.changedVariables(fixed[c.ID]); err != nil {
					return nil, err
				}
			}
			if changed == "" {
				continue
			}
			details = append(details, fault.NewDetail(secret.pointer, "must be sent again: it is a stored secret, and "+changed+" now refers to another origin or recipient"))
			continue
		}
		details = append(details, fault.NewDetail(secret.pointer, "must be sent again: the stored secret belongs to another module"))
	}
	return details, nil
}

// notSecret reports whether the value at a place is known not to be secret although its schema
// marks it as secret. An example is an Accept header.
func (s *Service) notSecret(c api.WorkflowComponent, at place) bool {
	entry, known := s.modules.Lookup(c.Module)
	return known && entry.Open(at.field)
}

// fixed returns, by component, the variables in the origins of addresses next to stored secrets.
// places lists the places of the secrets; d contains the values.
func (s *Service) fixed(d definition, places []place) (map[string][]string, error) {
	found := map[string][]string{}
	for _, at := range places {
		c := d.Components[at.component]
		if _, known := found[c.ID]; known || s.notSecret(c, at) {
			continue
		}
		origins, err := s.origins(d, c)
		if err != nil {
			return nil, err
		}
		raw, err := strictjson.Encode(origins)
		if err != nil {
			return nil, errors.New("encode the origins of a component") // the encoder's error may contain a secret
		}
		if names := envref.Names(raw); len(names) > 0 {
			found[c.ID] = names
		}
	}
	return found, nil
}

// changedVariables describes which of the named variables have changed since the version was
// saved. It returns "" if none has changed.
func (e *earlier) changedVariables(names []string) (string, error) {
	if len(names) == 0 {
		return "", nil
	}
	changed, err := e.changedFunc(names)
	if len(changed) == 0 {
		return "", err
	}
	return "the changed environment variable " + strings.Join(changed, ", "), err
}

// changedOrigin returns the place of an address whose origin differs between two versions of a
// component. It returns "" if all origins are equal.
func (s *Service) changedOrigin(oldDefinition definition, oldComponent api.WorkflowComponent, newDefinition definition, newComponent api.WorkflowComponent) (string, error) {
	old, err := s.origins(oldDefinition, oldComponent)
	if err != nil {
		return "", err
	}
	fresh, err := s.origins(newDefinition, newComponent)
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

// origins returns the origins of a component's addresses by their places, such as /config/apiUrl.
// If a connection fills an address, the source of the connection is the address's origin.
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
		value, err := strictjson.Decode(part.raw)
		if err != nil {
			return nil, fmt.Errorf("decode the %s of a component: %w", part.name, err)
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
	var config struct{ AllowedOrigins json.RawMessage }
	if json.Unmarshal(c.Config, &config) == nil && len(config.AllowedOrigins) > 0 {
		for at := range found {
			found[at] += " within " + string(config.AllowedOrigins)
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

// origin returns the scheme, host and port of a URL. It returns any other address, such as an
// e-mail recipient, unchanged. It also returns a URL with a reference in its scheme or host
// unchanged.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || reference.In(u.Scheme+u.Host) {
		return address
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}
