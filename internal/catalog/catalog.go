// Package catalog describes the components of a registry to callers: in full
// (decisions 9.1) and in the small dialect that code generators read.
//
// It is computed once, since a registry does not change. It knows no HTTP and
// runs nothing. The one invariant: what it lists is what the registry accepts.
package catalog

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/fault"
)

// Catalog is every component, ordered by module.
type Catalog struct {
	components []api.Component
	system     []api.SystemComponent
}

// New describes the modules of a registry.
func New(registry *component.Registry) (*Catalog, error) {
	c := &Catalog{components: []api.Component{}, system: []api.SystemComponent{}}
	for _, descriptor := range registry.List() {
		entry, _ := registry.Lookup(descriptor.Module)
		system, err := systemComponent(descriptor)
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", descriptor.Module, err)
		}
		c.components = append(c.components, describe(entry))
		c.system = append(c.system, system)
	}
	return c, nil
}

// All is every component, ordered by module.
func (c *Catalog) All() []api.Component { return c.components }

// Get finds a component by its exact name.
func (c *Catalog) Get(module string) (api.Component, bool) {
	i, found := c.search(module)
	if !found {
		return api.Component{}, false
	}
	return c.components[i], true
}

// Page is at most limit components after the cursor of the page before.
// INVALID_INPUT for a cursor that no page gave out.
func (c *Catalog) Page(limit int, cursor string) (api.ComponentPage, error) {
	from := 0
	if cursor != "" {
		last, err := base64.RawURLEncoding.DecodeString(cursor)
		if err != nil {
			return api.ComponentPage{}, fault.Invalid("/query/cursor", "The cursor is not one that a page of this list gave out.")
		}
		at, found := c.search(string(last))
		if from = at; found {
			from++
		}
	}
	to := min(from+limit, len(c.components))
	page := api.ComponentPage{Data: c.components[from:to], HasMore: to < len(c.components)}
	if page.HasMore {
		page.NextCursor = new(base64.RawURLEncoding.EncodeToString([]byte(c.components[to-1].Module)))
	}
	return page, nil
}

// System is all components in the small dialect.
func (c *Catalog) System() []api.SystemComponent { return c.system }

func (c *Catalog) search(module string) (int, bool) {
	return slices.BinarySearchFunc(c.components, module, func(e api.Component, name string) int { return strings.Compare(e.Module, name) })
}

// describe tells what an entry of the registry is.
func describe(entry *component.Entry) api.Component {
	secrets := []string{}
	for _, part := range []struct {
		name  string
		paths []string
	}{{"/input", entry.SecretPaths.Input}, {"/config", entry.SecretPaths.Config}, {"/output", entry.SecretPaths.Output}} {
		for _, path := range part.paths {
			secrets = append(secrets, part.name+path)
		}
	}
	return api.Component{
		Module: entry.Module, Title: entry.Title, Description: entry.Description, Category: entry.Category,
		Input: compact(entry.Input), Config: compact(entry.Config), Output: compact(entry.Output),
		Price: entry.Price, TimeoutMs: entry.Timeout.Milliseconds(),
		Effect: api.ComponentEffect(entry.Effect), Repeat: api.ComponentRepeat(entry.Repeat),
		ExecutionModes: modes(entry.Modes), SecretFields: secrets, Ports: ports(entry),
	}
}

func modes(from []component.Mode) []api.ExecutionMode {
	to := make([]api.ExecutionMode, len(from))
	for i, mode := range from {
		to[i] = api.ExecutionMode(mode)
	}
	return to
}

// compact is a schema without the white space of its source.
func compact(schema json.RawMessage) json.RawMessage {
	out, err := json.Marshal(schema)
	if err != nil {
		return schema
	}
	return out
}
