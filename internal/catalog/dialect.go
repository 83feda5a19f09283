package catalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
)

// FormatBigint marks a schema whose values are integers of any size: in a schema of
// type string, or of string and integer, `"format": "bigint"` makes the dialect say
// bigint. A pattern that lets decimal integers of any size pass and nothing else says
// the same without the mark, for type string. A module that uses the format also
// checks it, by its Formats; without that it is a mark only.
const FormatBigint = "bigint"

// schema is the part of JSON Schema that the dialect can tell.
type schema struct {
	Type       typeNames         `json:"type"`
	Format     string            `json:"format"`
	Enum       []any             `json:"enum"`
	Const      any               `json:"const"`
	Pattern    string            `json:"pattern"`
	Items      *schema           `json:"items"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	AnyOf      []schema          `json:"anyOf"`
	OneOf      []schema          `json:"oneOf"`
}

// UnmarshalJSON reads a boolean schema as one that says nothing.
func (s *schema) UnmarshalJSON(data []byte) error {
	type plain schema
	if string(data) == "true" || string(data) == "false" {
		return nil
	}
	return json.Unmarshal(data, (*plain)(s))
}

// typeNames is `type`: one name or several.
type typeNames []string

// UnmarshalJSON reads both forms.
func (t *typeNames) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]string)(t))
	}
	*t = make(typeNames, 1)
	return json.Unmarshal(data, &(*t)[0])
}

func systemComponent(d component.Descriptor) (api.SystemComponent, error) {
	var input, config, output schema
	for _, part := range []struct {
		raw json.RawMessage
		to  *schema
	}{{d.Input, &input}, {d.Config, &config}, {d.Output, &output}} {
		if err := json.Unmarshal(part.raw, part.to); err != nil {
			return api.SystemComponent{}, fmt.Errorf("read schema: %w", err)
		}
	}
	c := api.SystemComponent{
		Name: d.Title, Module: d.Module, Type: d.Category, ExecutionModes: modes(d.Modes),
		Inputs:  api.SystemComponentInputs{Parameters: []api.SystemComponentParameter{}},
		Outputs: api.SystemComponentOutputs{Response: []api.SystemComponentResponse{}},
		Configs: api.SystemComponentConfigs{
			Type: api.SystemComponentConfigsTypeObject, Properties: config.members(), Required: config.required(),
		},
	}
	for _, name := range slices.Sorted(maps.Keys(input.Properties)) {
		c.Inputs.Parameters = append(c.Inputs.Parameters, api.SystemComponentParameter{
			Name: name, Schema: input.Properties[name].dialect(), Required: slices.Contains(input.Required, name),
		})
	}
	for _, name := range slices.Sorted(maps.Keys(output.Properties)) {
		c.Outputs.Response = append(c.Outputs.Response, api.SystemComponentResponse{
			Name: name, Schema: output.Properties[name].dialect(),
		})
	}
	return c, nil
}

// dialect is the schema in the small dialect; what that cannot tell is left
// out, which means "any value".
func (s schema) dialect() api.DialectSchema {
	var out api.DialectSchema
	kind, ok := s.kind()
	if ok {
		out.Type = &kind
	}
	out.Enum = s.Enum
	if s.Const != nil {
		out.Enum = []any{s.Const}
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

func (s schema) members() map[string]api.DialectSchema {
	members := make(map[string]api.DialectSchema, len(s.Properties))
	for name, property := range s.Properties {
		members[name] = property.dialect()
	}
	return members
}

func (s schema) required() []string {
	if s.Required == nil {
		return []string{}
	}
	return s.Required
}

// kind is the one type of the dialect that fits all values of the schema.
func (s schema) kind() (api.DialectType, bool) {
	names := slices.DeleteFunc(slices.Clone(s.Type), func(name string) bool { return name == "null" })
	if s.Format == FormatBigint && slices.Contains(names, "string") && !slices.ContainsFunc(names, func(name string) bool { return name != "string" && name != "integer" }) {
		return api.DialectTypeBigint, true
	}
	if len(names) == 1 {
		switch names[0] {
		case "integer", "number":
			return api.DialectTypeNumber, true
		case "string":
			if s.decimal() {
				return api.DialectTypeBigint, true
			}
		}
		return api.DialectType(names[0]), true
	}
	var common api.DialectType
	for _, branch := range slices.Concat(s.AnyOf, s.OneOf) {
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
