package utility

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

type jsonParse struct{}

func (jsonParse) Describe() component.Descriptor {
	return component.Computation{
		Module:      "JSON_PARSE",
		Title:       "Parse JSON",
		Description: "Parses a string as JSON (RFC 8259). Numbers keep all digits. Ambiguous JSON, such as an object with a duplicate key, is rejected.",
		Category:    category,
		Input: `"description": "The JSON to parse.", "required": ["text"], "properties": {
			"text": {"type": "string", "minLength": 1, "title": "Text", "description": "A JSON value of at most 63 nested levels, 99,999 fields and items in total, and numbers of at most 64 characters.", "examples": ["{\"amount\": 12345678901234567890.000000001}"]}
		}, "examples": [{"text": "{\"amount\": 12345678901234567890.000000001}"}, {"text": "[1, 2, 3]"}]`,
		Output: `"description": "The parsed value.", "required": ["value"], "properties": {
			"value": {"title": "Value", "description": "The parsed value: an object, an array, a string, a number, a boolean or null.", "examples": [{"amount": 1.5}]}
		}`,
	}.Descriptor()
}

func (jsonParse) Run(_ context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct{ Text string }](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	value := json.RawMessage(input.Text)
	if err := strictjson.Check(value); err != nil {
		return component.Result{}, unreadable(err, "")
	}
	result, err := component.Encode(map[string]json.RawMessage{"value": value})
	if err != nil {
		return component.Result{}, err
	}
	// The output has one more level of nesting than the text.
	if err := strictjson.Check(result.Output); err != nil {
		return component.Result{}, unreadable(err, "/value")
	}
	return result, nil
}

// unreadable returns the error for invalid JSON. The error contains the pointer to the problem
// within the parsed text. at is the pointer to the text itself in the checked JSON.
func unreadable(err error, at string) error {
	refused, ok := errors.AsType[*fault.Error](err)
	if !ok || len(refused.Details) == 0 {
		return fmt.Errorf("parse JSON: %w", err)
	}
	place := ""
	if pointer := strings.TrimPrefix(refused.Details[0].Pointer, at); pointer != "" {
		place = " at " + pointer
	}
	return component.Permanent(component.CodeInvalidInput, "text must be valid, unambiguous JSON: %s%s", refused.Details[0].Message, place)
}
