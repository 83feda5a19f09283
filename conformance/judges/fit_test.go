package judges

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/gen/api"
)

// fit is the document in the form that Specmatic can be given: the edition in OpenAPI 3.0,
// less what exclusions.yaml spares it, with ids of what there is on the deployment. It gives
// the names of members and parameters whose values it narrowed.
func fit(t *testing.T, spared exclusions, s scene) (document []byte, narrowed []string) {
	t.Helper()
	var doc object
	if err := json.Unmarshal(api.Spec30JSON(), &doc); err != nil {
		t.Fatal(err)
	}
	components := doc["components"].(object)
	simplify(doc)
	delete(components["securitySchemes"].(object), "SessionCookie") // the tool knows no cookies; the token is the same
	schemas := components["schemas"].(object)
	schemas["DialectSchema"] = object{"type": "object"} // it refers to itself, which the tool follows to the end of its stack
	for _, v := range spared.Values {
		narrowed = append(narrowed, v.place(t, schemas, s.names))
	}
	for path, item := range doc["paths"].(object) {
		operations := item.(object)
		for method, o := range operations {
			operation := o.(object)
			id := operation["operationId"].(string)
			if slices.ContainsFunc(spared.Operations, func(e excludedOperation) bool { return e.Operation == id }) {
				delete(operations, method)
				continue
			}
			delete(operation, "callbacks")
			operation["parameters"] = s.parameters(components, operation, id, spared)
			for _, answer := range operation["responses"].(object) {
				if content, ok := answer.(object)["content"].(object); ok && len(content) > 1 {
					delete(content, "text/csv") // the tool reads the first type of an answer as JSON
				}
			}
		}
		if len(operations) == 0 {
			delete(doc["paths"].(object), path)
		}
	}
	for name := range s.path {
		narrowed = append(narrowed, name)
	}
	document, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return document, append(narrowed, "version")
}

// place writes a value's schema into the document and gives the name of its member.
func (v excludedValue) place(t *testing.T, schemas object, names map[string]string) string {
	t.Helper()
	name, member, inside := strings.Cut(v.At, "/")
	text := string(v.Schema)
	for from, into := range names {
		quoted, _ := json.Marshal(into)
		text = strings.ReplaceAll(text, `"`+from+`"`, string(quoted))
	}
	var schema any
	if text != "" {
		if err := json.Unmarshal([]byte(text), &schema); err != nil {
			t.Fatalf("%s: %v", v.At, err)
		}
	}
	if _, there := schemas[name]; !there {
		t.Fatalf("there is no schema %s", name)
	}
	if !inside {
		schemas[name] = schema
		return name
	}
	target := schemas[name].(object)
	if member != "required" {
		target = target["properties"].(object)
		if _, there := target[member]; !there {
			t.Fatalf("there is no %s", v.At)
		}
	}
	if target[member] = schema; text == "" {
		delete(target, member)
	}
	return member
}

// parameters are those of an operation that the tool is to send, with values that mean
// something.
func (s scene) parameters(components, operation object, id string, spared exclusions) []any {
	var kept []any
	list, _ := operation["parameters"].([]any)
	for _, each := range list {
		parameter := each.(object)
		if reference, ok := parameter["$ref"].(string); ok {
			parameter = components["parameters"].(object)[reference[strings.LastIndex(reference, "/")+1:]].(object)
		}
		name := parameter["name"].(string)
		if slices.ContainsFunc(spared.Parameters, func(e excludedParameter) bool { return e.Parameter == name }) {
			continue
		}
		own := object{}
		for member, value := range parameter {
			own[member] = value
		}
		value, pinned := s.own[id][name]
		if !pinned {
			value, pinned = s.path[name]
		}
		switch {
		case pinned:
			own["schema"] = object{"type": "string", "enum": []string{value}}
		case name == "version":
			own["schema"] = object{"type": "integer", "enum": []int{1}}
		}
		kept = append(kept, own)
	}
	return kept
}

// simplify takes out what the tool trips over: examples, which the linter judges and the tool
// would send; patterns with quotation marks or a slash in front, which it takes for
// delimiters; null beside no type, by which it takes nothing else; the cookie of a session.
func simplify(value any) {
	switch value := value.(type) {
	case object:
		simplifySchema(value)
		for name, below := range value {
			if properties, ok := below.(object); ok && name == "properties" {
				for _, property := range properties {
					simplify(property)
				}
				continue
			}
			simplify(below)
		}
	case []any:
		for _, below := range value {
			simplify(below)
		}
	}
}

func simplifySchema(value object) {
	if pattern, ok := value["pattern"].(string); ok && (strings.Contains(pattern, `"`) || strings.HasPrefix(pattern, "^/")) {
		delete(value, "pattern")
	}
	typed := slices.ContainsFunc([]string{"type", "$ref", "allOf", "oneOf", "anyOf", "enum"}, func(name string) bool { return value[name] != nil })
	if value["nullable"] == true && !typed {
		delete(value, "nullable")
	}
	delete(value, "example")
	delete(value, "examples")
	if alternatives, ok := value["security"].([]any); ok {
		value["security"] = slices.DeleteFunc(alternatives, func(each any) bool { return each.(object)["SessionCookie"] != nil })
	}
}
