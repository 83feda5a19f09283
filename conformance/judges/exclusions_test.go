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

// exclusion is something that a tool is spared.
type exclusion struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"` // what is given to the tool instead; nil: nothing is
	Reason string          `json:"reason"`
	Most   int             `json:"most"` // how often; 0: always
	Case   string          `json:"case"` // of the conformance suite, which proves what the tool does not
}

// exclusions are those of one tool and one kind, which is what their names are of.
type exclusions map[string][]exclusion

// kinds are all that there are.
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

// spare says whether there is an exclusion of a kind.
func (e exclusions) spare(kind, name string) bool {
	return slices.ContainsFunc(e[kind], func(one exclusion) bool { return one.Name == name })
}

func TestEachExclusionHasAReasonAndACase(t *testing.T) {
	all := readExclusions(t)
	if found := slices.Sorted(maps.Keys(all)); !slices.Equal(found, slices.Sorted(slices.Values(kinds))) {
		t.Errorf("the kinds are %v", found)
	}
	for kind, list := range all {
		seen := map[string]bool{}
		for _, e := range list {
			if seen[e.Name] {
				t.Errorf("%s of %s stands there twice", kind, e.Name)
			}
			seen[e.Name] = true
			if (kind == "forgiven") != (e.Most > 0) || (kind == "answers" || kind == "pinned" || kind == "headers") && e.Schema == nil {
				t.Errorf("%s of %s: how often, or what instead?", kind, e.Name)
			}
			if len(e.Reason) < 20 {
				t.Errorf("%s of %s: why?", kind, e.Name)
			}
			if !slices.ContainsFunc(conformance.Cases(), func(c conformance.Case) bool { return c.Name == e.Case }) {
				t.Errorf("%s of %s: there is no case %q", kind, e.Name, e.Case)
			}
		}
	}
}
