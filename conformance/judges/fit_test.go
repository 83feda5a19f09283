package judges

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/gen/api"
)

// fitting creates the document for Specmatic: the OpenAPI 3.0 edition with the exclusions of
// exclusions.yaml applied.
type fitting struct {
	doc    object
	spared exclusions
	names  map[string]string // values of $names in exclusions.yaml; nil: names are not replaced
	used   map[string]bool   // "KIND NAME" of exclusions that had an effect
}

// fit returns the document, and the exclusions that have no effect on it.
func fit(spared exclusions, names map[string]string) (document []byte, idle []string, err error) {
	f := fitting{spared: spared, names: names, used: map[string]bool{}}
	if err := json.Unmarshal(api.Spec30JSON(), &f.doc); err != nil {
		return nil, nil, err
	}
	f.strip(f.doc)
	components := f.doc["components"].(object)
	f.drop(components["securitySchemes"].(object), "security")
	for _, e := range spared["headers"] {
		if err := f.replace(e, "headers", components["headers"].(object)[e.Name], "schema"); err != nil {
			return nil, nil, err
		}
	}
	for _, e := range spared["schemas"] {
		if err := f.schema(e, components["schemas"].(object)); err != nil {
			return nil, nil, err
		}
	}
	for path, item := range f.doc["paths"].(object) {
		for method, o := range item.(object) {
			if id := o.(object)["operationId"].(string); spared.spare("operations", id) {
				f.used["operations "+id] = true
				delete(item.(object), method)
			} else if err := f.operation(o.(object), components["parameters"].(object)); err != nil {
				return nil, nil, err
			}
		}
		if len(item.(object)) == 0 {
			delete(f.doc["paths"].(object), path)
		}
	}
	delete(components, "parameters") // the operations now contain the parameters
	for _, kind := range kinds {
		for _, e := range spared[kind] {
			if kind != "steps" && kind != "forgiven" && !f.used[kind+" "+e.Name] {
				idle = append(idle, kind+" "+e.Name)
			}
		}
	}
	document, err = json.Marshal(f.doc)
	return document, idle, err
}

// strip removes keywords wherever they are used as keywords.
func (f *fitting) strip(value any) {
	switch value := value.(type) {
	case object:
		f.drop(value, "keywords")
		for name, below := range value {
			if properties, ok := below.(object); ok && name == "properties" {
				for _, property := range properties {
					f.strip(property)
				}
				continue
			}
			f.strip(below)
		}
	case []any:
		for _, below := range value {
			f.strip(below)
		}
	}
}

// drop removes the fields that an exclusion of a kind names.
func (f *fitting) drop(from object, kind string) {
	for _, e := range f.spared[kind] {
		if _, there := from[e.Name]; there {
			delete(from, e.Name)
			f.used[kind+" "+e.Name] = true
		}
	}
}

// operation applies the exclusions to one operation, and inlines its parameters.
func (f *fitting) operation(operation, components object) error {
	if alternatives, ok := operation["security"].([]any); ok {
		operation["security"] = slices.DeleteFunc(alternatives, func(each any) bool {
			return slices.ContainsFunc(f.spared["security"], func(e exclusion) bool { return each.(object)[e.Name] != nil })
		})
	}
	responses := operation["responses"].(object)
	for _, e := range f.spared["answers"] {
		if e.Name == operation["operationId"] {
			for _, media := range responses["200"].(object)["content"].(object) {
				if err := f.replace(e, "answers", media, "schema"); err != nil {
					return err
				}
			}
		}
	}
	for _, answer := range responses {
		if content, ok := answer.(object)["content"].(object); ok && len(content) > 1 {
			f.drop(content, "media")
		}
	}
	var kept []any
	list, _ := operation["parameters"].([]any)
	for _, each := range list {
		parameter := each.(object)
		if reference, ok := parameter["$ref"].(string); ok {
			parameter = components[reference[strings.LastIndex(reference, "/")+1:]].(object)
		}
		name := parameter["name"].(string)
		if f.spared.spare("parameters", name) {
			f.used["parameters "+name] = true
			continue
		}
		for _, e := range f.spared["pinned"] {
			if e.Name == name {
				if err := f.replace(e, "pinned", parameter, "schema"); err != nil {
					return err
				}
			}
		}
		kept = append(kept, parameter)
	}
	if delete(operation, "parameters"); len(kept) > 0 {
		operation["parameters"] = kept
	}
	return nil
}

// schema replaces a schema of the document, or a field of one.
func (f *fitting) schema(e exclusion, schemas object) error {
	name, member, inside := strings.Cut(e.Name, "/")
	if !inside {
		return f.replace(e, "schemas", schemas, name)
	}
	schema, _ := schemas[name].(object)
	if member == "required" {
		return f.replace(e, "schemas", schema, member)
	}
	properties, _ := schema["properties"].(object)
	return f.replace(e, "schemas", properties, member)
}

var dollar = regexp.MustCompile(`"\$\w+"`)

// replace replaces an existing field with the schema of an exclusion, or removes the field if
// the exclusion has no schema.
func (f *fitting) replace(e exclusion, kind string, in any, member string) error {
	target, _ := in.(object)
	if _, there := target[member]; !there {
		return fmt.Errorf("%s of %s: the field does not exist", kind, e.Name)
	}
	f.used[kind+" "+e.Name] = true
	if e.Schema == nil {
		delete(target, member)
		return nil
	}
	var unnamed string
	text := dollar.ReplaceAllStringFunc(string(e.Schema), func(quoted string) string {
		given, there := f.names[strings.Trim(quoted, `"`)]
		if !there {
			unnamed = quoted
			return quoted
		}
		value, _ := json.Marshal(given)
		return string(value)
	})
	if unnamed != "" && f.names != nil {
		return fmt.Errorf("%s of %s: unknown name %s", kind, e.Name, unnamed)
	}
	var schema any
	if err := json.Unmarshal([]byte(text), &schema); err != nil {
		return fmt.Errorf("%s of %s: %w", kind, e.Name, err)
	}
	target[member] = schema
	return nil
}

func TestEachExclusionSparesSomething(t *testing.T) {
	_, idle, err := fit(readExclusions(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range idle {
		t.Errorf("exclusions.yaml: %s has no effect", e)
	}
}
