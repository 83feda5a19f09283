package app

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// reasoned finds the reasons that the code gives for failures.
var reasoned = regexp.MustCompile(`(?:Reason:\s+|\.Reason = |[rR]eason[A-Z]\w*\s+= |refusal\.RetryAfter = |Policy = |conflict\(|unauthorized\(|tooMany\()"([a-z]+(?:_[a-z]+)*)"`)

// inside are reasons that no answer of the API has: the pages for people say them in words.
var inside = []string{"already_made"}

// A client may tell failures apart by their reason, so every one of them is in the contract.
func TestEveryReasonIsInTheContract(t *testing.T) {
	doc := specification(t)
	told := doc.resolve(map[string]any{"$ref": "#/components/schemas/Problem/properties/reason"})["description"].(string)
	found := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range reasoned.FindAllStringSubmatch(string(source), -1) {
			found++
			if !strings.Contains(told, "`"+match[1]+"`") && !slices.Contains(inside, match[1]) {
				t.Errorf("%s gives the reason %s, of which the contract knows nothing", path, match[1])
			}
		}
		return err
	})
	if err != nil || found < 35 {
		t.Errorf("%d reasons were found, %v", found, err)
	}
}
