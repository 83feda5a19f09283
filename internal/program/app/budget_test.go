package app_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// The limits on size.
const (
	maxFile     = 400 // lines
	maxFunction = 60  // lines
	maxPackage  = 12  // files that are not tests
)

// exceptions are the files, functions ("file:Function") and packages that may be larger, with the
// reason. An exception that is no longer needed fails the test.
var exceptions = map[string]string{
	"internal/web/server":    "one file for each tag of the contract, plus authentication and limits",
	"conformance":            "one file of cases for each part of the contract",
	"conformance/probe":      "one file for each kind of request, and one for each kind of check",
	"internal/program/bench": "one file for each figure that is measured, and one for each baseline",
	"internal/program/cli":   "one file for each command",

	"internal/execution":             "one file for each step of the life of an execution, its cancellation among them",
	"internal/workflow/engine":       "one file for each kind of decision",
	"internal/workflow/orchestrator": "one file for each thing that is loaded, answered or written",

	"internal/component/modules/evm":     "one file for each module",
	"internal/component/modules/utility": "one file for each module",
}

// banned are words that describe nothing.
var banned = []string{"util", "utils", "helper", "helpers", "common", "manager", "managers"}

// source is one hand-written Go file.
type source struct {
	path  string // relative to the root
	lines int
	tree  *ast.File
	set   *token.FileSet
}

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

// root returns the folder of go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod in any parent folder")
		}
		dir = filepath.Dir(dir)
	}
}

// sources returns every hand-written Go file, parsed.
func sources(t *testing.T) []source {
	t.Helper()
	base := root(t)
	var all []source
	err := filepath.WalkDir(base, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != base && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		if ast.IsGenerated(tree) {
			return nil
		}
		short, err := filepath.Rel(base, path)
		all = append(all, source{path: short, lines: strings.Count(string(text), "\n"), tree: tree, set: set})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestSizesAreWithinTheBudget(t *testing.T) {
	large := map[string]bool{}
	count := map[string]int{}
	check := func(what string, size, limit int) {
		if size <= limit {
			return
		}
		large[what] = true
		if exceptions[what] == "" {
			t.Errorf("%s: size %d exceeds the limit of %d", what, size, limit)
		}
	}
	for _, file := range sources(t) {
		check(file.path, file.lines, maxFile)
		if file.test() {
			continue // a table of cases is data and may have any length
		}
		count[filepath.Dir(file.path)]++
		for _, declared := range file.tree.Decls {
			function, ok := declared.(*ast.FuncDecl)
			if !ok {
				continue
			}
			length := file.set.Position(function.End()).Line - file.set.Position(function.Pos()).Line + 1
			check(file.path+":"+function.Name.Name, length, maxFunction)
		}
	}
	for dir, files := range count {
		check(dir, files, maxPackage)
	}
	for what, why := range exceptions {
		if !large[what] {
			t.Errorf("%s is within the budget: remove its exception (%q)", what, why)
		}
	}
}

// words splits a name into lower-case words.
func words(name string) []string {
	var spaced strings.Builder
	for _, r := range name {
		switch {
		case unicode.IsUpper(r):
			spaced.WriteRune(' ')
			spaced.WriteRune(unicode.ToLower(r))
		case unicode.IsLetter(r):
			spaced.WriteRune(r)
		default:
			spaced.WriteRune(' ')
		}
	}
	return strings.Fields(spaced.String())
}

func TestNamesUseNoEmptyWords(t *testing.T) {
	check := func(where, name string) {
		for _, word := range words(name) {
			if slices.Contains(banned, word) {
				t.Errorf("%s: the word %q describes nothing", where, name)
			}
		}
	}
	for _, file := range sources(t) {
		check(file.path, strings.TrimSuffix(file.path, ".go"))
		check(file.path, file.tree.Name.Name)
		ast.Inspect(file.tree, func(node ast.Node) bool {
			switch declared := node.(type) {
			case *ast.TypeSpec:
				check(file.path, declared.Name.Name)
			case *ast.FuncDecl:
				check(file.path, declared.Name.Name)
			}
			return true
		})
	}
}

func TestEveryPackageHasAPackageComment(t *testing.T) {
	described := map[string]bool{}
	for _, file := range sources(t) {
		if !file.test() {
			dir := filepath.Dir(file.path)
			described[dir] = described[dir] || file.tree.Doc != nil
		}
	}
	for dir, ok := range described {
		if !ok {
			t.Errorf("%s has no package comment", dir)
		}
	}
}

// Tests that skip or sleep can pass without proving anything. Under synctest a sleep takes no time
// and ends once all goroutines are blocked.
func TestTestsNeitherSkipNorSleep(t *testing.T) {
	for _, file := range sources(t) {
		if !file.test() {
			continue
		}
		virtual := slices.ContainsFunc(file.tree.Imports, func(spec *ast.ImportSpec) bool {
			return spec.Path.Value == `"testing/synctest"`
		})
		ast.Inspect(file.tree, func(node ast.Node) bool {
			selector, ok := node.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			owner, _ := selector.X.(*ast.Ident)
			skips := slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, selector.Sel.Name)
			if sleeps := !virtual && owner != nil && owner.Name == "time" && selector.Sel.Name == "Sleep"; sleeps || skips {
				t.Errorf("%s: a test must not call %s", file.set.Position(node.Pos()), selector.Sel.Name)
			}
			return true
		})
	}
}
