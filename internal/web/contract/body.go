package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// body describes the JSON object that an operation accepts.
type body struct {
	schema   *jsonschema.Compiled
	required bool // a missing body isn't the same as {}
}

func newBody(compiler *jsonschema.Compiler, pointer string) (*body, error) {
	schema, err := compiler.Compile(location + "#" + pointer)
	if err != nil {
		return nil, fmt.Errorf("compile request body: %w", err)
	}
	return &body{schema: schema}, nil
}

// nothing is the schema of an operation without a body: it knows no field.
var nothing = &jsonschema.Compiled{Properties: map[string]*jsonschema.Compiled{}}

// present follows the references of a schema. For a schema of a value or null, it returns the
// schema of the value. null reports whether there is such a choice.
func present(schema *jsonschema.Compiled) (_ *jsonschema.Compiled, null bool) {
	for {
		switch {
		case schema.Ref != nil:
			schema = schema.Ref
		case len(schema.OneOf) == 2 && slices.Equal(types(schema.OneOf[1]), []string{"null"}):
			schema, null = schema.OneOf[0], true
		default:
			return schema, null
		}
	}
}

// nullable reports whether a schema allows null.
func nullable(schema *jsonschema.Compiled) bool {
	schema, null := present(schema)
	return null || slices.Contains(types(schema), "null")
}

func types(schema *jsonschema.Compiled) []string {
	if schema.Types == nil {
		return nil
	}
	return schema.Types.ToStrings()
}

// isNumber reports whether a schema allows a number.
func isNumber(schema *jsonschema.Compiled) bool {
	return slices.ContainsFunc(types(schema), func(name string) bool { return name == "integer" || name == "number" })
}

// CheckBody checks a body that protocol.JSONObject returned, and returns it ready for binding:
// with known fields only, and with numbers as plain decimals. Unknown fields are added to
// ignored, or are faults if ignored is nil. All faults are returned in one INVALID_INPUT. With
// faults, CheckBody also returns the body, so that the caller can report further faults together,
// unless it could not read all of it. A raw body is returned unchanged.
func (o *Operation) CheckBody(data []byte, ignored *Ignored) ([]byte, error) {
	if o.Raw {
		return data, nil
	}
	if data = bytes.TrimSpace(data); len(data) == 0 || data[0] != '{' {
		return nil, fault.Invalid("", "the body must be a JSON object")
	}
	if o.body == nil && len(data) == len("{}") {
		return nil, nil
	}
	schema := nothing
	if o.body != nil {
		schema = o.body.schema
	}
	r := reading{ignored: ignored, removable: o.removable}
	r.bindable.Grow(len(data))
	instance, err := r.value(schema, data, nil)
	if err != nil {
		return nil, err
	}
	if o.body == nil {
		return nil, invalid(r.unknown)
	}
	faults := slices.Concat(r.faults, check(schema, instance), r.unknown)
	if r.cut {
		return nil, invalid(faults)
	}
	return r.bindable.Bytes(), invalid(faults)
}

// NeedsBody reports whether a request must have a body. For other operations, a missing body
// means {}.
func (o *Operation) NeedsBody() bool { return o.body != nil && o.body.required }

// reading reads a body once and produces the value to validate and the JSON to bind.
type reading struct {
	ignored   *Ignored // collects unknown fields; nil: they are faults
	removable []string // fields of the body that null removes
	faults    []fault.Detail
	unknown   []fault.Detail // unknown fields, if they are faults
	bindable  bytes.Buffer
	cut       bool // bindable lacks the items beyond the limit of an array
}

// addFault appends a fault, unless there are already more than an error can hold.
func addFault(faults *[]fault.Detail, at []string, message string) {
	if len(*faults) <= fault.MaxDetails {
		*faults = append(*faults, detail(at, message))
	}
}

// value reads one value. It writes the value to bindable, and returns the value to validate. It
// doesn't decode opaque objects such as input, because others check them and they may be large.
func (r *reading) value(schema *jsonschema.Compiled, raw json.RawMessage, at []string) (any, error) {
	schema, _ = present(schema)
	switch {
	case schema.Properties != nil && raw[0] == '{':
		return r.object(schema, raw, at)
	case schema.AdditionalProperties == true && raw[0] == '{':
		r.bindable.Write(raw)
		return map[string]any{}, nil
	case schema.Items2020 != nil && raw[0] == '[':
		return r.array(schema, raw, at)
	}
	value, err := decode(raw)
	if err != nil {
		return nil, fault.Invalid(detail(at, "").Pointer, "is not valid JSON")
	}
	if _, number := value.(json.Number); !number || !isNumber(schema) {
		r.bindable.Write(raw)
		return value, nil
	}
	text, _ := jsonschema.Decimal(string(raw))
	if text == "" {
		addFault(&r.faults, at, "is out of range")
		text = "0"
	}
	r.bindable.WriteString(text)
	return json.Number(text), nil
}

// decode is strictjson.Decode for valid JSON. It needs no decoder for strings and numbers.
func decode(raw json.RawMessage) (any, error) {
	switch c := raw[0]; {
	case c == '"':
		var text string
		err := json.Unmarshal(raw, &text)
		return text, err
	case c == '-' || '0' <= c && c <= '9':
		return json.Number(raw), nil
	}
	return strictjson.Decode(raw)
}

// object reads the known fields and drops the other fields. Otherwise unknown fields could bypass
// the schema: decoding into a Go struct ignores case, so MODULE would overwrite module.
func (r *reading) object(schema *jsonschema.Compiled, raw json.RawMessage, at []string) (any, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, fault.Invalid(detail(at, "").Pointer, "is not valid JSON")
	}
	instance, written := make(map[string]any, len(members)), false
	r.bindable.WriteByte('{')
	for _, name := range slices.Sorted(maps.Keys(members)) {
		inside := append(slices.Clip(at), name)
		known, ok := schema.Properties[name]
		if !ok {
			if r.ignored == nil {
				addFault(&r.unknown, inside, "is not a known field")
			} else {
				r.ignored.field(inside)
			}
			continue
		}
		removes := len(at) == 0 && slices.Contains(r.removable, name)
		if string(members[name]) == "null" && nullable(known) && !removes { // the same as a missing field
			continue
		}
		start := r.bindable.Len()
		if written {
			r.bindable.WriteByte(',')
		}
		r.bindable.WriteString(`"` + name + `":`) // known names are letters only
		value, err := r.value(known, members[name], inside)
		if err != nil {
			return nil, err
		}
		instance[name] = value
		if !fits(known, members[name]) { // a fault: the other fields can be bound without it
			r.bindable.Truncate(start)
			continue
		}
		written = true
	}
	r.bindable.WriteByte('}')
	return instance, nil
}

func (r *reading) array(schema *jsonschema.Compiled, raw json.RawMessage, at []string) (any, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, fault.Invalid(detail(at, "").Pointer, "is not valid JSON")
	}
	if most := schema.MaxItems; most != nil && len(items) > *most { // the other items aren't read
		addFault(&r.faults, at, "must have at most "+fault.Count(*most, "item"))
		items, r.cut = items[:*most], true
	}
	instance := make([]any, len(items))
	r.bindable.WriteByte('[')
	for i, item := range items {
		if i > 0 {
			r.bindable.WriteByte(',')
		}
		value, err := r.value(schema.Items2020, item, append(slices.Clip(at), fmt.Sprint(i)))
		if err != nil {
			return nil, err
		}
		instance[i] = value
	}
	r.bindable.WriteByte(']')
	return instance, nil
}
