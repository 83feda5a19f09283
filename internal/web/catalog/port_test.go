package catalog_test

import (
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/web/catalog"
)

// The catalogue has the ports of decisions 8.2.
func TestCatalogueListsPortsOfEachModule(t *testing.T) {
	t.Parallel()
	special := map[string]string{
		"IF": "then else error", "SWITCH": "config.cases[].name default error", "FOR_EACH": "each done next error", "REPEAT": "each done next exhausted error", "WAIT_FOR_SIGNAL": "next timeout error",
	}
	for _, one := range library(t).All() {
		var names []string
		for _, port := range one.Ports {
			names = append(names, catalog.PortInWords(port))
			if port.Description == "" || (port.Name == nil) == (port.NamedBy == nil) {
				t.Errorf("%s: %+v", one.Module, port)
			}
		}
		want := special[one.Module]
		if want == "" && one.Module != "CONTINUE" { // an edge from it would never be followed
			want = "next error"
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s has the ports %s, want %s", one.Module, got, want)
		}
	}
	for module, want := range map[string]string{"HASH": "The component completed.", "FOR_EACH": "The same as done", "FAIL": "Only with onFailure: continue"} {
		one, _ := library(t).Get(module)
		for _, port := range one.Ports {
			if catalog.PortInWords(port) == "next" && !strings.HasPrefix(port.Description, want) {
				t.Errorf("%s: description of next is %s, want %s", module, port.Description, want)
			}
		}
	}
	alone, _ := load(t, module{"ALONE", none, none, none}).Get("ALONE")
	if alone.Ports == nil || len(alone.Ports) != 0 {
		t.Errorf("component that can't be in a workflow has ports %+v", alone.Ports)
	}
}

func TestFieldHasFormat(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"type":"string"}`:                                                            "",
		`{"type":"string","format":"hex"}`:                                             "hex",
		`{"type":"array","items":{"type":"string","format":"hex"}}`:                    "hex",
		`{"type":"object","additionalProperties":{"type":"string","format":"hex"}}`:    "hex",
		`{"anyOf":[{"type":"null"},{"type":"string","format":"hex"}]}`:                 "hex",
		`{"type":"object","properties":{"named":{"type":"string","format":"hex"}}}`:    "",
		`{"type":"string","format":"uuid","anyOf":[{"type":"string","format":"hex"}]}`: "uuid",
	} {
		if got := fields(t, `{"type":"object","properties":{"f":`+schema+`}}`)[0].Format; got != want {
			t.Errorf("%s: %q, want %q", schema, got, want)
		}
	}
}
