package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// schema is the part of JSON Schema that the catalogue tells, to people and in the
// dialect.
type schema struct {
	Type                 typeNames         `json:"type"`
	Description          string            `json:"description"`
	Format               string            `json:"format"`
	Pattern              string            `json:"pattern"`
	Default              json.RawMessage   `json:"default"`
	Const                json.RawMessage   `json:"const"`
	Enum                 []json.RawMessage `json:"enum"`
	Examples             []json.RawMessage `json:"examples"`
	Minimum              json.Number       `json:"minimum"`
	Maximum              json.Number       `json:"maximum"`
	ExclusiveMinimum     json.Number       `json:"exclusiveMinimum"`
	ExclusiveMaximum     json.Number       `json:"exclusiveMaximum"`
	MinLength            json.Number       `json:"minLength"`
	MaxLength            json.Number       `json:"maxLength"`
	MinItems             json.Number       `json:"minItems"`
	MaxItems             json.Number       `json:"maxItems"`
	MinProperties        json.Number       `json:"minProperties"`
	MaxProperties        json.Number       `json:"maxProperties"`
	Items                *schema           `json:"items"`
	Properties           properties        `json:"properties"`
	PatternProperties    properties        `json:"patternProperties"`
	AdditionalProperties *schema           `json:"additionalProperties"`
	Required             []string          `json:"required"`
	AnyOf                []schema          `json:"anyOf"`
	OneOf                []schema          `json:"oneOf"`
	Secret               bool              `json:"x-secret"`

	never bool // the schema false: no value at all
}

func readSchema(raw json.RawMessage) (schema, error) {
	var s schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, fmt.Errorf("read schema: %w", err)
	}
	return s, nil
}

// UnmarshalJSON reads the schemas true and false too.
func (s *schema) UnmarshalJSON(data []byte) error {
	type plain schema
	switch string(data) {
	case "true":
		return nil
	case "false":
		s.never = true
		return nil
	}
	return json.Unmarshal(data, (*plain)(s))
}

// branches are the schemas of which a value has to fit one.
func (s schema) branches() []schema { return slices.Concat(s.AnyOf, s.OneOf) }

// only are the values that are allowed; none: any.
func (s schema) only() []json.RawMessage {
	if s.Const != nil {
		return []json.RawMessage{s.Const}
	}
	return s.Enum
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

// properties are named schemas in the order in which they are written.
type properties []property

type property struct {
	name   string
	schema schema
	raw    json.RawMessage // the schema as it is written
}

// UnmarshalJSON reads an object without losing its order.
func (p *properties) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') {
		return fmt.Errorf("properties are not an object: %w", err)
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		one := property{name: fmt.Sprint(name)}
		if err := decoder.Decode(&one.raw); err != nil {
			return err
		}
		if err := json.Unmarshal(one.raw, &one.schema); err != nil {
			return err
		}
		*p = append(*p, one)
	}
	return nil
}
