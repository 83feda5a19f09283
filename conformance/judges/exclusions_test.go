package judges

import (
	"os"
	"slices"
	"testing"

	"github.com/oasdiff/yaml"

	"github.com/weft-automation/weft/conformance"
)

// exclusion is one thing that a tool is spared.
type exclusion struct {
	Step   string `json:"step"` // of a flow
	Reason string `json:"reason"`
	Case   string `json:"case"` // of the conformance suite, which proves it instead
}

// exclusions are all of them, by tool.
func exclusions(t *testing.T) (all struct {
	Respect []exclusion `json:"respect"`
},
) {
	t.Helper()
	text, err := os.ReadFile("../exclusions.yaml")
	if err == nil {
		_, err = yaml.Unmarshal(text, &all, yaml.DecodeOpts{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestEachExclusionHasAReasonAndACase(t *testing.T) {
	for _, e := range exclusions(t).Respect {
		if len(e.Reason) < 20 {
			t.Errorf("%+v: why?", e)
		}
		if !slices.ContainsFunc(conformance.Cases(), func(c conformance.Case) bool { return c.Name == e.Case }) {
			t.Errorf("%+v: there is no such case", e)
		}
	}
}
