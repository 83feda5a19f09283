package strictjson

import (
	"bytes"
	"encoding/json"
)

// Encode encodes a value as JSON without a newline at the end. Unlike encoding/json it doesn't escape
// `<`, `>`, `&`, U+2028 and U+2029, so that Weft never alters values that pass through it
// (decisions 8.14).
func Encode(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return RawSeparators(bytes.TrimSuffix(out.Bytes(), []byte("\n"))), nil
}

// RawSeparators replaces the escapes \u2028 and \u2029 in JSON with the characters themselves.
// Package encoding/json always escapes these characters; ECMAScript, RFC 8785 and most libraries
// do not. The result may share memory with data.
func RawSeparators(data []byte) []byte {
	if !bytes.Contains(data, []byte(`\u202`)) {
		return data
	}
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); {
		rest := data[i:]
		switch {
		case rest[0] != '\\':
			out = append(out, rest[0])
			i++
		case bytes.HasPrefix(rest, []byte(`\u2028`)):
			out = append(out, "\u2028"...)
			i += 6
		case bytes.HasPrefix(rest, []byte(`\u2029`)):
			out = append(out, "\u2029"...)
			i += 6
		default: // any other escape, such as an escaped backslash
			out = append(out, rest[:2]...)
			i += 2
		}
	}
	return out
}

// Decode decodes JSON and keeps numbers as written, as json.Number. It ignores any data after
// the first value.
func Decode(data []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}
