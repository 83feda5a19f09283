package evm

import (
	"context"

	"github.com/ethereum/go-ethereum/common"

	"github.com/weft-automation/weft/internal/component"
)

type verifyMessage struct{ formats }

func (verifyMessage) Describe() component.Descriptor {
	return computing{
		module: "VERIFY_EVM_MESSAGE",
		title:  "Verify EVM message",
		description: "Says whether an account's key signed a message (personal_sign, EIP-191). " +
			"A signature that is malformed, or of which a twin would be as good (its s is in the upper half), is not valid. Contract accounts (EIP-1271) sign otherwise; a chain has to be asked about those.",
		input: `"description": "The message, its signature, and who is said to have signed it.", "required": ["message", "signature"], "properties": {
			` + messageProperties + `,
			"signature": {"type": "string", "title": "Signature", "description": "The signature: r, s and v (0, 1, 27 or 28), 65 bytes as 0x and hexadecimal digits. Another text is not valid, which is no error.", "examples": ["0xb91467e570a6466aa9e9876cbcd013baba02900b8979d43fe208a4a4f339f5fd6007e74cd82e037b800186422fc2da167c747ef045e5d18a5f5d4300f8e1a0291c"]},
			"address": {"type": "string", "format": "evm-address", "title": "Address", "description": "The account that is said to have signed. Without it, valid says only that somebody did, and signer who.", "examples": ["0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"]}
		}, "examples": [{"message": "Some data", "signature": "0xb91467e570a6466aa9e9876cbcd013baba02900b8979d43fe208a4a4f339f5fd6007e74cd82e037b800186422fc2da167c747ef045e5d18a5f5d4300f8e1a0291c", "address": "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"}]`,
		output: `"description": "Whether the signature is valid.", "required": ["valid", "signer"], "properties": {
			"valid": {"type": "boolean", "title": "Valid", "description": "Whether the account's key signed the message; without an account, whether any key did.", "examples": [true]},
			"signer": {` + nullableAddressOut + `, "title": "Signer", "description": "Whose key made the signature, in EIP-55 form; null where it is malformed.", "examples": ["0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"]}
		}`,
	}.descriptor()
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

// signerOf recovers who signed, from a signature as messages carry it.
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
