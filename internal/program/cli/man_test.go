package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/program/cli"
)

func TestEveryCommandHasAManual(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man1")
	run(t, nil, "", "help", "--man="+dir).check(t, 0, "", "")
	_, all := commandsOf(t)
	names := []string{"weft"}
	for _, node := range all {
		names = append(names, "weft-"+strings.ReplaceAll(node.Path(), " ", "-"))
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(names) {
		t.Fatalf("%d pages, want %d (%v)", len(entries), len(names), err)
	}
	for i, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		page := string(text)
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !strings.Contains(" .TH .SH .TP .PP .B ", " "+strings.Fields(line)[0]+" ") {
				t.Errorf("%s: the line %q is a request of troff", name, line)
			}
		}
		if !strings.HasPrefix(page, ".TH ") || !strings.Contains(page, ".SH OPTIONS\n") {
			t.Errorf("%s lacks sections: %s", name, page)
		}
		if i > 0 && !strings.Contains(page, ".SH EXAMPLES\n.PP\nweft "+strings.Fields(cli.Examples[all[i-1].Path()])[0]) {
			t.Errorf("%s lacks examples", name)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "weft.1"))
	if err != nil || !strings.Contains(string(text), ".B weft\\-runs\\-list(1)\n") || !strings.Contains(string(text), ".SH EXIT STATUS\n.TP\n.B 0\nDone") {
		t.Errorf("the page of the program: %s (%v)", text, err)
	}
}
