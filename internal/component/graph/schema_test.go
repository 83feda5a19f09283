package graph_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
)

// joined compiles one connection between an output and an input with these schemas.
func joined(t *testing.T, given, from, taken, to string) (*graph.Plan, string) {
	t.Helper()
	plan, problems := graph.Compile(definition(t, fmt.Sprintf(`{"components":[{"id":"a","module":"A"},{"id":"b","module":"B"}],"sequenceEdges":[{"id":"1","from":"a","to":"b","port":"out"}],
		"dataConnections":[{"id":"1","from":{"componentId":"a","output":%q},"to":{"componentId":"b","input":%q}}]}`, from, to)),
		library{"A": {Ports: []string{"out", "odd"}, Output: json.RawMessage(given)}, "B": {Input: json.RawMessage(taken)}})
	return plan, told(problems)
}

// Each line has the schema of an output, the schema of an input, and the reason why no value
// fits; the reason is "" if a value may fit.
func TestTypesThatNeverFitAreErrors(t *testing.T) {
	t.Parallel()
	const text, integer, flag = `{"type":"string"}`, `{"type":"integer"}`, `{"type":"boolean"}`
	for _, c := range []struct{ given, taken, want string }{
		{`{}`, flag, ``},
		{flag, `{}`, ``},
		{`true`, flag, ``},
		{`false`, flag, ``},
		{flag, `false`, `it is a boolean, but nothing is expected`},
		{`{"type":"number"}`, integer, ``},
		{`{"type":"number"}`, flag, `it is a number, but a boolean is expected`},
		{integer, text, ``},
		{text, `{"type":"number"}`, ``},
		{`{}`, `{"type":"null"}`, ``},
		{`{"type":["string","null"]}`, `{"type":"null"}`, ``},
		{text, `{"type":["boolean","null"]}`, `it is a string, but a boolean or null is expected`},
		{`{"type":["string","null"]}`, `{"type":["boolean","null"]}`, `it is a string, but a boolean or null is expected`},
		{`{"type":"null"}`, `{"type":["boolean","null"]}`, ``},
		{`{"type":"null"}`, flag, `it is null, but a boolean is expected`},
		{`{"type":["string","boolean"]}`, flag, ``},
		{`{"anyOf":[{"type":"string"},{"type":"object"}]}`, `{"oneOf":[{"type":"array"},{"type":"boolean"}]}`, `it is a string or an object, but a boolean or an array is expected`},
		{`{"allOf":[{"type":["string","boolean"]},{"type":["boolean","array"]}]}`, text, `it is a boolean, but a string is expected`},
		{`{"type":"array","items":` + text + `}`, `{"type":"array","items":` + flag + `}`, `as an item of the array, it is a string, but a boolean is expected`},
		{`{"type":"array","items":` + text + `}`, `{"type":"array","items":` + integer + `}`, ``},
		{`{"type":"array","items":` + text + `}`, `{"type":["array","object"]}`, ``},
		{`{"type":"array","items":` + text + `}`, `{"type":"array","anyOf":[{"items":` + flag + `},{"items":` + text + `}]}`, ``},
		{`{"type":"object","required":["x"],"properties":{"x":` + text + `}}`, `{"type":"object","properties":{"x":` + flag + `}}`, `in the field "x", it is a string, but a boolean is expected`},
		{`{"type":"object","properties":{"x":` + text + `}}`, `{"type":"object","properties":{"x":` + flag + `}}`, ``},
		{`{"type":"object","properties":{"x":` + text + `}}`, `{"type":"object","required":["x"],"properties":{"x":` + flag + `}}`, `in the field "x", it is a string, but a boolean is expected`},
		{`{"type":"object","properties":{"x":{}},"additionalProperties":false}`, `{"type":"object","required":["y"],"properties":{"y":{}}}`, `it has no field "y", which is required`},
		{`{"type":"object","properties":{"x":{}}}`, `{"type":"object","required":["y"],"properties":{"y":{}}}`, ``},
		{`{"type":"object","patternProperties":{"y":{}},"additionalProperties":false}`, `{"type":"object","required":["y"],"properties":{"y":{}}}`, ``},
		{`{"enum":["a","b"]}`, `{"enum":["b","c"]}`, ``},
		{`{"enum":["a","b"]}`, `{"enum":["c"]}`, `none of its possible values is accepted`},
		{`{"enum":["a","b"]}`, integer, `none of its possible values is accepted`},
		{`{"enum":["a","1"]}`, integer, ``},
		{`{"enum":[1,2]}`, `{"enum":[2.0]}`, ``},
		{`{"enum":[1,2]}`, `{"enum":["2"]}`, ``},
		{`{"enum":[1,2]}`, `{"enum":[3,"4"]}`, `none of its possible values is accepted`},
		{`{"const":{"a":[1]}}`, `{"anyOf":[{"properties":{"a":{"items":` + flag + `}}},{"properties":{"a":{"items":` + text + `}}}]}`, ``},
		{`{"const":{"a":[1]}}`, `{"const":{"a":[1]}}`, ``},
		{`{"type":"wrong"}`, flag, ``},
	} {
		_, got := joined(t, `{"properties":{"v":`+c.given+`}}`, "v", `{"properties":{"v":`+c.taken+`}}`, "v")
		want := ""
		if c.want != "" {
			want = `/dataConnections/0 TYPE_MISMATCH "a.v" does not fit into "b.v": ` + c.want + "; only integers and decimal strings are converted to each other, and numbers to strings\n"
		}
		if got != want {
			t.Errorf("%s into %s: %s, want %s", c.given, c.taken, got, want)
		}
	}
}

// Each line has a schema, a path in it, and the schema at the path.
func TestPathsAreFollowedInSchemas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, path, found string }{
		{``, "a.b", ``},
		{`true`, "a", ``},
		{`{"properties":{"a.b":{"type":"string"},"a":{"properties":{"b":{"type":"null"}}}}}`, "a.b", `{"type":"string"}`},
		{`{"properties":{"a":{"additionalProperties":{"type":"string"}}}}`, "a.any", `{"type":"string"}`},
		{`{"properties":{"a":{"patternProperties":{"^x":{"type":"string"}},"additionalProperties":false}}}`, "a.x", ``},
		{`{"properties":{"a":{}},"patternProperties":{"^x":{}}}`, "x", ``},
		{`{"properties":{"a":{}},"additionalProperties":{"type":"null"}}`, "x.y", `!"x" is null`},
		{`{"properties":{"a":{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"null"}}}}`, "a.0", `{"type":"string"}`},
		{`{"properties":{"a":{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"null"}}}}`, "a.1", `{"type":"null"}`},
		{`{"properties":{"a":{"type":"array"}}}`, "a.10000", `!"a" is an array`},
		{`{"properties":{"a":{"anyOf":[{"properties":{"b":{}}}],"additionalProperties":false}}}`, "a.b", ``},
		{`{"properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"properties":{"next":{"$ref":"#/$defs/n"},"old":{"$ref":"#/definitions/o"}}}},"definitions":{"o":{"type":"null"}}}`, "a.next.next.old",
			`{"$ref":"#/definitions/o"}`},
		{`{"properties":{` + strings.TrimSuffix(many(22), ",") + `}}`, "y", `!its inputs are n0, n1, n10, n11, n12, n13, n14, n15, n16, n17, n18, n19, n2, n20, n21, n3, n4, n5, n6, n7, ...`},
		{`{"properties":{"a b":{}}}`, strings.Repeat("\u00e9", 100), `!its inputs are "a b"`},
	} {
		plan, faults := joined(t, ``, "v", c.schema, c.path)
		found := ""
		if plan == nil {
			_, found, _ = strings.Cut(faults, `: `)
			found = "!" + strings.TrimSpace(found)
		} else {
			found = written(plan.Sources("b")[0].Schema)
		}
		if found != c.found {
			t.Errorf("%s at %s: %s, want %s", c.schema, c.path, found, c.found)
		}
		if strings.ContainsFunc(faults, func(r rune) bool { return r > 126 }) {
			t.Errorf("%s shows what is not ASCII", faults)
		}
	}
}

// written returns the text of a schema, or "" for a schema that allows any value.
func written(schema *jsonschema.Schema) string {
	if schema == nil || string(schema.Raw) == "true" {
		return ""
	}
	return string(schema.Raw)
}

func many(count int) string {
	var members strings.Builder
	for i := range count {
		fmt.Fprintf(&members, `"n%d":{},`, i)
	}
	return members.String()
}

// The first port of a module without the ports next, done, default and else is its default port.
func TestFirstPortIsTheDefault(t *testing.T) {
	t.Parallel()
	plan, faults := joined(t, ``, "v", ``, "v")
	if plan == nil {
		t.Fatal(faults)
	}
	if step := plan.Next("", map[string]graph.State{"a": {Status: "COMPLETED"}}); shown(step) != "ready b" {
		t.Error(shown(step))
	}
	if step := plan.Next("", map[string]graph.State{"a": {Status: "COMPLETED", Port: "odd"}}); shown(step) != "done" {
		t.Error(shown(step))
	}
}
