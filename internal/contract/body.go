package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weft-automation/weft/internal/fault"
)

// body is the JSON object that an operation takes.
type body struct {
	schema *jsonschema.Schema
	known  map[string]member
}

// member is what the check needs to know of one property beforehand.
type member struct {
	opaque bool // an object that passes through: only that it is one matters here
	number bool
}

func newBody(compiler *jsonschema.Compiler, pointer string, media *openapi3.MediaType) (*body, error) {
	schema, err := compiler.Compile(location + "#" + pointer)
	if err != nil {
		return nil, fmt.Errorf("compile request body: %w", err)
	}
	b := &body{schema: schema, known: map[string]member{}}
	for name, property := range media.Schema.Value.Properties {
		b.known[name] = member{
			opaque: property.Value.Type.Is("object") && property.Value.AdditionalProperties.Has != nil &&
				*property.Value.AdditionalProperties.Has && len(property.Value.Properties) == 0,
			number: property.Value.Type.Is("integer") || property.Value.Type.Is("number"),
		}
	}
	return b, nil
}

// CheckBody checks a body, which must be a JSON object that passed the JSON
// gate, and returns it fit for binding: only members that the contract knows,
// numbers written out. Unknown members are ignored, or faults with strict.
// All faults come in one INVALID_INPUT.
func (o *Operation) CheckBody(data []byte, strict bool) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, fault.Invalid("", "the body must be a JSON object")
	}
	var b body
	if o.body != nil {
		b = *o.body
	}
	var details []fault.Detail
	instance := make(map[string]any, len(members))
	names := make([]string, 0, len(members))
	for name, raw := range members {
		known, ok := b.known[name]
		if !ok {
			if strict {
				details = append(details, detail([]string{name}, "is not a known field"))
			}
			continue
		}
		value, err := known.instance(raw)
		if err != nil {
			return nil, fault.Invalid("/"+name, "is not valid JSON")
		}
		instance[name] = value
		names = append(names, name)
	}
	if o.body == nil {
		return nil, invalid(details)
	}
	details = append(details, explain(b.schema.Validate(instance))...)
	if err := invalid(details); err != nil {
		return nil, err
	}
	slices.Sort(names)
	return b.bindable(names, members), nil
}

// instance is the value for the validator. An opaque object is not decoded:
// what is in it is somebody else's to check, and it may be large.
func (m member) instance(raw json.RawMessage) (any, error) {
	if m.opaque && raw[0] == '{' {
		return map[string]any{}, nil
	}
	return decode(raw)
}

// bindable writes the known members again, each value byte by byte. Without
// the others, because decoding into Go structs disregards case: MODULE would
// overwrite module past the schema.
func (b *body) bindable(names []string, members map[string]json.RawMessage) []byte {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, name := range names {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%q:", name) // a name of the contract: letters only
		if b.known[name].number {
			out.WriteString(plain(members[name]))
		} else {
			out.Write(members[name])
		}
	}
	out.WriteByte('}')
	return out.Bytes()
}

// plain is a number without exponent, and a whole one without fraction: 3.0 and
// 0.3e1 are integers to JSON Schema, but not to a Go int. The schema has bounded
// it, and the gate its decimals.
func plain(raw json.RawMessage) string {
	if !bytes.ContainsAny(raw, ".eE") {
		return string(raw)
	}
	value, ok := new(big.Rat).SetString(strings.TrimSpace(string(raw)))
	if !ok {
		return string(raw)
	}
	decimals, _ := value.FloatPrec()
	return value.FloatString(decimals)
}
