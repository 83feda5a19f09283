package catalog

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
)

// FormatBigint marks a schema whose values are integers of any size: in a schema of
// type string, or of string and integer, `"format": "bigint"` makes the dialect say
// bigint. A pattern that lets decimal integers of any size pass and nothing else says
// the same without the mark. A module that uses the format also
// checks it, by its Formats; without that it is a mark only.
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
	var parts [3]schema
	for i, raw := range []json.RawMessage{d.Input, d.Config, d.Output} {
		var err error
		if parts[i], err = readSchema(raw); err != nil {
			return api.SystemComponent{}, err
		}
	}
	input, config, output := parts[0], parts[1], parts[2]
	c := api.SystemComponent{
		Name: d.Title, Module: d.Module, Type: d.Category, ExecutionModes: modes(d.Modes),
		Inputs:  api.SystemComponentInputs{Parameters: []api.SystemComponentParameter{}},
		Outputs: api.SystemComponentOutputs{Response: []api.SystemComponentResponse{}},
		Configs: api.SystemComponentConfigs{
			Type: api.SystemComponentConfigsTypeObject, Properties: config.members(), Required: config.required(),
		},
	}
	for _, p := range input.Properties.byName() {
		parameter := api.SystemComponentParameter{Name: p.name, Required: slices.Contains(input.Required, p.name), JSONSchema: p.object()}
		if parameter.Required { // generators make a field optional if its schema has no type
			parameter.Schema = p.schema.requiredDialect()
		}
		c.Inputs.Parameters = append(c.Inputs.Parameters, parameter)
	}
	for _, p := range output.Properties.byName() {
		c.Outputs.Response = append(c.Outputs.Response, api.SystemComponentResponse{
			Name: p.name, Schema: p.schema.dialect(), Required: slices.Contains(output.Required, p.name),
		})
	}
	return c, nil
}

// object is the schema as an object: {} instead of true.
func (p property) object() json.RawMessage {
	if string(p.raw) == "true" {
		return json.RawMessage("{}")
	}
	return p.raw
}

func (p properties) byName() properties {
	return slices.SortedFunc(slices.Values(p), func(a, b property) int { return strings.Compare(a.name, b.name) })
}

// dialect is the schema in the small dialect; what that cannot tell is left
// out, which means "any value".
func (s schema) dialect() api.DialectSchema {
	var out api.DialectSchema
	kind, ok := s.kind()
	if ok {
		out.Type = &kind
	}
	for _, value := range s.only() {
		out.Enum = append(out.Enum, value)
	}
	if (ok || out.Enum != nil) && s.nullable() {
		out.Nullable = new(true)
	}
	if s.Items != nil && kind == api.DialectTypeArray {
		out.Items = new(s.Items.dialect())
	}
	if len(s.Properties) > 0 && kind == api.DialectTypeObject {
		out.Properties = s.members()
		out.Required = s.required()
	}
	return out
}

// requiredDialect returns the schema of a required input in the small dialect. If the input
// allows several types, the result has the first one, because generators make an input without
// a type optional. The type of an input that allows any value is object.
func (s schema) requiredDialect() api.DialectSchema {
	out := s.dialect()
	if len(s.Type) == 0 && len(s.branches()) == 0 && s.only() == nil {
		out.Type = new(api.DialectTypeObject)
		return out
	}
	first := slices.IndexFunc(s.Type, func(name string) bool { return name != "null" })
	if out.Type != nil || first < 0 {
		return out
	}
	s.Type = slices.DeleteFunc(slices.Clone(s.Type), func(name string) bool { return name != "null" && name != s.Type[first] })
	out = s.dialect()
	if *out.Type == api.DialectTypeArray && out.Items == nil {
		out.Items = &api.DialectSchema{} // generators read the items of every array
	}
	return out
}

func (s schema) members() map[string]api.DialectSchema {
	members := make(map[string]api.DialectSchema, len(s.Properties))
	for _, p := range s.Properties {
		members[p.name] = p.schema.dialect()
	}
	return members
}

func (s schema) required() []string {
	if s.Required == nil {
		return []string{}
	}
	return s.Required
}

// nullable reports whether null is among the values of a schema that says what they are.
func (s schema) nullable() bool {
	if only := s.only(); only != nil && !slices.ContainsFunc(only, func(value json.RawMessage) bool { return string(value) == "null" }) {
		return false
	}
	if len(s.Type) > 0 {
		return slices.Contains(s.Type, "null")
	}
	branches := s.branches()
	return len(branches) == 0 && s.only() != nil || slices.ContainsFunc(branches, schema.nullable)
}

// kind is the one type of the dialect that fits all values of the schema.
func (s schema) kind() (api.DialectType, bool) {
	names := slices.DeleteFunc(slices.Clone(s.Type), func(name string) bool { return name == "null" })
	if (s.Format == FormatBigint || s.decimal()) && slices.Contains(names, "string") && !slices.ContainsFunc(names, func(name string) bool { return name != "string" && name != "integer" }) {
		return api.DialectTypeBigint, true
	}
	if len(names) == 1 {
		if names[0] == "integer" {
			return api.DialectTypeNumber, true
		}
		return api.DialectType(names[0]), true
	}
	var common api.DialectType
	for _, branch := range s.branches() {
		if slices.Equal(branch.Type, typeNames{"null"}) {
			continue
		}
		kind, ok := branch.kind()
		if !ok || common != "" && kind != common {
			return "", false
		}
		common = kind
	}
	return common, common != ""
}

// decimal reports whether the pattern of a string allows integers of any size
// and nothing else: such a string is the dialect's bigint.
func (s schema) decimal() bool {
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
