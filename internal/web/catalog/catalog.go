// Package catalog describes the components of a registry to callers: in full (decisions 9.1), and
// in the small dialect that code generators read.
//
// The catalogue is computed once, and its large parts on first use, because a registry doesn't
// change. The package does not depend on HTTP and runs no component. Invariant: The catalogue lists
// exactly the components that the registry accepts.
package catalog

import (
	"slices"
	"strings"
	"sync"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// Catalog contains all components, sorted by module.
type Catalog struct {
	registry   *component.Registry
	components []api.Component
	systemFunc func() ([]api.SystemComponent, error)
}

// New returns the catalogue of a registry.
func New(registry *component.Registry) *Catalog {
	modules := registry.List()
	c := &Catalog{
		registry:   registry,
		components: make([]api.Component, len(modules)),
		systemFunc: sync.OnceValues(func() ([]api.SystemComponent, error) { return systemComponents(modules) }),
	}
	for i, descriptor := range modules {
		entry, _ := registry.Lookup(descriptor.Module)
		c.components[i] = describe(entry)
	}
	return c
}

// All returns all components, sorted by module.
func (c *Catalog) All() []api.Component { return c.components }

// Get returns a component by its exact module name. For an unknown name it returns NOT_FOUND, with
// the most similar name.
func (c *Catalog) Get(module string) (api.Component, error) {
	i, found := c.search(module)
	if !found {
		return api.Component{}, fault.New(fault.NotFound, "%s", c.registry.Unknown(module))
	}
	return c.components[i], nil
}

// Page returns at most limit components after the cursor of the previous page. It returns
// INVALID_INPUT for a malformed cursor.
func (c *Catalog) Page(limit int, after string) (api.ComponentPage, error) {
	from := 0
	if after != "" {
		last, err := cursor.DecodeName(after)
		if err != nil {
			return api.ComponentPage{}, err
		}
		at, found := c.search(last)
		if from = at; found {
			from++
		}
	}
	to := min(from+limit, len(c.components))
	page := api.ComponentPage{Data: c.components[from:to], HasMore: to < len(c.components)}
	if page.HasMore {
		page.NextCursor = cursor.Encode([]byte(c.components[to-1].Module))
	}
	return page, nil
}

// System returns all components in the small dialect. It returns an error only if a module has
// an invalid schema.
func (c *Catalog) System() ([]api.SystemComponent, error) { return c.systemFunc() }

func (c *Catalog) search(module string) (int, bool) {
	return slices.BinarySearchFunc(c.components, module, func(e api.Component, name string) int { return strings.Compare(e.Module, name) })
}

// describe returns an entry of the registry as the API shows it.
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
		Input: entry.Input, Config: entry.Config, Output: entry.Output,
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
