package workflowfile

import (
	"embed"
	"path"
	"strings"
)

//go:embed recipes/*.yaml
var recipes embed.FS

// Recipe is a workflow file to start from.
type Recipe struct{ Name, Summary, Text string }

// Recipes returns the recipes by name. The summary is the first comment line of the file.
func Recipes() ([]Recipe, error) {
	entries, err := recipes.ReadDir("recipes")
	if err != nil {
		return nil, err
	}
	var all []Recipe
	for _, entry := range entries {
		raw, err := recipes.ReadFile(path.Join("recipes", entry.Name()))
		if err != nil {
			return nil, err
		}
		first, _, _ := strings.Cut(string(raw), "\n")
		all = append(all, Recipe{strings.TrimSuffix(entry.Name(), ".yaml"), strings.TrimPrefix(first, "# "), string(raw)})
	}
	return all, nil
}
