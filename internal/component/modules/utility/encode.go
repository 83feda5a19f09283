package utility

import (
	"cmp"
	"context"

	"github.com/weft-automation/weft/internal/component"
)

type encode struct{}

func (encode) Describe() component.Descriptor {
	return component.Computation{
		Module:      "ENCODE",
		Title:       "Encode",
		Description: "Encodes text as hex, Base64, URL-safe Base64 or Base58. Set from to convert data from another encoding.",
		Category:    category,
		Input: `"description": "The data and the encodings.", "required": ["data", "to"], "properties": {
			"data": {"type": "string", "title": "Data", "description": "The data, in the encoding given by from. It can be empty.", "examples": ["hello"]},
			"from": {"type": "string", "title": "From", "description": "The encoding of data: ` + readWords + `", ` + readable + `, "default": "utf8", "examples": ["utf8"]},
			"to": {"type": "string", "title": "To", "description": "The encoding of the result: ` + writeWords + `", ` + writable + `, "examples": ["base64"]}
		}, "examples": [{"data": "hello", "to": "base64"}, {"data": "0x516b6fcd0f", "from": "hex", "to": "base58"}]`,
		Output: transcoded,
	}.Descriptor()
}

func (encode) Run(_ context.Context, call component.Call) (component.Result, error) {
	return transcode(call, "utf8", "")
}

// transcoded has the keywords of the output of ENCODE and DECODE.
const transcoded = `"description": "The same bytes, written anew.", "required": ["result"], "properties": {
	"result": {"type": "string", "title": "Result", "description": "The data in the encoding given by to.", "examples": ["aGVsbG8="]}
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
