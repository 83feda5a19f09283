package conformance

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sentence is a line of testdata/sentences.txt.
type sentence struct {
	number, text string
	decision     bool
	parts        []string
}

func sentences(t *testing.T) (all []sentence) {
	t.Helper()
	text, err := os.ReadFile("testdata/sentences.txt")
	if err != nil {
		t.Fatal(err)
	}
	decision := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		decision = decision || line == "## Decisions"
		if line == "" || line[0] == '#' {
			continue
		}
		named, said, _ := strings.Cut(line, " | ")
		number, parts, complete := strings.Cut(named, " ")
		if !complete || said == "" {
			t.Fatalf("%q is not NUMBER PARTS | SENTENCE", line)
		}
		s := sentence{number: number, text: said, decision: decision}
		if parts != "-" {
			s.parts = strings.Split(parts, ", ")
		}
		all = append(all, s)
	}
	return all
}

// Each sentence of the contract and of the decisions must have parts. Each part is proven, or
// unseen with a reason, or a choice.
func TestEverySentenceHasItsParts(t *testing.T) {
	known := map[string]bool{}
	for _, part := range Parts {
		known[part.ID] = true
	}
	named, count := map[string]bool{}, map[bool]int{}
	for _, s := range sentences(t) {
		count[s.decision]++
		for _, id := range s.parts {
			named[id] = true
			if !known[id] {
				t.Errorf("%s: there is no part %s: %s", s.number, id, s.text)
			}
		}
	}
	for _, part := range Parts {
		if !named[part.ID] && part.ID[0] != 'C' && !slices.Contains(beyond, part.ID) {
			t.Errorf("no sentence has the part %s: %s", part.ID, part.Text)
		}
	}
	t.Logf("%d sentences of the contract, %d of the decisions", count[false], count[true])
}

// beyond lists parts that only the document requires.
var beyond = []string{"D1.5.filter", "D8.1.file"}

// The list must have exactly the numbered decisions that the docs show.
func TestTheDecisionsOfTheDocsAreListed(t *testing.T) {
	t.Parallel()
	shown := decisions(string(fetched(t, target(t), "/docs/decisions.md")))
	listed := map[string]bool{}
	for _, s := range sentences(t) {
		listed[s.number] = listed[s.number] || s.decision
	}
	for number := range shown {
		if !listed[number] {
			t.Errorf("decision %s has no sentence in the list", number)
		}
	}
	for _, s := range sentences(t) {
		if s.decision && s.number != "0" && !shown[s.number] {
			t.Errorf("the docs do not show decision %s: %s", s.number, s.text)
		}
	}
}

// decisions returns the numbers of a page of decisions: 1.1, 1.2, ..., and 3 for a section
// without numbers.
func decisions(page string) map[string]bool {
	shown, section := map[string]bool{}, ""
	numbered := regexp.MustCompile(`^(?:## )?(\d+)\. `)
	for line := range strings.Lines(page) {
		found := numbered.FindStringSubmatch(line)
		switch {
		case found == nil:
		case line[0] == '#':
			section = found[1]
			shown[section] = true
		default:
			delete(shown, section)
			shown[section+"."+found[1]] = true
		}
	}
	return shown
}
