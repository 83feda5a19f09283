package catalog_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/weft-automation/weft/internal/web/catalog"
)

// Formats describes every format that a field uses, and no others.
func TestFormatsListsExactlyUsedFormats(t *testing.T) {
	t.Parallel()
	used := map[string]bool{catalog.FormatBigint: true}
	var walk func(fields []catalog.Field)
	walk = func(fields []catalog.Field) {
		for _, f := range fields {
			if f.Format != "" {
				used[f.Format] = true
			}
			walk(f.Fields)
		}
	}
	for _, c := range library(t).All() {
		for _, schema := range []json.RawMessage{c.Input, c.Config, c.Output} {
			walk(fields(t, string(schema)))
		}
	}
	for i, one := range catalog.Formats {
		if i > 0 && catalog.Formats[i-1].Name >= one.Name {
			t.Errorf("%s comes after %s, want sorted names", one.Name, catalog.Formats[i-1].Name)
		}
		if !used[one.Name] || one.Description == "" || one.Example == "" {
			t.Errorf("%+v, used: %v", one, used[one.Name])
		}
	}
	for name := range used {
		if !slices.ContainsFunc(catalog.Formats, func(f catalog.Format) bool { return f.Name == name }) {
			t.Errorf("the format %s has no description", name)
		}
	}
}
