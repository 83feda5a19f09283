package utility

import (
	"cmp"
	"context"
	"encoding/hex"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/digest"
)

type hash struct{}

func (hash) Describe() component.Descriptor {
	return component.Computation{
		Module:      "HASH",
		Title:       "Hash",
		Description: "Computes a SHA-256, SHA-512, Keccak-256 (as used by Ethereum), BLAKE2b-512 or RIPEMD-160 hash.",
		Category:    category,
		Input: `"description": "The data and the algorithm.", "required": ["data"], "properties": {
			"algorithm": {"type": "string", "title": "Algorithm", "description": "The hash function. blake2b is BLAKE2b with 64 bytes.", "enum": ["sha256", "sha512", "keccak256", "blake2b", "ripemd160"], "default": "sha256", "examples": ["sha256"]},
			"data": {"type": "string", "title": "Data", "description": "The data, in the given encoding. It can be empty.", "examples": ["hello"]},
			"encoding": {"type": "string", "title": "Encoding", "description": "The encoding of data: ` + readWords + `", ` + readable + `, "default": "utf8", "examples": ["utf8"]}
		}, "examples": [{"algorithm": "sha256", "data": "hello"}, {"algorithm": "keccak256", "data": "0x68656c6c6f", "encoding": "hex"}]`,
		Output: `"description": "The digest.", "required": ["digest"], "properties": {
			"digest": {"type": "string", "title": "Digest", "description": "The digest as 0x and lower-case hexadecimal digits.", "pattern": "^0x([0-9a-f]{2})+$", "examples": ["0x2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"]}
		}`,
	}.Descriptor()
}

func (hash) Run(_ context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct{ Algorithm, Data, Encoding string }](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	data, err := decodeText("data", input.Data, "encoding", input.Encoding)
	if err != nil {
		return component.Result{}, err
	}
	sum, known := digest.Hash(cmp.Or(input.Algorithm, "sha256"), data)
	if !known {
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "algorithm must be "+digest.HashAlgorithms)
	}
	return component.Encode(map[string]string{"digest": "0x" + hex.EncodeToString(sum)})
}
