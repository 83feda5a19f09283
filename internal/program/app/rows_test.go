package app_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// owed are the rows of the reliability bar that this release promises, by
// family. What is left out needs a tool that is not to be had (AB-09), or is for a
// later release.
var owed = map[string][]int{
	"AU": {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 17},
	"CB": {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 21, 23},
	"EX": {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 22},
	"SS": {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13},
	"AB": {1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 14},
	"LE": {1, 2, 3, 4, 5, 6, 7, 8, 10},
	"MT": {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
	"OP": {1, 2, 3, 4, 5, 6, 7, 8, 10, 11},
	"RL": {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12},
}

// named finds the rows that a test is named after: a test function, or a case
// of the conformance suite.
var named = regexp.MustCompile(`(?:func (?:Test|Fuzz)|Name: +")([A-Z]{2}[0-9]{2}(?:And(?:[A-Z]{2})?[0-9]{2})*)`)

var row = regexp.MustCompile(`([A-Z]{2})?([0-9]{2})`)

func TestEveryRowOfTheReliabilityBarHasATestNamedAfterIt(t *testing.T) {
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
	var missing []string
	for family, numbers := range owed {
		for _, n := range numbers {
			if id := fmt.Sprintf("%s-%02d", family, n); !have[id] {
				missing = append(missing, id)
			}
		}
	}
	slices.Sort(missing)
	if len(missing) > 0 {
		t.Errorf("no test is named after %s", strings.Join(missing, ", "))
	}
}
