package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weft-automation/weft/conformance/probe"
)

// results holds what became of each case: it runs once, whichever test asks.
var results = sync.OnceValue(func() map[string]*result {
	all := map[string]*result{}
	for _, c := range Cases() {
		all[c.Name] = &result{}
	}
	return all
})

type result struct {
	once sync.Once
	err  error
}

// slots bounds the cases that run at once.
var slots = make(chan struct{}, 12)

// run runs a case, unless it ran already.
func run(t *testing.T, target *probe.Target, c Case) error {
	r := results()[c.Name]
	r.once.Do(func() {
		slots <- struct{}{}
		defer func() { <-slots }()
		r.err = probe.Run(t.Context(), target, c.Run)
	})
	return r.err
}

// wanted are the cases that this run owes: what takes long only with WEFT_SOAK.
func wanted(target *probe.Target) []Case {
	return slices.DeleteFunc(Cases(), func(c Case) bool {
		return c.Soak && os.Getenv("WEFT_SOAK") == "" || len(c.Missing(target)) > 0
	})
}

func TestConformance(t *testing.T) {
	target := target(t)
	for _, c := range Cases() {
		if missing := c.Missing(target); len(missing) > 0 {
			t.Logf("not run, it needs %v: %s", missing, c.Name)
		}
	}
	for _, c := range wanted(target) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if err := run(t, target, c); err != nil {
				t.Errorf("%s\n%v", c.Part, err)
			}
		})
	}
}

// Every operation of the document, and every answer that it names for it, has
// to come up in the cases: one that nobody asks for is not proven to exist.
func TestEveryOperationIsSeen(t *testing.T) {
	target := target(t)
	t.Run("cases", func(t *testing.T) {
		for _, c := range wanted(target) {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				_ = run(t, target, c) // judged by TestConformance
			})
		}
	})
	if deployment.pool == nil {
		t.Log("a deployment that was not booted here need not offer everything")
		return
	}
	for _, operation := range target.Spec.Operations() {
		for _, status := range operation.Statuses() {
			// 503 takes a database that is gone: the tests of failures take it away.
			// What comes under default is that of no operation.
			if status != "503" && status != "default" && !target.Spec.Seen(operation.ID, status) {
				t.Errorf("%s: %s was never seen", operation.ID, status)
			}
		}
	}
}

func TestEveryPartHasAProof(t *testing.T) {
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

// has says whether a package has a test.
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
