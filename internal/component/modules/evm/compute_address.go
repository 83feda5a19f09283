package evm

import (
	"context"
	"errors"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/weft-automation/weft/internal/component"
)

type computeAddress struct{ formats }

func (computeAddress) Describe() component.Descriptor {
	return component.Computation{
		Module:      "COMPUTE_EVM_ADDRESS",
		Category:    category,
		Title:       "Compute EVM address",
		Description: "Derives the address of a secp256k1 public key.",
		Input: `"description": "The public key.", "required": ["publicKey"], "properties": {
			"publicKey": {"type": "string", "format": "evm-public-key", "title": "Public key", "description": "The key as 0x and hexadecimal digits: compressed (33 bytes starting with 02 or 03) or uncompressed (65 bytes starting with 04).", "examples": ["0x0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"]}
		}, "examples": [{"publicKey": "0x0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"}]`,
		Output: `"description": "The address.", "required": ["address"], "properties": {
			"address": {` + addressOut + `, "title": "Address", "description": "The address, in EIP-55 form.", "examples": ["0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf"]}
		}`,
	}.Descriptor()
}

func (computeAddress) Run(_ context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct{ PublicKey string }](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	address, err := addressOf(input.PublicKey)
	if err != nil {
		return component.Result{}, invalid("publicKey", err)
	}
	return component.Encode(map[string]string{"address": address.Hex()})
}

// addressOf parses a public key and returns its address.
func addressOf(text string) (common.Address, error) {
	data, err := parseBytes(text)
	compressed := err == nil && len(data) == 33 && (data[0] == 2 || data[0] == 3)
	if uncompressed := err == nil && len(data) == 65 && data[0] == 4; !compressed && !uncompressed {
		return common.Address{}, errors.New("expected 0x and 33 bytes starting with 02 or 03, or 65 bytes starting with 04")
	}
	read := crypto.UnmarshalPubkey
	if compressed {
		read = crypto.DecompressPubkey
	}
	key, err := read(data)
	if err != nil {
		return common.Address{}, errors.New("it is not a point on the curve secp256k1")
	}
	return crypto.PubkeyToAddress(*key), nil
}
