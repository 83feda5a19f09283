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
		Description: "Encodes text as hex, Base64, URL-safe Base64 or Base58. Set from to convert data from another encoding.",
		Category:    category,
		Input: json.RawMessage(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type": "object",
			"description": "The data and the encodings.",
			"required": ["data", "to"],
			"properties": {
				"data": {"type": "string", "title": "Data", "description": "The data, in the encoding given by from. It can be empty.", "examples": ["hello"]},
				"from": {"type": "string", "title": "From", "description": "The encoding of data: ` + readWords + `", ` + readable + `, "default": "utf8", "examples": ["utf8"]},
				"to": {"type": "string", "title": "To", "description": "The encoding of the result: ` + writeWords + `", ` + writable + `, "examples": ["base64"]}
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

// transcoded is the output schema of ENCODE and DECODE.
const transcoded = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"description": "The same bytes, written anew.",
	"required": ["result"],
	"properties": {
		"result": {"type": "string", "title": "Result", "description": "The data in the encoding given by to.", "examples": ["aGVsbG8="]}
	}
}`

// transcode runs ENCODE and DECODE, which differ only in the defaults of the fields `from` and
// `to`.
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
