package utility

import (
	"context"

	"github.com/weft-automation/weft/internal/component"
)

type decode struct{}

func (decode) Describe() component.Descriptor {
	return component.Computation{
		Module:      "DECODE",
		Title:       "Decode",
		Description: "Decodes hex, Base64, URL-safe Base64 or Base58. The result is text, so the decoded bytes must be valid UTF-8; set to for another encoding.",
		Category:    category,
		Input: `"description": "The data and the encodings.", "required": ["data", "from"], "properties": {
			"data": {"type": "string", "title": "Data", "description": "The data, in the encoding given by from. It can be empty.", "examples": ["aGVsbG8="]},
			"from": {"type": "string", "title": "From", "description": "The encoding of data: ` + readWords + `", ` + readable + `, "examples": ["base64"]},
			"to": {"type": "string", "title": "To", "description": "The encoding of the result: ` + writeWords + `", ` + writable + `, "default": "utf8", "examples": ["utf8"]}
		}, "examples": [{"data": "aGVsbG8=", "from": "base64"}, {"data": "ABnLTmg", "from": "base58", "to": "hex"}]`,
		Output: transcoded,
	}.Descriptor()
}

func (decode) Run(_ context.Context, call component.Call) (component.Result, error) {
	return transcode(call, "", "utf8")
}
