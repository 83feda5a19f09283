package catalog

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
)

// FormatBigint is the format of integers of any size. The dialect has the type bigint for a schema
// with this format and the type string, or string and integer. A string whose pattern allows
// exactly the decimal integers also has the type bigint. A module that uses the format should also
// check it, in its Formats.
const FormatBigint = "bigint"

func systemComponents(modules []component.Descriptor) ([]api.SystemComponent, error) {
	all := make([]api.SystemComponent, len(modules))
	for i, d := range modules {
		var err error
		if all[i], err = systemComponent(d); err != nil {
			return nil, fmt.Errorf("describe %s: %w", d.Module, err)
		}
	}
	return all, nil
}

func systemComponent(d component.Descriptor) (api.SystemComponent, error) {
	var parts [3]*jsonschema.Schema
	for i, raw := range []json.RawMessage{d.Input, d.Config, d.Output} {
		var err error
		if parts[i], err = jsonschema.Parse(raw); err != nil {
			return api.SystemComponent{}, err
		}
	}
	input, config, output := parts[0], parts[1], parts[2]
	c := api.SystemComponent{
		Name: d.Title, Module: d.Module, Type: d.Category, ExecutionModes: modes(d.Modes),
		Inputs:  api.SystemComponentInputs{Parameters: []api.SystemComponentParameter{}},
		Outputs: api.SystemComponentOutputs{Response: []api.SystemComponentResponse{}},
		Configs: api.SystemComponentConfigs{
			Type: api.SystemComponentConfigsTypeObject, Properties: dialects(config), Required: required(config),
		},
	}
	for _, name := range input.Names() {
		property, _ := input.Property(name)
		parameter := api.SystemComponentParameter{Name: name, Required: slices.Contains(input.Required, name), JSONSchema: object(property)}
		if parameter.Required { // generators treat a field without a type as optional
			parameter.Schema = requiredDialect(property)
		}
		c.Inputs.Parameters = append(c.Inputs.Parameters, parameter)
	}
	for _, name := range output.Names() {
		property, _ := output.Property(name)
		c.Outputs.Response = append(c.Outputs.Response, api.SystemComponentResponse{
			Name: name, Schema: dialect(property), Required: slices.Contains(output.Required, name),
		})
	}
	return c, nil
}

// object returns the schema as an object: {} instead of true.
func object(s *jsonschema.Schema) json.RawMessage {
	if string(s.Raw) == "true" {
		return json.RawMessage("{}")
	}
	return s.Raw
}

// dialect returns the schema in the small dialect. It omits everything that the dialect cannot
// express. A schema without a type means "any value".
func dialect(s *jsonschema.Schema) api.DialectSchema {
	var out api.DialectSchema
	kind, ok := dialectType(s)
	if ok {
		out.Type = &kind
	}
	for _, value := range s.Values() {
		out.Enum = append(out.Enum, value)
	}
	if (ok || out.Enum != nil) && nullable(s) {
		out.Nullable = new(true)
	}
	if s.Items != nil && kind == api.DialectTypeArray {
		out.Items = new(dialect(s.Items))
	}
	if len(s.Properties) > 0 && kind == api.DialectTypeObject {
		out.Properties = dialects(s)
		out.Required = required(s)
	}
	return out
}

// requiredDialect returns the schema of a required input in the small dialect. If the input allows
// several types, the result has the first type, because generators treat an input without a type as
// optional. If the input allows any value, the type is object.
func requiredDialect(s *jsonschema.Schema) api.DialectSchema {
	out := dialect(s)
	if len(s.Types) == 0 && len(s.Alternatives()) == 0 && s.Values() == nil {
		out.Type = new(api.DialectTypeObject)
		return out
	}
	first := slices.IndexFunc(s.Types, func(name string) bool { return name != "null" })
	if out.Type != nil || first < 0 {
		return out
	}
	narrow := *s
	narrow.Types = slices.DeleteFunc(slices.Clone(s.Types), func(name string) bool { return name != "null" && name != s.Types[first] })
	out = dialect(&narrow)
	if *out.Type == api.DialectTypeArray && out.Items == nil {
		out.Items = &api.DialectSchema{} // generators read the items of every array
	}
	return out
}

func dialects(s *jsonschema.Schema) map[string]api.DialectSchema {
	members := make(map[string]api.DialectSchema, len(s.Properties))
	for _, p := range s.Properties {
		members[p.Name] = dialect(p.Schema)
	}
	return members
}

func required(s *jsonschema.Schema) []string {
	if s.Required == nil {
		return []string{}
	}
	return s.Required
}

// nullable reports whether the schema restricts its values and allows null.
func nullable(s *jsonschema.Schema) bool {
	if only := s.Values(); only != nil && !slices.ContainsFunc(only, func(value json.RawMessage) bool { return string(value) == "null" }) {
		return false
	}
	if len(s.Types) > 0 {
		return slices.Contains(s.Types, "null")
	}
	branches := s.Alternatives()
	return len(branches) == 0 && s.Values() != nil || slices.ContainsFunc(branches, nullable)
}

// dialectType returns the type of the dialect that fits all values of the schema. It returns false
// if no type does.
func dialectType(s *jsonschema.Schema) (api.DialectType, bool) {
	names := slices.DeleteFunc(slices.Clone(s.Types), func(name string) bool { return name == "null" })
	if (s.Format == FormatBigint || decimal(s)) && slices.Contains(names, "string") && !slices.ContainsFunc(names, func(name string) bool { return name != "string" && name != "integer" }) {
		return api.DialectTypeBigint, true
	}
	if len(names) == 1 {
		if names[0] == "integer" {
			return api.DialectTypeNumber, true
		}
		return api.DialectType(names[0]), true
	}
	var common api.DialectType
	for _, branch := range s.Alternatives() {
		if slices.Equal(branch.Types, []string{"null"}) {
			continue
		}
		kind, ok := dialectType(branch)
		if !ok || common != "" && kind != common {
			return "", false
		}
		common = kind
	}
	return common, common != ""
}

// decimal reports whether the pattern of a string allows integers of any size and nothing else.
// Such a string has the type bigint in the dialect. It tests the pattern with samples.
func decimal(s *jsonschema.Schema) bool {
	pattern, err := regexp.Compile(s.Pattern)
	if s.Pattern == "" || err != nil || len(s.Enum) > 0 {
		return false
	}
	for _, no := range []string{"", "a", "1a", "0x1f", "1.5", "1e3", " 1", "+1"} {
		if pattern.MatchString(no) {
			return false
		}
	}
	return pattern.MatchString("1157920892373161954235709850086879078532699")
}
