package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
)

// EncodeLike is Encode for a value that was decoded from like and then changed. Objects keep the
// order of the fields that they have in like. New fields follow, sorted.
func EncodeLike(value any, like json.RawMessage) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(like))
	decoder.UseNumber()
	known, err := orderOf(decoder)
	if err != nil {
		return nil, err
	}
	return ordered{value, known}.encode()
}

// Names returns the names of the fields of an object, in their order.
func Names(object json.RawMessage) ([]string, error) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	known, err := orderOf(decoder)
	if err == nil && (known == nil || known.list) {
		err = errors.New("the value is not a JSON object")
	}
	if err != nil {
		return nil, err
	}
	return known.names, nil
}

// order is the order of the fields in a JSON value. It is nil for values without fields.
type order struct {
	list   bool // the value is an array
	names  []string
	fields map[string]*order
	items  []*order
}

func orderOf(decoder *json.Decoder) (*order, error) {
	token, err := decoder.Token()
	if err != nil || token != json.Delim('{') && token != json.Delim('[') {
		return nil, err
	}
	found := &order{list: token == json.Delim('['), fields: map[string]*order{}}
	for decoder.More() {
		if found.list {
			item, err := orderOf(decoder)
			if err != nil {
				return nil, err
			}
			found.items = append(found.items, item)
			continue
		}
		name, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		text, _ := name.(string)
		if found.fields[text], err = orderOf(decoder); err != nil {
			return nil, err
		}
		found.names = append(found.names, text)
	}
	_, err = decoder.Token() // the closing delimiter
	return found, err
}

// ordered is a value with the order of its fields.
type ordered struct {
	value any
	known *order
}

func (o ordered) encode() ([]byte, error) {
	if o.known == nil {
		return Encode(o.value)
	}
	var out bytes.Buffer
	write := func(before byte, value any, known *order) error {
		if out.Len() > 1 { // something follows the opening delimiter
			out.WriteByte(before)
		}
		encoded, err := ordered{value, known}.encode()
		out.Write(encoded)
		return err
	}
	switch value := o.value.(type) {
	case map[string]any:
		out.WriteByte('{')
		names := slices.DeleteFunc(slices.Clone(o.known.names), func(name string) bool { _, there := value[name]; return !there })
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if _, known := o.known.fields[name]; !known {
				names = append(names, name)
			}
		}
		for _, name := range names {
			if err := write(',', name, nil); err != nil {
				return nil, err
			}
			if err := write(':', value[name], o.known.fields[name]); err != nil {
				return nil, err
			}
		}
		out.WriteByte('}')
	case []any:
		out.WriteByte('[')
		for i, item := range value {
			var known *order
			if i < len(o.known.items) {
				known = o.known.items[i]
			}
			if err := write(',', item, known); err != nil {
				return nil, err
			}
		}
		out.WriteByte(']')
	default:
		return Encode(o.value)
	}
	return out.Bytes(), nil
}
