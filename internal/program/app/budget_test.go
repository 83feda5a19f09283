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

// What a reader can hold at once.
const (
	maxFile     = 400 // lines
	maxFunction = 60  // lines
	maxPackage  = 12  // files that are not tests
)

// exceptions are the files, functions ("file:Function") and packages that are
// larger, and why. A reason that no longer holds is an error too.
var exceptions = map[string]string{
	"internal/web/server":    "one file for each tag of the contract, beside the gates",
	"conformance":            "one file of cases for each part of the contract",
	"conformance/probe":      "one file for each thing that a case sends, and for each that it checks of an answer",
	"internal/program/bench": "one file for each figure that is measured and for each floor beside it",
	"internal/program/cli":   "one file a command",

	"internal/execution":       "one file for each step of the life of an execution, its cancellation among them",
	"internal/workflow/engine": "one file for each step of a fold, and one for what a fold may store",

	"internal/component/modules/evm":     "one file for each module",
	"internal/component/modules/utility": "one file for each module",
}

// banned are words that say nothing of what a thing is.
var banned = []string{"util", "utils", "helper", "helpers", "common", "manager", "managers"}

// source is one hand-written Go file.
type source struct {
	path  string // from the root
	lines int
	tree  *ast.File
	set   *token.FileSet
}

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

// root is the folder of go.mod.
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
			t.Fatal("there is no go.mod above the tests")
		}
		dir = filepath.Dir(dir)
	}
}

// sources parses every hand-written Go file.
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

func TestSizesKeepToTheBudget(t *testing.T) {
	large := map[string]bool{}
	count := map[string]int{}
	check := func(what string, size, limit int) {
		if size <= limit {
			return
		}
		large[what] = true
		if exceptions[what] == "" {
			t.Errorf("%s: %d, at most %d", what, size, limit)
		}
	}
	for _, file := range sources(t) {
		check(file.path, file.lines, maxFile)
		if file.test() {
			continue // a table of cases is data, however long
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
			t.Errorf("%s keeps to the budget: take its exception (%q) away", what, why)
		}
	}
}

// words splits a name into its lower-case words.
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

func TestNamesSayWhatThingsAre(t *testing.T) {
	check := func(where, name string) {
		for _, word := range words(name) {
			if slices.Contains(banned, word) {
				t.Errorf("%s: %q says nothing of what it is", where, name)
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

func TestEveryPackageSaysWhatItOwns(t *testing.T) {
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

// Tests that skip or sleep pass for the wrong reason. Under synctest a sleep takes
// no time and ends when everything else waits.
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
				t.Errorf("%s: %s", file.set.Position(node.Pos()), selector.Sel.Name)
			}
			return true
		})
	}
}
