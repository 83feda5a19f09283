package utility

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

const maxIndent = 8

type jsonStringify struct{}

func (jsonStringify) Describe() component.Descriptor {
	return component.Computation{
		Module:      "JSON_STRINGIFY",
		Title:       "Stringify JSON",
		Description: "Serializes a value as JSON, compact or indented. Numbers keep all digits and their notation. With sortKeys, the result doesn't depend on the order of keys, for example before hashing or signing; 1 and 1.0 are still different.",
		Category:    category,
		Input: `"description": "The value and the format.", "required": ["value"], "properties": {
			"value": {"title": "Value", "description": "Any JSON value, including null.", "examples": [{"amount": 1.5}]},
			"indent": {"type": "integer", "minimum": 0, "maximum": 8, "title": "Indent", "description": "The number of spaces per level. 0 produces compact JSON without white space.", "default": 0, "examples": [2]},
			"sortKeys": {"type": "boolean", "title": "Sort keys", "description": "Whether to sort the keys of each object by their UTF-8 bytes. By default, keys keep their order.", "default": false, "examples": [true]}
		}, "examples": [{"value": {"amount": 12345678901234567890.000000001}}, {"value": {"b": [1, 2], "a": null}, "indent": 2, "sortKeys": true}]`,
		Output: `"description": "The serialized value.", "required": ["text"], "properties": {
			"text": {"type": "string", "title": "Text", "description": "The value as a JSON string.", "examples": ["{\"amount\":1.5}"]}
		}`,
	}.Descriptor()
}

func (jsonStringify) Run(_ context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct {
		Value    json.RawMessage
		Indent   component.Integer
		SortKeys bool
	}](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	if input.Indent < 0 || input.Indent > maxIndent {
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "indent must be between 0 and %d, got %d", maxIndent, input.Indent)
	}
	text := []byte(input.Value)
	if input.SortKeys {
		if text, err = sortedKeys(text); err != nil {
			return component.Result{}, err
		}
	}
	text = strictjson.RawSeparators(strictjson.Compact(text))
	if input.Indent > 0 {
		if text, err = indented(text, int(input.Indent)); err != nil {
			return component.Result{}, err
		}
	}
	return component.Encode(map[string]string{"text": string(text)})
}

// sortedKeys sorts the keys of all objects. Numbers keep their notation.
func sortedKeys(data []byte) ([]byte, error) {
	value, err := strictjson.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("parse value: %w", err)
	}
	out, err := strictjson.Encode(value) // map keys are sorted
	if err != nil {
		return nil, fmt.Errorf("encode value: %w", err)
	}
	return out, nil
}

// indented returns the indented JSON. It returns OUTPUT_TOO_LARGE before indenting, because the
// indentation of deeply nested values can be far larger than the values.
func indented(text []byte, indent int) ([]byte, error) {
	if size := indentedSize(text, indent); size > component.MaxOutput {
		return nil, component.Permanent(component.CodeOutputTooLarge, "the text would have %d bytes; at most %d are allowed. Use a smaller indent", size, component.MaxOutput)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", strings.Repeat(" ", indent)); err != nil {
		return nil, fmt.Errorf("indent value: %w", err)
	}
	return out.Bytes(), nil
}

// indentedSize returns an upper bound of the size of compact JSON after indentation.
func indentedSize(text []byte, indent int) int {
	size, depth, quoted := len(text), 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			size += 1 + indent*depth
		case c == '}' || c == ']':
			depth--
			size += 1 + indent*depth
		case c == ',':
			size += 1 + indent*depth
		case c == ':':
			size++
		}
	}
	return size
}
