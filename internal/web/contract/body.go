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

// body is the JSON object that an operation takes.
type body struct {
	schema   *jsonschema.Compiled
	required bool // {} is not what a request without one means
}

func newBody(compiler *jsonschema.Compiler, pointer string) (*body, error) {
	schema, err := compiler.Compile(location + "#" + pointer)
	if err != nil {
		return nil, fmt.Errorf("compile request body: %w", err)
	}
	return &body{schema: schema}, nil
}

// nothing is the schema of an object without any known field.
var nothing = &jsonschema.Compiled{Properties: map[string]*jsonschema.Compiled{}}

// present follows the references of a schema, and goes from the schema of a value or null to
// that of the value. null reports whether the value may be null.
func present(schema *jsonschema.Compiled) (_ *jsonschema.Compiled, null bool) {
	for {
		switch {
		case schema.Ref != nil:
			schema = schema.Ref
		case len(schema.OneOf) == 2 && slices.Equal(types(schema.OneOf[1]), []string{"null"}):
			schema, null = schema.OneOf[0], true
		default:
			return schema, null || slices.Contains(types(schema), "null")
		}
	}
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

// CheckBody checks a body, which must be a JSON object that passed the JSON
// gate, and returns it fit for binding: only members that the contract knows,
// numbers written out. Unknown members are added to ignored, or are faults if that is nil.
// All faults come in one INVALID_INPUT. Where there are no others than unknown members, the
// body is returned beside it, for who has more to tell of what is wrong with the rest. A body
// of any form is returned as it is.
func (o *Operation) CheckBody(data []byte, ignored *Ignored) ([]byte, error) {
	if o.Raw {
		return data, nil
	}
	if data = bytes.TrimSpace(data); len(data) == 0 || data[0] != '{' {
		return nil, fault.Invalid("", "the body must be a JSON object")
	}
	schema := nothing
	if o.body != nil {
		schema = o.body.schema
	}
	r := reading{ignored: ignored}
	instance, err := r.value(schema, data, nil)
	if err != nil {
		return nil, err
	}
	if o.body == nil {
		return nil, invalid(r.unknown)
	}
	if faults := append(r.faults, check(schema, instance)...); len(faults) > 0 {
		return nil, invalid(append(faults, r.unknown...))
	}
	return r.bindable.Bytes(), invalid(r.unknown)
}

// NeedsBody says whether a request without a body is not one with {}.
func (o *Operation) NeedsBody() bool { return o.body != nil && o.body.required }

// reading goes through a body once, for the validator and for the binder.
type reading struct {
	ignored  *Ignored // unknown members; nil: they are faults
	faults   []fault.Detail
	unknown  []fault.Detail // members that are faults
	bindable bytes.Buffer
}

// refuse notes a fault, and stops after one more than an error holds.
func refuse(faults *[]fault.Detail, at []string, message string) {
	if len(*faults) <= fault.MaxDetails {
		*faults = append(*faults, detail(at, message))
	}
}

// value reads one value: it is written again as the binder is to see it, and
// returned as the validator is. An opaque object is not decoded: what is in it is
// somebody else's to check, and it may be large.
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
	value, err := strictjson.Decode(raw)
	if err != nil {
		return nil, fault.Invalid(detail(at, "").Pointer, "is not valid JSON")
	}
	if _, number := value.(json.Number); !number || !isNumber(schema) {
		r.bindable.Write(raw)
		return value, nil
	}
	text, _ := jsonschema.Decimal(string(raw))
	if text == "" {
		refuse(&r.faults, at, "is out of range")
		text = "0"
	}
	r.bindable.WriteString(text)
	return json.Number(text), nil
}

// object reads the members that the contract knows, without the others, because
// decoding into Go structs disregards case: MODULE would overwrite module past the
// schema.
func (r *reading) object(schema *jsonschema.Compiled, raw json.RawMessage, at []string) (any, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, fault.Invalid(detail(at, "").Pointer, "is not valid JSON")
	}
	instance := make(map[string]any, len(members))
	r.bindable.WriteByte('{')
	for _, name := range slices.Sorted(maps.Keys(members)) {
		inside := append(slices.Clip(at), name)
		known, ok := schema.Properties[name]
		if !ok {
			if r.ignored == nil {
				refuse(&r.unknown, inside, "is not a known field")
			} else {
				r.ignored.field(inside)
			}
			continue
		}
		if _, null := present(known); null && string(members[name]) == "null" { // as if it were left out
			continue
		}
		if len(instance) > 0 {
			r.bindable.WriteByte(',')
		}
		fmt.Fprintf(&r.bindable, "%q:", name) // a name of the contract: letters only
		value, err := r.value(known, members[name], inside)
		if err != nil {
			return nil, err
		}
		instance[name] = value
	}
	r.bindable.WriteByte('}')
	return instance, nil
}

func (r *reading) array(schema *jsonschema.Compiled, raw json.RawMessage, at []string) (any, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, fault.Invalid(detail(at, "").Pointer, "is not valid JSON")
	}
	if most := schema.MaxItems; most != nil && len(items) > *most { // those beyond are not read
		refuse(&r.faults, at, "must have at most "+fault.Count(*most, "item"))
		items = items[:*most]
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
