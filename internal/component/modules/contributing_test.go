package modules

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// The test uses the compiler's overlay to add the component in CONTRIBUTING.md and its row in
// the table of sources. The component's test and the tests of the whole library must pass.
func TestComponentInContributingGuideWorks(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	folder, replaced := t.TempDir(), map[string]string{}
	replace := func(path, text string) {
		t.Helper()
		written := filepath.Join(folder, filepath.Base(path))
		if err := os.WriteFile(written, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replaced[filepath.Join(root, path)] = written
	}
	for _, block := range regexp.MustCompile("(?s)```go\n// (internal/[a-z0-9_/]+\\.go)\n(.*?)```").FindAllStringSubmatch(string(guide), -1) {
		if _, err := os.Stat(filepath.Join(root, block[1])); err == nil {
			t.Errorf("%s is there already", block[1])
		}
		replace(block[1], block[2])
	}
	if len(replaced) != 2 {
		t.Fatalf("the guide shows %d files, want the module and its test", len(replaced))
	}
	const family = "internal/component/modules/utility"
	table, err := os.ReadFile(filepath.Join(root, family, "utility.go"))
	if err != nil {
		t.Fatal(err)
	}
	const before = "return []component.Module{\n"
	with := strings.Replace(string(table), before, before+"\t\tcheckIBAN{},\n", 1)
	if with == string(table) {
		t.Fatal("the family's table is not where the line would go")
	}
	replace(family+"/utility.go", with)

	const sources = "internal/component/modules/sources_test.go"
	row := regexp.MustCompile("(?s)```go\n(\\{module: .*?)```").FindStringSubmatch(string(guide))
	held, err := os.ReadFile(filepath.Join(root, sources))
	if err != nil || row == nil {
		t.Fatalf("the guide shows no row of the table of sources: %v", err)
	}
	const first = "var sources = []source{\n"
	if with = strings.Replace(string(held), first, first+row[1], 1); with == string(held) {
		t.Fatal("the table of sources is not where the row would go")
	}
	replace(sources, with)

	overlay := filepath.Join(folder, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := waittest.Context(t)
	command := exec.CommandContext(ctx, "go", "test", "-vet=off", "-overlay="+overlay, "-v",
		"-run=^Test(CheckIBAN|Modes.*|Prices.*|SecretFields.*|EverySchema.*|EveryModuleHasIndependentTests|AB05.*|MT05.*|ModulesConnect.*)$",
		"./"+family, "./internal/component/modules")
	command.Dir = root
	command.Env = append(os.Environ(), overlayVariable+"="+overlay)
	out, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestCheckIBAN") || !strings.Contains(string(out), "--- PASS: TestEverySchema") || !strings.Contains(string(out), "--- PASS: TestEveryModuleHasIndependentTests") {
		t.Errorf("%v\n%s", err, out)
	}
}
