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

// reasoned matches the reasons that the code sets on errors.
var reasoned = regexp.MustCompile(`(?:Reason:\s+|\.Reason = |[rR]eason[A-Z]\w*\s+= |refusal\.RetryAfter = |Policy = |conflict\(|unauthorized\(|tooMany\()"([a-z]+(?:_[a-z]+)*)"`)

// inside are reasons that no API response has: the settings pages show a message instead.
var inside = []string{"already_made"}

// Clients may distinguish errors by reason, so the contract documents every one.
func TestEveryReasonIsInTheContract(t *testing.T) {
	doc := specification(t)
	told := doc.resolve(map[string]any{"$ref": "#/components/schemas/Problem/properties/reason"})["description"].(string)
	found := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		if strings.HasSuffix(path, "platform/egress/reason.go") { // reasons of failed calls, which no error response has
			return nil
		}
		source, err := os.ReadFile(path)
		for _, match := range reasoned.FindAllStringSubmatch(string(source), -1) {
			found++
			if !strings.Contains(told, "`"+match[1]+"`") && !slices.Contains(inside, match[1]) {
				t.Errorf("%s sets the reason %s, which the contract does not document", path, match[1])
			}
		}
		return err
	})
	if err != nil || found < 35 {
		t.Errorf("found only %d reasons (%v)", found, err)
	}
}
