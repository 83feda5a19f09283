package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// Read returns the object that a person typed, and keeps what they typed in the fields, except
// secrets. Empty fields are omitted, except required text. It returns false if a field is not
// readable; the field says why.
func (f *Form) Read(typed url.Values) (json.RawMessage, bool) {
	members, readable := read(f.Fields, typed)
	object := encode(members)
	if !readable {
		return object, false
	}
	if err := strictjson.CheckObject(object); err != nil {
		f.Fields[0].Fault = problemOf(err)
		return object, false
	}
	return object, true
}

// member is a field of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

func encode(members []member) json.RawMessage {
	var object bytes.Buffer
	object.WriteByte('{')
	for i, one := range members {
		if i > 0 {
			object.WriteByte(',')
		}
		name, _ := strictjson.Encode(one.name) // a string always encodes
		object.Write(name)
		object.WriteByte(':')
		object.Write(one.value)
	}
	object.WriteByte('}')
	return object.Bytes()
}

func read(fields []Field, typed url.Values) (members []member, readable bool) {
	readable = true
	for i := range fields {
		one := &fields[i]
		if one.Kind == Group {
			inner, fine := read(one.Fields, typed)
			readable = readable && fine
			if len(inner) > 0 || one.Required {
				members = append(members, member{one.Name, encode(inner)})
			}
			continue
		}
		text := strings.ReplaceAll(typed.Get(one.Pointer), "\r\n", "\n")
		if !one.Secret {
			one.Value = text
			one.wrap()
		}
		added, problem := one.read(text)
		if problem != "" {
			one.Fault, readable = problem, false
		}
		members = append(members, added...)
	}
	return members, readable
}

// read returns what was typed: usually one field of the object.
func (f *Field) read(text string) (members []member, problem string) {
	plain := len(f.Kinds) == 1 && f.Kinds[0] == "string" && f.Kind != Choice
	switch {
	case strings.TrimSpace(text) == "" && !plain, text == "" && !f.Required:
		return nil, ""
	case f.whole:
		if members, problem = readWhole(text); problem != "" && f.Secret {
			problem = expected
		}
		return members, problem
	case f.Kind == Choice:
		if !slices.ContainsFunc(f.Options, func(o Option) bool { return o.Value == text }) {
			return nil, "is not one of the choices"
		}
		return []member{{f.Name, json.RawMessage(text)}}, ""
	}
	value, err := f.Field.Read(text)
	if err == nil {
		err = strictjson.Check(value)
	}
	if err != nil && f.Secret {
		return nil, "is not JSON of the expected type"
	}
	if err != nil {
		return nil, problemOf(err)
	}
	return []member{{f.Name, value}}, ""
}

const expected = `expected a JSON object, such as {"amount": "1000"}`

// problemOf returns the message of an error.
func problemOf(err error) string {
	if failure, ok := errors.AsType[*fault.Error](err); ok {
		return failure.Message
	}
	return err.Error()
}

// readWhole returns the fields of the typed object, in their order.
func readWhole(text string) (members []member, problem string) {
	if err := strictjson.Check([]byte(text)); err != nil {
		return nil, expected + ": " + problemOf(err)
	}
	names, err := strictjson.Names(json.RawMessage(text))
	var values map[string]json.RawMessage
	if err != nil || json.Unmarshal([]byte(text), &values) != nil || values == nil {
		return nil, expected
	}
	for _, name := range names {
		members = append(members, member{name, values[name]})
	}
	return members, ""
}
