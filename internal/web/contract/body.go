package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weft-automation/weft/internal/kit/fault"
)

// body is the JSON object that an operation takes.
type body struct {
	schema   *jsonschema.Schema
	root     *member
	required bool // {} is not what a request without one means
}

// member is what the check needs to know of a value beforehand.
type member struct {
	opaque  bool // an object that passes through: only that it is one matters here
	number  bool
	null    bool               // it may be null
	members map[string]*member // of an object that the contract looks into; nil for any other value
	items   *member            // of an array; nil for any other value
	most    int                // items of an array
}

func newBody(compiler *jsonschema.Compiler, pointer string, media *openapi3.MediaType) (*body, error) {
	schema, err := compiler.Compile(location + "#" + pointer)
	if err != nil {
		return nil, fmt.Errorf("compile request body: %w", err)
	}
	return &body{schema: schema, root: newMember(media.Schema.Value)}, nil
}

// newMember reads a schema of requests, none of which is inside itself.
func newMember(schema *openapi3.Schema) *member {
	if one := present(schema); one != nil {
		m := newMember(one)
		m.null = true
		return m
	}
	m := &member{
		number: schema.Type.Includes("integer") || schema.Type.Includes("number"), null: schema.Type.Includes("null"),
	}
	switch {
	case len(schema.Properties) > 0:
		m.members = make(map[string]*member, len(schema.Properties))
		for name, property := range schema.Properties {
			m.members[name] = newMember(property.Value)
		}
	case schema.Type.Includes("object"):
		m.opaque = schema.AdditionalProperties.Has != nil && *schema.AdditionalProperties.Has
	case schema.Items != nil:
		m.items, m.most = newMember(schema.Items.Value), math.MaxInt
		if schema.MaxItems != nil {
			m.most = int(*schema.MaxItems)
		}
	}
	return m
}

// present returns the schema that stands beside null, or nil if the schema is not of that form.
func present(schema *openapi3.Schema) *openapi3.Schema {
	if len(schema.OneOf) != 2 || !schema.OneOf[1].Value.Type.Is("null") {
		return nil
	}
	return schema.OneOf[0].Value
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
	root := &member{members: map[string]*member{}} // of an operation that takes no body
	if o.body != nil {
		root = o.body.root
	}
	r := reading{ignored: ignored}
	instance, err := r.value(root, data, nil)
	if err != nil {
		return nil, err
	}
	if o.body == nil {
		return nil, invalid(r.unknown)
	}
	if faults := append(r.faults, explain(o.body.schema.Validate(instance))...); len(faults) > 0 {
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
func (r *reading) value(m *member, raw json.RawMessage, at []string) (any, error) {
	switch {
	case m.opaque && raw[0] == '{':
		r.bindable.Write(raw)
		return map[string]any{}, nil
	case m.members != nil && raw[0] == '{':
		return r.object(m, raw, at)
	case m.items != nil && raw[0] == '[':
		return r.array(m, raw, at)
	}
	value, err := decode(raw)
	if err != nil {
		return nil, fault.Invalid(detail(at, "").Pointer, "is not valid JSON")
	}
	if _, number := value.(json.Number); !number || !m.number {
		r.bindable.Write(raw)
		return value, nil
	}
	if !moderate(raw) {
		refuse(&r.faults, at, "is out of range")
		raw, value = json.RawMessage("0"), json.Number("0")
	}
	r.bindable.WriteString(plain(raw))
	return value, nil
}

// object reads the members that the contract knows, without the others, because
// decoding into Go structs disregards case: MODULE would overwrite module past the
// schema.
func (r *reading) object(m *member, raw json.RawMessage, at []string) (any, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, fault.Invalid(detail(at, "").Pointer, "is not valid JSON")
	}
	instance := make(map[string]any, len(members))
	r.bindable.WriteByte('{')
	for _, name := range slices.Sorted(maps.Keys(members)) {
		inside := append(slices.Clip(at), name)
		known, ok := m.members[name]
		if !ok {
			if r.ignored == nil {
				refuse(&r.unknown, inside, "is not a known field")
			} else {
				r.ignored.field(inside)
			}
			continue
		}
		if known.null && string(members[name]) == "null" { // as if it were left out
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

func (r *reading) array(m *member, raw json.RawMessage, at []string) (any, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, fault.Invalid(detail(at, "").Pointer, "is not valid JSON")
	}
	if len(items) > m.most { // those beyond are not gone through
		refuse(&r.faults, at, "must have at most "+fault.Count(m.most, "item"))
		items = items[:m.most]
	}
	instance := make([]any, len(items))
	r.bindable.WriteByte('[')
	for i, item := range items {
		if i > 0 {
			r.bindable.WriteByte(',')
		}
		value, err := r.value(m.items, item, append(slices.Clip(at), fmt.Sprint(i)))
		if err != nil {
			return nil, err
		}
		instance[i] = value
	}
	r.bindable.WriteByte(']')
	return instance, nil
}

// plain is a number without exponent, and a whole one without fraction: 3.0 and
// 0.3e1 are integers to JSON Schema, but not to a Go int.
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

// maxDigits is more than any number of the contract has, written out.
const maxDigits = 400

// moderate says whether a number is cheap to reckon with: 1e131071 is short, and
// has as many digits.
func moderate(raw json.RawMessage) bool {
	digits, exponent, scientific := bytes.Cut(bytes.ToLower(raw), []byte("e"))
	if !scientific {
		return len(digits) <= maxDigits
	}
	n, err := strconv.Atoi(string(exponent))
	return err == nil && len(digits) <= maxDigits && -maxDigits <= n && n <= maxDigits
}
