package evm

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/weft-automation/weft/internal/component"
)

type signTransaction struct{ formats }

func (signTransaction) Describe() component.Descriptor {
	return computing{
		module: "SIGN_EVM_TRANSACTION",
		title:  "Sign EVM transaction",
		description: "Signs a transaction, as BUILD_EVM_TRANSACTION gives it, with a private key, or puts a signature to it that was made elsewhere. " +
			"The output tells who signed; nothing is sent.",
		input: `"description": "The transaction, and the key or the signature: one of the two.", "required": ["transaction"], "properties": {
			"transaction": {"type": ["object", "string"], "required": ["chainId", "nonce", "gasLimit"], "title": "Transaction", "description": "The transaction to sign: an object, or unsigned and serialized as 0x and hexadecimal digits (transaction or serializedTransaction of BUILD_EVM_TRANSACTION).", "properties": {
				"type": {"type": "string", "enum": ["eip1559", "legacy"], "title": "Type", "description": "eip1559 with maxFeePerGas and maxPriorityFeePerGas, or legacy with gasPrice. Without it, gasPrice tells.", "examples": ["eip1559"]},
				"chainId": {` + uint256In + `, "title": "Chain id", "description": "The chain that it is for.", "examples": ["1"]},
				"nonce": {` + uint64In + `, "title": "Nonce", "description": "Its place among the sender's transactions, from 0.", "examples": ["9"]},
				"to": {"type": ["string", "null"], "format": "evm-address", "title": "To", "description": "Who receives it; null or left out when it creates a contract.", "examples": ["0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"]},
				"value": {` + uint256In + `, "default": "0", "title": "Value", "description": "How much of the native coin it carries, in wei.", "examples": ["1000000000000000000"]},
				"data": {"type": "string", "format": "hex-bytes", "default": "0x", "title": "Data", "description": "The encoded function call, or the code that creates a contract.", "examples": ["0x"]},
				"gasLimit": {` + uint64In + `, "title": "Gas limit", "description": "The most gas that it may use.", "examples": ["21000"]},
				"maxFeePerGas": {` + uint256In + `, "title": "Max fee per gas", "description": "The most to pay for a unit of gas, in wei (eip1559).", "examples": ["30000000000"]},
				"maxPriorityFeePerGas": {` + uint256In + `, "title": "Max priority fee per gas", "description": "What is offered of it to whoever makes the block, for a unit of gas, in wei (eip1559).", "examples": ["1000000000"]},
				"gasPrice": {` + uint256In + `, "title": "Gas price", "description": "What to pay for a unit of gas, in wei (legacy).", "examples": ["20000000000"]},
				"accessList": {"type": ["array", "null"], "title": "Access list", "description": "Addresses and storage keys that the transaction touches (EIP-2930).", "items": {"type": "object", "required": ["address", "storageKeys"], "additionalProperties": false, "properties": {
					"address": {"type": "string", "format": "evm-address", "title": "Address", "description": "The address that is touched.", "examples": ["0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"]},
					"storageKeys": {"type": "array", "items": {"type": "string", "format": "evm-hash"}, "title": "Storage keys", "description": "The places in its storage.", "examples": [[]]}
				}}, "examples": [[]]},
				"from": {"type": ["string", "null"], "format": "evm-address", "title": "From", "description": "Who is expected to sign. A signature of somebody else is then an error.", "examples": ["0x9d8A62f656a8d1615C1294fd71e9CFb3E4855A4F"]}
			}, "additionalProperties": false, "examples": [{"type": "eip1559", "chainId": "1", "nonce": "9", "to": "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045", "value": "1000000000000000000", "data": "0x", "gasLimit": "21000", "maxFeePerGas": "30000000000", "maxPriorityFeePerGas": "1000000000"}]},
			` + privateKeyProperty + `,
			"signature": {"type": "object", "required": ["r", "s", "yParity"], "title": "Signature", "description": "A signature of the transaction's hash that was made elsewhere, in place of a private key.", "properties": {
				"r": {"type": "string", "pattern": "^0x[0-9a-fA-F]{1,64}$", "title": "r", "description": "r, 0x and up to 64 hexadecimal digits.", "examples": ["0x28ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276"]},
				"s": {"type": "string", "pattern": "^0x[0-9a-fA-F]{1,64}$", "title": "s", "description": "s, in the lower half of the curve's order.", "examples": ["0x67cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"]},
				"yParity": {"type": "integer", "enum": [0, 1], "title": "y parity", "description": "Which of the two points r stands for.", "examples": [0]}
			}, "examples": [{"r": "0x28ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276", "s": "0x67cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83", "yParity": 0}]}
		}, "examples": [{"transaction": {"type": "legacy", "chainId": "1", "nonce": "9", "to": "0x3535353535353535353535353535353535353535", "value": "1000000000000000000", "data": "0x", "gasLimit": "21000", "gasPrice": "20000000000"}, "privateKey": "0x4646464646464646464646464646464646464646464646464646464646464646"}]`,
		output: `"description": "The signed transaction.", "required": ["signedTransaction", "transactionHash", "from"], "properties": {
			"signedTransaction": {"type": "string", "pattern": "^0x([0-9a-f]{2})+$", "title": "Signed transaction", "description": "The transaction as BROADCAST_EVM_TRANSACTION takes it.", "examples": ["0xf86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"]},
			"transactionHash": {` + hashOut + `, "title": "Transaction hash", "description": "The hash under which chains know it.", "examples": ["0x33469b22e9f636356c4160a87eb19df52b7412e8eac32a4a55ffe88ea8350788"]},
			"from": {` + addressOut + `, "title": "From", "description": "Who signed, in EIP-55 form.", "examples": ["0x9d8A62f656a8d1615C1294fd71e9CFb3E4855A4F"]}
		}`,
	}.descriptor()
}

// givenSignature is a signature that was made elsewhere.
type givenSignature struct {
	R, S    string
	YParity component.Integer
}

func (g *givenSignature) UnmarshalJSON(data []byte) error {
	return decodeExact(data, map[string]any{"r": &g.R, "s": &g.S, "yParity": &g.YParity})
}

func (signTransaction) Run(_ context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct {
		Transaction json.RawMessage
		PrivateKey  *string
		Signature   *givenSignature
	}](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	if (input.PrivateKey == nil) == (input.Signature == nil) {
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "privateKey or signature is needed, and not both")
	}
	transaction, err := parseOutgoing(input.Transaction)
	if err != nil {
		return component.Result{}, refused("transaction", err)
	}
	hash, err := transaction.hash()
	if err != nil {
		return component.Result{}, err
	}
	var signature signature65
	var from common.Address
	if input.PrivateKey != nil {
		signature, from, err = sign(*input.PrivateKey, hash)
	} else {
		signature, from, err = input.Signature.of(hash)
	}
	if err != nil {
		return component.Result{}, err
	}
	if expected := transaction.from; expected != nil && *expected != from {
		return component.Result{}, refused("transaction.from", misfitf("expected %s to sign, but %s did", expected.Hex(), from.Hex()))
	}
	signed, err := transaction.signed(signature)
	if err != nil {
		return component.Result{}, err
	}
	return component.Encode(map[string]string{"signedTransaction": hexOf(signed), "transactionHash": crypto.Keccak256Hash(signed).Hex(), "from": from.Hex()})
}

// of checks that it may be a signature of the hash, and tells whose.
func (g givenSignature) of(hash common.Hash) (signature65, common.Address, error) {
	var signature signature65
	for at, part := range []string{g.R, g.S} {
		digits, ok := strings.CutPrefix(part, "0x")
		number, numeric := new(big.Int).SetString(digits, 16)
		if !ok || !numeric || number.Sign() < 0 || number.BitLen() > 256 {
			return signature, common.Address{}, invalid("signature."+[]string{"r", "s"}[at], errors.New("0x and 1 to 64 hexadecimal digits are needed"))
		}
		number.FillBytes(signature[32*at : 32*at+32])
	}
	if g.YParity != 0 && g.YParity != 1 {
		return signature, common.Address{}, invalid("signature.yParity", errors.New("0 or 1 is needed"))
	}
	signature[64] = byte(g.YParity)
	from, err := recoverSigner(hash, signature)
	if err != nil {
		return signature, from, invalid("signature", err)
	}
	return signature, from, nil
}
