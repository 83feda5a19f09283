package judges

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/oasdiff/yaml"

	"github.com/weft-automation/weft/conformance"
)

// excuse is why a tool is spared something, and the case of the conformance suite that
// proves it instead.
type excuse struct {
	Reason string `json:"reason"`
	Case   string `json:"case"`
}

// The kinds of what a tool is spared.
type (
	excludedStep struct {
		excuse

		Step string `json:"step"` // of a flow
	}
	excludedOperation struct {
		excuse

		Operation string `json:"operation"`
	}
	excludedParameter struct {
		excuse

		Parameter string `json:"parameter"`
	}
	excludedValue struct {
		excuse

		At     string          `json:"at"`     // a schema of the document, and a member of it
		Schema json.RawMessage `json:"schema"` // in its place; nil: it is left out
	}
)

// exclusions is all of it.
type exclusions struct {
	Respect    []excludedStep      `json:"respect"`
	Operations []excludedOperation `json:"operations"`
	Parameters []excludedParameter `json:"parameters"`
	Values     []excludedValue     `json:"values"`
}

func readExclusions(t *testing.T) (all exclusions) {
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
	all := readExclusions(t)
	owed := map[string]excuse{}
	for _, e := range all.Respect {
		owed["respect "+e.Step] = e.excuse
	}
	for _, e := range all.Operations {
		owed["operation "+e.Operation] = e.excuse
	}
	for _, e := range all.Parameters {
		owed["parameter "+e.Parameter] = e.excuse
	}
	for _, e := range all.Values {
		owed["value "+e.At] = e.excuse
	}
	if each := len(all.Respect) + len(all.Operations) + len(all.Parameters) + len(all.Values); each != len(owed) || each < 10 {
		t.Errorf("%d exclusions, %d of them different", each, len(owed))
	}
	for what, e := range owed {
		if len(e.Reason) < 20 {
			t.Errorf("%s: why?", what)
		}
		if !slices.ContainsFunc(conformance.Cases(), func(c conformance.Case) bool { return c.Name == e.Case }) {
			t.Errorf("%s: there is no case %q", what, e.Case)
		}
	}
}
