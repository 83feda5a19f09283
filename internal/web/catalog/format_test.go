package catalog_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/weft-automation/weft/internal/web/catalog"
)

// A format that a field names is one that its reader can look up, and no other is told.
func TestEveryFormatIsTold(t *testing.T) {
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
			t.Errorf("%s stands after %s", one.Name, catalog.Formats[i-1].Name)
		}
		if !used[one.Name] || one.Description == "" || one.Example == "" {
			t.Errorf("%+v, used: %v", one, used[one.Name])
		}
	}
	for name := range used {
		if !slices.ContainsFunc(catalog.Formats, func(f catalog.Format) bool { return f.Name == name }) {
			t.Errorf("nothing tells what %s is", name)
		}
	}
}
