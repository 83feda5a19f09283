package app_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Functions of package time that read the clock.
var clocks = regexp.MustCompile(`\btime\.(Now|Since|Until|After|Sleep|NewTimer|NewTicker|AfterFunc)\(`)

func TestPurePackagesDoNotReadTheClock(t *testing.T) {
	read := 0
	for path, of := range places {
		if !of.pure {
			continue
		}
		files, err := filepath.Glob(filepath.Join(root(t), path, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			read++
			if call := clocks.Find(text); call != nil {
				t.Errorf("%s calls %s", filepath.Base(file), call)
			}
		}
	}
	if read == 0 {
		t.Error("no package is pure")
	}
}

// Functions of google/uuid that read the clock. Its IDs of version 7 count on from the last one, so
// a clock that was wrong for a second makes wrong IDs until the process restarts.
var clockedIDs = regexp.MustCompile(`\buuid\.(NewV7|NewV7FromReader|NewV6|NewUUID)\(`)

func TestIDsTakeTheirTimeFromTheCheckedClock(t *testing.T) {
	for _, file := range sources(t) {
		if !strings.HasPrefix(file.path, "internal") || strings.HasSuffix(file.path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root(t), file.path))
		if err != nil {
			t.Fatal(err)
		}
		if call := clockedIDs.Find(text); call != nil {
			t.Errorf("%s calls %s instead of uuid7.New", file.path, call)
		}
	}
}

// Package execution calls no other package back, except by Runner.Finish: data goes down as arguments and comes
// up as return values. Functions that are only asked for a value, or run in the background, take no arguments
// besides a context.
func TestExecutionCallsBackOnlyToFinishAndTakesNoPairsOfBooleans(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root(t), "internal/execution", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	finish := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		callback := func(where string, fields *ast.FieldList) {
			for _, field := range fields.List {
				f, ok := field.Type.(*ast.FuncType)
				if !ok || !takesArguments(f) {
					continue
				}
				if where == "Runner" && len(field.Names) == 1 && field.Names[0].Name == "Finish" {
					finish++
					continue
				}
				t.Errorf("%s: %s calls back", filepath.Base(file), where)
			}
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.FuncType:
				if booleans(n) > 1 {
					t.Errorf("%s: a function takes two or more booleans at byte %d", filepath.Base(file), n.Pos())
				}
			case *ast.FuncDecl:
				if n.Name.IsExported() {
					callback(n.Name.Name, n.Type.Params)
				}
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok && n.Name.IsExported() {
					callback(n.Name.Name, s.Fields)
				}
			}
			return true
		})
	}
	if finish != 1 {
		t.Errorf("%d hooks named Runner.Finish", finish)
	}
}

// takesArguments reports whether a function takes an argument other than a context.
func takesArguments(f *ast.FuncType) bool {
	for _, field := range f.Params.List {
		if s, ok := field.Type.(*ast.SelectorExpr); !ok || s.Sel.Name != "Context" {
			return true
		}
	}
	return false
}

// booleans counts the booleans among the parameters of a function.
func booleans(f *ast.FuncType) (n int) {
	for _, field := range f.Params.List {
		if id, ok := field.Type.(*ast.Ident); ok && id.Name == "bool" {
			n += max(1, len(field.Names))
		}
	}
	return n
}
