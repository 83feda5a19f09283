package utility

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

type jsonParse struct{}

func (jsonParse) Describe() component.Descriptor {
	return component.Descriptor{
		Module:      "JSON_PARSE",
		Title:       "Parse JSON",
		Description: "Reads a text as JSON (RFC 8259) and gives its value. Numbers keep every digit. Text that two parsers could read differently, such as an object with the same member twice, is refused.",
		Category:    category,
		Input: json.RawMessage(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type": "object",
			"description": "What to read.",
			"required": ["text"],
			"properties": {
				"text": {"type": "string", "minLength": 1, "title": "Text", "description": "One JSON value, with white space around it or not: at most 63 levels deep, with at most 99,999 members and items, and numbers of at most 64 characters.", "examples": ["{\"amount\": 12345678901234567890.000000001}"]}
			},
			"examples": [{"text": "{\"amount\": 12345678901234567890.000000001}"}, {"text": "[1, 2, 3]"}]
		}`),
		Config: json.RawMessage(emptySchema),
		Output: json.RawMessage(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type": "object",
			"description": "What the text says.",
			"required": ["value"],
			"properties": {
				"value": {"title": "Value", "description": "The value: an object, an array, a string, a number, a boolean or null.", "examples": [{"amount": 1.5}]}
			}
		}`),
		Price: credit.Credits(1), Timeout: 5 * time.Second,
		Effect: component.EffectNone, Repeat: component.RepeatPure, Modes: both,
	}
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
	// The output is one level deeper than the text.
	if err := strictjson.Check(result.Output); err != nil {
		return component.Result{}, unreadable(err, "/value")
	}
	return result, nil
}

// unreadable says what of a text cannot be taken, and where in it. at is where
// the text's value stands in what was checked.
func unreadable(err error, at string) error {
	refused, ok := errors.AsType[*fault.Error](err)
	if !ok || len(refused.Details) == 0 {
		return fmt.Errorf("read JSON text: %w", err)
	}
	place := ""
	if pointer := strings.TrimPrefix(refused.Details[0].Pointer, at); pointer != "" {
		place = " at " + pointer
	}
	return component.Permanent(component.CodeInvalidInput, "text must be JSON that means one thing: %s%s", refused.Details[0].Message, place)
}
