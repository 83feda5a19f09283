package component

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// The pointer to an invalid name must not depend on what the validator visits afterwards. Each case
// has values next to and after the name.
func TestInvalidNameHasItsPointer(t *testing.T) {
	const rule = `{"propertyNames":{"pattern":"^[a-z]+$"}}`
	for _, c := range []struct{ name, schema, data, want string }{
		{"at the root", rule, `{"a":{"B":1},"B":{"C":1}}`, "/B"},
		{"in a member", `{"properties":{"m":` + rule + `,"z":{"items":{"type":"integer"}}}}`, `{"m":{"A":1},"z":[1,2,3],"n":{"A":1}}`, "/m/A"},
		{"in members of two names", `{"properties":{"m":` + rule + `,"o":` + rule + `}}`, `{"m":{"A":1,"b":2},"o":{"A":1},"p":{"A":1}}`, "/m/A /o/A"},
		{"next to an object where the name is allowed", `{"properties":{"a":{"type":"object"},"b":{"properties":{"c":` + rule + `}}}}`, `{"a":{"c":{"A":1}},"b":{"c":{"A":1}}}`, "/b/c/A"},
		{"under the same name elsewhere", `{"properties":{"b":{"properties":{"c":` + rule + `}}}}`, `{"a":{"c":{"A":1}},"b":{"c":{"A":1}}}`, "/b/c/A"},
		{"in some items", `{"items":` + rule + `}`, `[{"A":1},{"a":1},{"A":1},[{"A":1}]]`, "/0/A /2/A"},
		{"in the first item only", `{"prefixItems":[` + rule + `]}`, `[{"A":1},{"A":1}]`, "/0/A"},
		{"in values without a name", `{"additionalProperties":` + rule + `,"properties":{"free":{}}}`, `{"x":{"A":1},"y":{"B":1},"free":{"C":1}}`, "/x/A /y/B"},
		{"in values by pattern", `{"patternProperties":{"^x":` + rule + `}}`, `{"xa":{"A":1},"ya":{"A":1}}`, "/xa/A"},
		{"behind a reference", `{"properties":{"m":{"$ref":"#/$defs/r"},"n":{"items":{"$ref":"#/$defs/r"}}},"$defs":{"r":` + rule + `}}`, `{"m":{"A":1},"n":[{},{"A":1}],"o":{"A":1}}`, "/m/A /n/1/A"},
		{"in all of several", `{"properties":{"m":{"allOf":[{"properties":{"a":{"type":"integer"}}},` + rule + `]}}}`, `{"m":{"a":1,"A":1}}`, "/m/A"},
		{"where a condition holds", `{"items":{"if":{"required":["k"]},"then":` + rule + `}}`, `[{"A":1},{"A":1,"k":1}]`, "/1/A"},
		{"where no name is allowed", `{"properties":{"m":{"propertyNames":false}}}`, `{"m":{"a":1}}`, "/m/a"},
		{"on two levels", `{"propertyNames":{"maxLength":1},"additionalProperties":` + rule + `}`, `{"aa":{"A":1},"b":{"B":1}}`, "/aa /aa/A /b/B"},
		{"by a property of that name", `{"properties":{"propertyNames":{"properties":{"m":` + rule + `}}}}`, `{"propertyNames":{"m":{"A":1}},"m":{"A":1}}`, "/propertyNames/m/A"},
		{"with signs of pointers", rule, `{"a/b":{"c":1},"~":{}}`, "/a~1b /~0"},
		{"deeper than the validator has room for at first", deep(rule, 12), deepValue(12), strings.Repeat("/d", 12) + "/A"},
	} {
		t.Run(c.name, func(t *testing.T) {
			schema, refused := NewSchema("", json.RawMessage(c.schema))
			if refused != nil {
				t.Fatal(refused)
			}
			var got []string
			for _, d := range schema.Check("", json.RawMessage(c.data)) {
				if !strings.HasPrefix(d.Message, "has a name that is not allowed") {
					t.Errorf("%s %s", d.Pointer, d.Message)
				}
				got = append(got, d.Pointer)
			}
			if want := strings.Fields(c.want); !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}

// A caller's schema is itself validated with a rule about names: a pattern must be valid.
func TestInvalidPatternHasItsPointer(t *testing.T) {
	for schema, want := range map[string]string{
		`{"patternProperties":{"(":{}}}`: "/s/patternProperties/(",
		`{"properties":{"patternProperties":{"const":{"(":1}}},"patternProperties":{"(":{}}}`:          "/s/patternProperties/(",
		`{"items":{"properties":{"m":{"patternProperties":{"(":{},"^a":{"items":{"items":{}}}}}}}}`:    "/s/items/properties/m/patternProperties/(",
		`{"default":{"patternProperties":{"(":{}}},"not":{"patternProperties":{"(":{}}},"items":true}`: "/s/not/patternProperties/(",
		`{"title":5}`:                         "/s/title",
		`{"properties":{"a":{"$comment":5}}}`: "/s/properties/a/$comment",
	} {
		_, details := NewSchema("/s", json.RawMessage(schema))
		if len(details) != 1 || details[0].Pointer != want {
			t.Errorf("%s: %v, want %s", schema, details, want)
		}
	}
}

func deep(schema string, levels int) string {
	for range levels {
		schema = `{"properties":{"d":` + schema + `,"e":{"items":{"type":"integer"}}}}`
	}
	return schema
}

func deepValue(levels int) string {
	value := `{"A":1}`
	for range levels {
		value = `{"d":` + value + `,"e":[1,2]}`
	}
	return value
}
