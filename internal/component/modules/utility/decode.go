package utility

import (
	"context"
	"encoding/json"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
)

type decode struct{}

func (decode) Describe() component.Descriptor {
	return component.Descriptor{
		Module:      "DECODE",
		Title:       "Decode",
		Description: "Reads data that is written in hex, Base64, URL-safe Base64 or Base58, and gives it as text, or in another encoding. Without to, the result is text, which the bytes must then be in UTF-8.",
		Category:    category,
		Input: json.RawMessage(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type": "object",
			"description": "What to decode, and how.",
			"required": ["data", "from"],
			"properties": {
				"data": {"type": "string", "title": "Data", "description": "The data, written as from says. It may be empty.", "examples": ["aGVsbG8="]},
				"from": {"type": "string", "title": "From", "description": "How data is written: ` + readWords + `", ` + readable + `, "examples": ["base64"]},
				"to": {"type": "string", "title": "To", "description": "How the result is written: ` + writeWords + `", ` + writable + `, "default": "utf8", "examples": ["utf8"]}
			},
			"examples": [{"data": "aGVsbG8=", "from": "base64"}, {"data": "ABnLTmg", "from": "base58", "to": "hex"}]
		}`),
		Config: json.RawMessage(emptySchema),
		Output: json.RawMessage(transcoded),
		Price:  credit.Credits(1), Timeout: 5 * time.Second,
		Effect: component.EffectNone, Repeat: component.RepeatPure, Modes: both,
	}
}

func (decode) Run(_ context.Context, call component.Call) (component.Result, error) {
	return transcode(call, "", "utf8")
}
