package utility

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
)

type encode struct{}

func (encode) Describe() component.Descriptor {
	return component.Descriptor{
		Module:      "ENCODE",
		Title:       "Encode",
		Description: "Writes text, or bytes that are written in one encoding, in another one: hex, Base64, URL-safe Base64, Base58 or UTF-8. Without from, data is text.",
		Category:    category,
		Input: json.RawMessage(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type": "object",
			"description": "What to encode, and how.",
			"required": ["data", "to"],
			"properties": {
				"data": {"type": "string", "title": "Data", "description": "The data, written as from says. It may be empty.", "examples": ["hello"]},
				"from": {"type": "string", "title": "From", "description": "How data is written: ` + readWords + `", ` + readable + `, "default": "utf8", "examples": ["utf8"]},
				"to": {"type": "string", "title": "To", "description": "How the result is written: ` + writeWords + `", ` + writable + `, "examples": ["base64"]}
			},
			"examples": [{"data": "hello", "to": "base64"}, {"data": "0x516b6fcd0f", "from": "hex", "to": "base58"}]
		}`),
		Config: json.RawMessage(emptySchema),
		Output: json.RawMessage(transcoded),
		Price:  credit.Credits(1), Timeout: 5 * time.Second,
		Effect: component.EffectNone, Repeat: component.RepeatPure, Modes: both,
	}
}

func (encode) Run(_ context.Context, call component.Call) (component.Result, error) {
	return transcode(call, "utf8", "")
}

// transcoded is the output of ENCODE and DECODE.
const transcoded = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"description": "The same bytes, written anew.",
	"required": ["result"],
	"properties": {
		"result": {"type": "string", "title": "Result", "description": "The bytes of data, written as to says.", "examples": ["aGVsbG8="]}
	}
}`

// transcode is ENCODE and DECODE, which differ in what stands for an absent
// from or to.
func transcode(call component.Call, from, to string) (component.Result, error) {
	input, err := component.Decode[struct{ Data, From, To string }](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	data, err := decodeText("data", input.Data, "from", cmp.Or(input.From, from))
	if err != nil {
		return component.Result{}, err
	}
	result, err := encodeText("the bytes of data", data, "to", cmp.Or(input.To, to))
	if err != nil {
		return component.Result{}, err
	}
	return component.Encode(map[string]string{"result": result})
}
