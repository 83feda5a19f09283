package app_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// rule is a row of conformance/RELIABILITY.md.
var rule = regexp.MustCompile(`(?m)^\| ([A-Z]{2}-[0-9]{2}) \|`)

// named finds the rules that a test function or a case of the conformance suite is named after.
var named = regexp.MustCompile(`(?:func (?:Test|Fuzz)|Name: +")([A-Z]{2}[0-9]{2}(?:And(?:[A-Z]{2})?[0-9]{2})*)`)

var row = regexp.MustCompile(`([A-Z]{2})?([0-9]{2})`)

func TestReliabilityRulesAndTestNamesMatch(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	have := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if entry != nil && entry.Name() == "node_modules" {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(path, filepath.Join(root, "conformance")) || !strings.HasSuffix(path, ".go") {
			return nil
		}
		source, err := os.ReadFile(path)
		for _, match := range named.FindAllStringSubmatch(string(source), -1) {
			family := ""
			for _, id := range row.FindAllStringSubmatch(match[1], -1) {
				if id[1] != "" {
					family = id[1]
				}
				have[family+"-"+id[2]] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile(filepath.Join(root, "conformance", "RELIABILITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, match := range rule.FindAllStringSubmatch(string(document), -1) {
		listed[match[1]] = true
		if !have[match[1]] {
			t.Errorf("no test is named after %s", match[1])
		}
	}
	for id := range have {
		if !listed[id] {
			t.Errorf("a test is named after %s, which is not in conformance/RELIABILITY.md", id)
		}
	}
}
