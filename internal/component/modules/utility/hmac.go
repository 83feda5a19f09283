package utility

import (
	"cmp"
	"context"
	stdhmac "crypto/hmac"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/digest"
)

type hmac struct{}

func (hmac) Describe() component.Descriptor {
	return component.Computation{
		Module:      "HMAC",
		Title:       "HMAC",
		Description: "Computes a keyed message authentication code (RFC 2104), as many services use to sign requests. If expected is set, the codes are compared in constant time.",
		Category:    category,
		Input: `"description": "The data, the key and the algorithm.", "required": ["key", "data"], "properties": {
			"algorithm": {"type": "string", "title": "Algorithm", "description": "The hash function. Use sha1 only if the other side doesn't support a stronger one.", "enum": ["sha256", "sha384", "sha512", "sha1"], "default": "sha256", "examples": ["sha256"]},
			"key": {"type": "string", "minLength": 1, "maxLength": 8192, "x-secret": true, "title": "Key", "description": "The secret key, in the given keyEncoding. It is stored encrypted.", "examples": ["{{env.SIGNING_KEY}}"]},
			"keyEncoding": {"type": "string", "title": "Key encoding", "description": "The encoding of key: ` + readWords + `", ` + readable + `, "default": "utf8", "examples": ["utf8"]},
			"data": {"type": "string", "title": "Data", "description": "The data, in the given encoding. It can be empty.", "examples": ["hello"]},
			"encoding": {"type": "string", "title": "Encoding", "description": "The encoding of data: ` + readWords + `", ` + readable + `, "default": "utf8", "examples": ["utf8"]},
			"macEncoding": {"type": "string", "title": "MAC encoding", "description": "The encoding of the code: hex is lower case with 0x, plainHex is lower case without 0x, base64 is the standard alphabet with padding, base64url is the URL-safe alphabet without padding.", "enum": ["hex", "plainHex", "base64", "base64url"], "default": "hex", "examples": ["hex"]},
			"expected": {"type": "string", "title": "Expected", "description": "A code to compare with the computed one, in the given macEncoding. For hex and plainHex, the prefix 0x is optional. If the code can't be decoded, valid is false.", "examples": ["0x045d55c68d16d7addebc33dc43cb7f0549be19a8b10bb6497ec8414658be5805"]}
		}, "examples": [{"key": "my-signing-key", "data": "hello"}, {"algorithm": "sha512", "key": "0x0b0b0b0b0b0b0b0b", "keyEncoding": "hex", "data": "aGVsbG8=", "encoding": "base64", "macEncoding": "base64"}]`,
		Output: `"description": "The code and the result of the comparison.", "required": ["mac"], "properties": {
			"mac": {"type": "string", "title": "MAC", "description": "The computed code, in the given macEncoding.", "examples": ["0x045d55c68d16d7addebc33dc43cb7f0549be19a8b10bb6497ec8414658be5805"]},
			"valid": {"type": "boolean", "title": "Valid", "description": "Whether expected equals the computed code. Missing if expected isn't set.", "examples": [true]}
		}`,
	}.Descriptor()
}

func (hmac) Run(_ context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct {
		Algorithm, Key, KeyEncoding, Data, Encoding, MacEncoding string
		Expected                                                 *string
	}](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	key, err := decodeText("key", input.Key, "keyEncoding", input.KeyEncoding)
	if err != nil {
		return component.Result{}, err
	}
	if len(key) == 0 {
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "key must have at least 1 byte, got none")
	}
	data, err := decodeText("data", input.Data, "encoding", input.Encoding)
	if err != nil {
		return component.Result{}, err
	}
	sum, known := digest.MAC(cmp.Or(input.Algorithm, "sha256"), key, data)
	if !known {
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "algorithm must be "+digest.MACAlgorithms)
	}

	form := cmp.Or(input.MacEncoding, "hex")
	output := map[string]any{}
	if output["mac"], err = encodeText("the code", sum, "macEncoding", form); err != nil {
		return component.Result{}, err
	}
	if input.Expected != nil {
		if form == "plainHex" {
			form = "hex"
		}
		// The error for a malformed code is the same as for a wrong code, so that a forger
		// learns nothing.
		expected, err := decodeText("expected", *input.Expected, "macEncoding", form)
		output["valid"] = err == nil && stdhmac.Equal(expected, sum)
	}
	return component.Encode(output)
}
