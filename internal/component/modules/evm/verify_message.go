package evm

import (
	"context"

	"github.com/ethereum/go-ethereum/common"

	"github.com/weft-automation/weft/internal/component"
)

type verifyMessage struct{ formats }

func (verifyMessage) Describe() component.Descriptor {
	return component.Computation{
		Module:   "VERIFY_EVM_MESSAGE",
		Category: category,
		Title:    "Verify EVM message",
		Description: "Checks whether an account signed a message (personal_sign, EIP-191). " +
			"A malformed or malleable signature (s in the upper half of the curve's order) is not valid. Signatures of contract accounts (EIP-1271) aren't supported, because verifying them requires a node.",
		Input: `"description": "The message, its signature and the expected signer.", "required": ["message", "signature"], "properties": {
			` + messageProperties + `,
			"signature": {"type": "string", "title": "Signature", "description": "The signature: r, s and v (0, 1, 27 or 28), 65 bytes as 0x and hexadecimal digits. For any other string, valid is false.", "examples": ["0xb91467e570a6466aa9e9876cbcd013baba02900b8979d43fe208a4a4f339f5fd6007e74cd82e037b800186422fc2da167c747ef045e5d18a5f5d4300f8e1a0291c"]},
			"address": {"type": "string", "format": "evm-address", "title": "Address", "description": "The expected signer. Without it, valid is true for any well-formed signature, and signer is the account that signed.", "examples": ["0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"]}
		}, "examples": [{"message": "Some data", "signature": "0xb91467e570a6466aa9e9876cbcd013baba02900b8979d43fe208a4a4f339f5fd6007e74cd82e037b800186422fc2da167c747ef045e5d18a5f5d4300f8e1a0291c", "address": "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"}]`,
		Output: `"description": "Whether the signature is valid.", "required": ["valid", "signer"], "properties": {
			"valid": {"type": "boolean", "title": "Valid", "description": "Whether the account signed the message; without address, whether the signature is well-formed.", "examples": [true]},
			"signer": {` + nullableAddressOut + `, "title": "Signer", "description": "The signer's address, in EIP-55 form; null if the signature is malformed.", "examples": ["0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"]}
		}`,
	}.Descriptor()
}

func (verifyMessage) Run(_ context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct {
		Message, Encoding, Signature string
		Address                      *string
	}](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	hash, err := messageHash(input.Message, input.Encoding)
	if err != nil {
		return component.Result{}, err
	}
	signer, ok := signerOf(hash, input.Signature)
	claimed := signer
	if input.Address != nil {
		if claimed, err = parseAddress(*input.Address); err != nil {
			return component.Result{}, invalid("address", err)
		}
	}
	if !ok {
		return component.Encode(map[string]any{"valid": false, "signer": nil})
	}
	return component.Encode(map[string]any{"valid": signer == claimed, "signer": signer.Hex()})
}

// signerOf recovers the signer of a hash from a 65-byte signature with v of 0, 1, 27 or 28. It
// returns false if the signature is invalid.
func signerOf(hash common.Hash, text string) (common.Address, bool) {
	var signature signature65
	data, err := parseBytes(text)
	if err != nil || len(data) != len(signature) {
		return common.Address{}, false
	}
	copy(signature[:], data)
	if signature[64] >= 27 {
		signature[64] -= 27
	}
	signer, err := recoverSigner(hash, signature)
	return signer, err == nil
}
