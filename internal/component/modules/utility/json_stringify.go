package utility

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

const maxIndent = 8

type jsonStringify struct{}

func (jsonStringify) Describe() component.Descriptor {
	return component.Descriptor{
		Module:      "JSON_STRINGIFY",
		Title:       "Stringify JSON",
		Description: "Writes a value as JSON text, without white space or indented. Numbers keep every digit and stay as they were written. With sortKeys it makes no difference in which order the members of objects came, which is of use before they are hashed or signed; 1 and 1.0 still differ.",
		Category:    category,
		Input: json.RawMessage(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type": "object",
			"description": "What to write, and how.",
			"required": ["value"],
			"properties": {
				"value": {"title": "Value", "description": "Any value, null among them.", "examples": [{"amount": 1.5}]},
				"indent": {"type": "integer", "minimum": 0, "maximum": 8, "title": "Indent", "description": "Number of blanks for each level, on lines of their own; 0 is no white space at all.", "default": 0, "examples": [2]},
				"sortKeys": {"type": "boolean", "title": "Sort keys", "description": "Whether the members of every object stand in the order of the bytes of their names in UTF-8, and not in the order in which they came.", "default": false, "examples": [true]}
			},
			"examples": [{"value": {"amount": 12345678901234567890.000000001}}, {"value": {"b": [1, 2], "a": null}, "indent": 2, "sortKeys": true}]
		}`),
		Config: json.RawMessage(emptySchema),
		Output: json.RawMessage(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type": "object",
			"description": "The value as text.",
			"required": ["text"],
			"properties": {
				"text": {"type": "string", "title": "Text", "description": "The JSON text.", "examples": ["{\"amount\":1.5}"]}
			}
		}`),
		Price: credit.Credits(1), Timeout: 5 * time.Second,
		Effect: component.EffectNone, Repeat: component.RepeatPure, Modes: both,
	}
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

// sortedKeys is the value with the members of its objects in the order of
// their names. Numbers stay as they are written.
func sortedKeys(data []byte) ([]byte, error) {
	value, err := strictjson.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("read value: %w", err)
	}
	out, err := strictjson.Encode(value) // maps are written in order
	if err != nil {
		return nil, fmt.Errorf("write value: %w", err)
	}
	return out, nil
}

// indented is the text with a line for each member and item, OUTPUT_TOO_LARGE
// where that is too much: the blanks of deep values outgrow them by far.
func indented(text []byte, indent int) ([]byte, error) {
	if size := indentedSize(text, indent); size > component.MaxOutput {
		return nil, component.Permanent(component.CodeOutputTooLarge, "the text would have %d bytes; at most %d are allowed: take a smaller indent", size, component.MaxOutput)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", strings.Repeat(" ", indent)); err != nil {
		return nil, fmt.Errorf("indent value: %w", err)
	}
	return out.Bytes(), nil
}

// indentedSize is at least the length of compact JSON once it is indented.
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
