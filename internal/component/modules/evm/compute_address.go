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
	return computing{
		module:      "COMPUTE_EVM_ADDRESS",
		title:       "Compute EVM address",
		description: "Computes the address of a public key of the curve secp256k1.",
		input: `"description": "The public key.", "required": ["publicKey"], "properties": {
			"publicKey": {"type": "string", "format": "evm-public-key", "title": "Public key", "description": "The key as 0x and hexadecimal digits: compressed (33 bytes, the first is 02 or 03) or not (65 bytes, the first is 04).", "examples": ["0x0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"]}
		}, "examples": [{"publicKey": "0x0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"}]`,
		output: `"description": "The address.", "required": ["address"], "properties": {
			"address": {` + addressOut + `, "title": "Address", "description": "The address, in EIP-55 form.", "examples": ["0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf"]}
		}`,
	}.descriptor()
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

// addressOf reads a public key and gives its address.
func addressOf(text string) (common.Address, error) {
	data, err := parseBytes(text)
	compressed := err == nil && len(data) == 33 && (data[0] == 2 || data[0] == 3)
	if whole := err == nil && len(data) == 65 && data[0] == 4; !compressed && !whole {
		return common.Address{}, errors.New("0x and 33 bytes that begin with 02 or 03, or 65 bytes that begin with 04, are needed")
	}
	read := crypto.UnmarshalPubkey
	if compressed {
		read = crypto.DecompressPubkey
	}
	key, err := read(data)
	if err != nil {
		return common.Address{}, errors.New("it is not a point of the curve secp256k1")
	}
	return crypto.PubkeyToAddress(*key), nil
}
