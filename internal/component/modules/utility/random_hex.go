package utility

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	"github.com/weft-automation/weft/internal/component"
)

const (
	defaultRandomBytes = 32
	maxRandomBytes     = 1024
)

type randomHex struct{}

func (randomHex) Describe() component.Descriptor {
	return component.Computation{
		Module:      "RANDOM_HEX",
		Title:       "Random hex",
		Description: "Generates random bytes from the system's cryptographic random source, as 0x-prefixed hexadecimal.",
		Category:    category,
		Input: `"description": "The number of bytes.", "properties": {
			"bytes": {"type": "integer", "title": "Bytes", "description": "The number of random bytes.", "minimum": 1, "maximum": 1024, "default": 32, "examples": [32]}
		}, "examples": [{"bytes": 32}]`,
		Output: `"description": "The random bytes.", "required": ["hex"], "properties": {
			"hex": {"type": "string", "title": "Hex", "description": "The bytes as 0x and lower-case hexadecimal digits.", "pattern": "^0x([0-9a-f]{2})+$", "examples": ["0x9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]}
		}`,
	}.Descriptor()
}

func (randomHex) Run(_ context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct{ Bytes *component.Integer }](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	count := component.Integer(defaultRandomBytes)
	if input.Bytes != nil {
		count = *input.Bytes
	}
	if count < 1 || count > maxRandomBytes {
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "bytes must be between 1 and %d", maxRandomBytes)
	}
	data := make([]byte, count)
	rand.Read(data) // never fails: crypto/rand aborts the process instead
	return component.Encode(map[string]string{"hex": "0x" + hex.EncodeToString(data)})
}
