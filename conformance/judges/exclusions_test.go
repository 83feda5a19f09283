package judges

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/oasdiff/yaml"

	"github.com/weft-automation/weft/conformance"
)

// exclusion is an exception for a tool.
type exclusion struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"` // replacement for the tool; nil means none
	Reason string          `json:"reason"`
	Most   int             `json:"most"` // maximum number of times; 0 means always
	Case   string          `json:"case"` // case of the conformance suite that covers the rule instead
}

// exclusions are the exceptions of one kind for one tool. The kind says what their names refer to.
type exclusions map[string][]exclusion

// kinds lists all kinds of exclusions.
var kinds = []string{"steps", "operations", "answers", "parameters", "pinned", "keywords", "security", "media", "headers", "schemas", "forgiven"}

func readExclusions(t *testing.T) (all exclusions) {
	t.Helper()
	text, err := os.ReadFile("../exclusions.yaml")
	if err == nil {
		_, err = yaml.Unmarshal(text, &all, yaml.DecodeOpts{}, func(d *json.Decoder) *json.Decoder { d.DisallowUnknownFields(); return d })
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// spare reports whether an exclusion of a kind exists.
func (e exclusions) spare(kind, name string) bool {
	return slices.ContainsFunc(e[kind], func(one exclusion) bool { return one.Name == name })
}

func TestEachExclusionHasAReasonAndACase(t *testing.T) {
	all := readExclusions(t)
	if found := slices.Sorted(maps.Keys(all)); !slices.Equal(found, slices.Sorted(slices.Values(kinds))) {
		t.Errorf("exclusions.yaml has the kinds %v", found)
	}
	for kind, list := range all {
		seen := map[string]bool{}
		for _, e := range list {
			if seen[e.Name] {
				t.Errorf("%s of %s appears twice", kind, e.Name)
			}
			seen[e.Name] = true
			if (kind == "forgiven") != (e.Most > 0) || (kind == "answers" || kind == "pinned" || kind == "headers") && e.Schema == nil {
				t.Errorf("%s of %s: set most or schema as its kind requires", kind, e.Name)
			}
			if len(e.Reason) < 20 {
				t.Errorf("%s of %s: the reason is missing or too short", kind, e.Name)
			}
			if !slices.ContainsFunc(conformance.Cases(), func(c conformance.Case) bool { return c.Name == e.Case }) {
				t.Errorf("%s of %s: unknown case %q", kind, e.Name, e.Case)
			}
		}
	}
}
