package expression_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component/expression"
)

// The cases are those of testdata/csv.py.txt: what Python's csv module writes, parseCSV reads as it does,
// and formatCSV writes it in the same form.
func TestCSVIsThatOfPython(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/csv.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Text  string
			Rows  []map[string]any
			Lines []any // in the form in which formatCSV writes
		}
	}
	if err := json.Unmarshal(data, &file); err != nil || len(file.Cases) < 100 {
		t.Fatalf("%d cases, %v", len(file.Cases), err)
	}
	same, err := expression.Compile("parseCSV(text) == rows")
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	for _, c := range file.Cases {
		rows := make([]any, len(c.Rows))
		for i, row := range c.Rows {
			rows[i] = row
		}
		if got, err := same.Run(map[string]any{"text": c.Text, "rows": rows}); err != nil || got != true {
			t.Errorf("%q is read as %s, want %v", c.Text, evaluated(t, "parseCSV(text)", map[string]any{"text": c.Text}), c.Rows)
		}
		if c.Lines == nil || strings.Contains(c.Text, " lead") || strings.Contains(c.Text, "\t") {
			continue // formatCSV also quotes fields that start with a space or tab
		}
		var text string
		if got := evaluated(t, "formatCSV(lines)", map[string]any{"lines": c.Lines}); json.Unmarshal([]byte(got), &text) != nil || text != c.Text {
			t.Errorf("%q is written as %s", c.Text, got)
		}
		written++
	}
	if written < 20 {
		t.Errorf("%d texts were written", written)
	}
}
