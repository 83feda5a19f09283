package catalog

import (
	"cmp"
	"embed"
	"slices"

	"github.com/weft-automation/weft/gen/api"
)

// exampleFiles has a workflow file for each module, which a test validates and runs.
//
//go:embed examples/*.yaml
var exampleFiles embed.FS

// Example returns a workflow file that uses the module, or "" for a module without one.
func Example(module string) string {
	text, err := exampleFiles.ReadFile("examples/" + module + ".yaml")
	if err != nil {
		return ""
	}
	return string(text)
}

// categories are the categories in the order in which lists show them: what most workflows need
// comes first.
var categories = []string{"LOGIC", "HTTP", "UTILITY", "EVM"}

// SortByCategory sorts components by category, other categories last, and keeps the order within each.
func SortByCategory(all []api.Component) {
	rank := func(c api.Component) int {
		if at := slices.Index(categories, c.Category); at >= 0 {
			return at
		}
		return len(categories)
	}
	slices.SortStableFunc(all, func(a, b api.Component) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Category, b.Category))
	})
}
