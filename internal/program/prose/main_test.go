package main

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// kinds are files in which %s is prose.
var kinds = []struct{ kind, name, source string }{
	{"a comment", "a.go", "package a\n\n// A is a value: %s.\nvar A int\n"},
	{"a comment behind code", "a.go", "package a\n\nvar A int // %s\n"},
	{"a comment in a test", "a_test.go", "package a\n\n/* %s */\n"},
	{"errors.New", "a.go", "package a\n\nvar err = errors.New(\"a: %s\")\n"},
	{"fmt.Errorf", "a.go", "package a\n\nvar err = fmt.Errorf(\"%s: %%w\", cause)\n"},
	{"a fault", "a.go", "package a\n\nvar err = fault.Invalid(\"/a\", \"%s\")\n"},
	{"t.Errorf", "a_test.go", "package a\n\nfunc TestA(t *testing.T) { t.Errorf(\"%s %%d\", 1) }\n"},
	{"a log message", "a.go", "package a\n\nfunc a() { log.Warn(\"%s\", \"id\", 1) }\n"},
	{"a module's description", "a.go", "package a\n\nvar A = Descriptor{Description: \"%s.\"}\n"},
	{"a schema's title", "a.go", "package a\n\nconst a = `{\"title\": \"%s\"}`\n"},
	{"the help of a flag", "a.go", "package a\n\ntype A struct {\n\tB int `help:\"%s.\"`\n}\n"},
	{"a description of the API", "openapi.yaml", "info:\n  description: |\n    %s.\n"},
	{"a summary of the API", "openapi.yaml", "get:\n  summary: %s\n"},
	{"a query", "queries/a.sql", "-- name: A :one\n-- %s.\nSELECT 1;\n"},
	{"a migration", "internal/postgres/migrations/9999_a.sql", "SELECT 1; -- %s\n"},
	{"Markdown", "README.md", "# A\n\n%s.\n"},
}

func TestEachRuleIsCheckedInEachKindOfText(t *testing.T) {
	book := newRulebook()
	for _, kind := range kinds {
		for _, r := range book.rules {
			found, err := book.check(kind.name, fmt.Sprintf(kind.source, r.example))
			if err != nil || len(found) != 1 || !strings.HasSuffix(found[0], " -> "+r.instead) {
				t.Errorf("%s: %q: %q, %v; want one finding: %s", kind.kind, r.example, found, err, r.instead)
			}
		}
	}
}

// testdata/findings.txtar begins with all findings in its files.
func TestFindings(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/findings.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, file := range archive.Files {
		found, err := newRulebook().check(file.Name, string(file.Data))
		if err != nil {
			t.Error(err)
		}
		for _, f := range found {
			got.WriteString(f + "\n")
		}
	}
	if want := string(archive.Comment); got.String() != want {
		t.Errorf("found\n%s\nwant\n%s", &got, want)
	}
}
