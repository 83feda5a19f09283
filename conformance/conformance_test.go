package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/conformance/probe"
)

// wanted returns the cases of this run. Only the soak test runs the long cases, and the case that
// waits for two full minutes of the clock. The tests of internal/workflow/schedule set the clock
// instead.
func wanted(target *probe.Target) []Case {
	return slices.DeleteFunc(Cases(), func(c Case) bool {
		return (c.Soak || c.Name == byTheClock) && !soak() || len(c.Missing(target)) > 0
	})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	target := *target(t)
	var err error
	if target.Spec, err = probe.LoadSpec(); err != nil { // do not count what other tests have seen
		t.Fatal(err)
	}
	for _, c := range Cases() {
		if missing := c.Missing(&target); len(missing) > 0 {
			t.Logf("not run, it needs %v: %s", missing, c.Name)
		}
	}
	var clocked, others []Case
	for _, c := range wanted(&target) {
		if c.Name == byTheClock {
			clocked = append(clocked, c)
		} else {
			others = append(others, c)
		}
	}
	judge := func(t *testing.T, c Case, err error) {
		if err != nil {
			t.Errorf("%s\n%v", c.Part, err)
		}
	}
	outcomes := make(chan error, len(clocked))
	for _, c := range clocked {
		go func() { outcomes <- probe.Run(t.Context(), &target, c.Run) }()
	}
	t.Run("cases", func(t *testing.T) {
		for _, c := range others {
			t.Run(c.Name, func(t *testing.T) { t.Parallel(); judge(t, c, probe.Run(t.Context(), &target, c.Run)) })
		}
	})
	for _, c := range clocked {
		t.Run(c.Name, func(t *testing.T) { judge(t, c, <-outcomes) })
	}
	t.Run("every operation is seen", func(t *testing.T) { allSeen(t, target.Spec) })
	t.Run("the document describes every answer", func(t *testing.T) {
		for _, place := range target.Spec.Undocumented() {
			t.Errorf("the document does not describe %s", place)
		}
	})
}

// byTheClock waits for the next minute, so it starts first and outside the limit on parallel cases.
const byTheClock = "schedules/200 runs begin when it is time"

// allSeen checks that the cases have provoked every response of every operation in the document.
// A response that no case provokes is not proven to exist.
func allSeen(t *testing.T, spec *probe.Spec) {
	if deployment.pool == nil {
		t.Log("a deployment that was not booted here need not offer everything")
		return
	}
	for _, operation := range spec.Operations() {
		for _, status := range operation.Statuses() {
			// The status 503 requires an unavailable database, the 403 of a hook an operator who has suspended
			// the workspace, and the 409 of a new key a workspace with 100 keys, in which the other cases could
			// create none; other tests cover them. The default response belongs to no operation.
			if status == "403" && operation.ID == "receiveHook" || status == "409" && operation.ID == "createApiKey" {
				continue
			}
			if status != "503" && status != "default" && !spec.Seen(operation.ID, status) {
				t.Errorf("%s: %s was never seen", operation.ID, status)
			}
		}
	}
}

func TestEveryPartHasAProof(t *testing.T) {
	if !slices.ContainsFunc(Cases(), func(c Case) bool { return c.Name == byTheClock }) {
		t.Errorf("there is no case %q", byTheClock)
	}
	known := map[string]bool{}
	for _, part := range Parts {
		if known[part.ID] {
			t.Errorf("the part %s is there twice", part.ID)
		}
		known[part.ID] = true
	}
	names := map[string]bool{}
	for _, c := range Cases() {
		if names[c.Name] {
			t.Errorf("the case %q is there twice", c.Name)
		}
		names[c.Name] = true
		for _, part := range c.Parts() {
			if !known[part] {
				t.Errorf("%s: there is no part %q", c.Name, part)
			}
		}
	}
	var later []string
	for _, part := range Unproven(Cases()) {
		if part.Elsewhere == "" {
			t.Errorf("%s has no proof: %s", part.ID, part.Text)
			continue
		}
		if path, test, named := strings.Cut(part.Elsewhere[strings.LastIndex(part.Elsewhere, " ")+1:], "."); !named || !has(t, path, test) {
			t.Errorf("%s: %s names no test that there is", part.ID, part.Elsewhere)
		}
		later = append(later, part.ID+" ("+part.Elsewhere+")")
	}
	t.Logf("%d parts, %d cases; without a case: %s", len(Parts), len(Cases()), strings.Join(later, ", "))
}

// has reports whether a package has a test.
func has(t *testing.T, path, test string) bool {
	files, err := filepath.Glob(filepath.Join("..", path, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		source, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(source), "\nfunc "+test+"(")
	})
}
