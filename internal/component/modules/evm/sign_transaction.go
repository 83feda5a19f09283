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
	return component.Computation{
		Module:   "SIGN_EVM_TRANSACTION",
		Category: category,
		Title:    "Sign EVM transaction",
		Description: "Signs a transaction from BUILD_EVM_TRANSACTION with a private key, or attaches a signature that was created elsewhere. " +
			"Returns the signed transaction and the signer's address. Nothing is sent.",
		Input: `"description": "The transaction, and either a private key or a signature.", "required": ["transaction"], "properties": {
			"transaction": {"type": ["object", "string"], "required": ["chainId", "nonce", "gasLimit"], "title": "Transaction", "description": "The transaction to sign: an object, or a serialized unsigned transaction as 0x and hexadecimal digits (transaction or serializedTransaction of BUILD_EVM_TRANSACTION).", "properties": {
				"type": {"type": "string", "enum": ["eip1559", "legacy"], "title": "Type", "description": "eip1559 (with maxFeePerGas and maxPriorityFeePerGas) or legacy (with gasPrice). Defaults to legacy if gasPrice is set, and to eip1559 otherwise.", "examples": ["eip1559"]},
				"chainId": {` + uint256In + `, "title": "Chain id", "description": "The ID of the chain.", "examples": ["1"]},
				"nonce": {` + uint64In + `, "title": "Nonce", "description": "The nonce of the sender, from 0.", "examples": ["9"]},
				"to": {"type": ["string", "null"], "format": "evm-address", "title": "To", "description": "The recipient. Use null or leave it out to create a contract.", "examples": ["0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"]},
				"value": {` + uint256In + `, "default": "0", "title": "Value", "description": "The amount of the native coin to transfer, in wei.", "examples": ["1000000000000000000"]},
				"data": {"type": "string", "format": "hex-bytes", "default": "0x", "title": "Data", "description": "The encoded function call, or the code of a contract to create.", "examples": ["0x"]},
				"gasLimit": {` + uint64In + `, "title": "Gas limit", "description": "The gas limit.", "examples": ["21000"]},
				"maxFeePerGas": {` + uint256In + `, "title": "Max fee per gas", "description": "The maximum total fee per unit of gas, in wei (eip1559).", "examples": ["30000000000"]},
				"maxPriorityFeePerGas": {` + uint256In + `, "title": "Max priority fee per gas", "description": "The maximum tip for the block producer per unit of gas, in wei (eip1559).", "examples": ["1000000000"]},
				"gasPrice": {` + uint256In + `, "title": "Gas price", "description": "The gas price, in wei (legacy).", "examples": ["20000000000"]},
				"accessList": {"type": ["array", "null"], "title": "Access list", "description": "Addresses and storage keys that the transaction accesses (EIP-2930).", "items": {"type": "object", "required": ["address", "storageKeys"], "additionalProperties": false, "properties": {
					"address": {"type": "string", "format": "evm-address", "title": "Address", "description": "The accessed address.", "examples": ["0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"]},
					"storageKeys": {"type": "array", "items": {"type": "string", "format": "evm-hash"}, "title": "Storage keys", "description": "The accessed storage keys.", "examples": [[]]}
				}}, "examples": [[]]},
				"from": {"type": ["string", "null"], "format": "evm-address", "title": "From", "description": "The expected signer. If another key signed, the execution fails.", "examples": ["0x9d8A62f656a8d1615C1294fd71e9CFb3E4855A4F"]}
			}, "additionalProperties": false, "examples": [{"type": "eip1559", "chainId": "1", "nonce": "9", "to": "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045", "value": "1000000000000000000", "data": "0x", "gasLimit": "21000", "maxFeePerGas": "30000000000", "maxPriorityFeePerGas": "1000000000"}]},
			` + privateKeyProperty + `,
			"signature": {"type": "object", "required": ["r", "s", "yParity"], "title": "Signature", "description": "A signature of the transaction's hash that was created elsewhere. Use it instead of a private key.", "properties": {
				"r": {"type": "string", "pattern": "^0x[0-9a-fA-F]{1,64}$", "title": "r", "description": "The r value: 0x and up to 64 hexadecimal digits.", "examples": ["0x28ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276"]},
				"s": {"type": "string", "pattern": "^0x[0-9a-fA-F]{1,64}$", "title": "s", "description": "The s value, in the lower half of the curve's order: 0x and up to 64 hexadecimal digits.", "examples": ["0x67cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"]},
				"yParity": {"type": "integer", "enum": [0, 1], "title": "y parity", "description": "The parity of the y coordinate: 0 or 1.", "examples": [0]}
			}, "examples": [{"r": "0x28ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276", "s": "0x67cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83", "yParity": 0}]}
		}, "examples": [{"transaction": {"type": "legacy", "chainId": "1", "nonce": "9", "to": "0x3535353535353535353535353535353535353535", "value": "1000000000000000000", "data": "0x", "gasLimit": "21000", "gasPrice": "20000000000"}, "privateKey": "0x4646464646464646464646464646464646464646464646464646464646464646"}]`,
		Output: `"description": "The signed transaction.", "required": ["signedTransaction", "transactionHash", "from"], "properties": {
			"signedTransaction": {"type": "string", "pattern": "^0x([0-9a-f]{2})+$", "title": "Signed transaction", "description": "The serialized signed transaction, as BROADCAST_EVM_TRANSACTION accepts it.", "examples": ["0xf86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"]},
			"transactionHash": {` + hashOut + `, "title": "Transaction hash", "description": "The hash of the transaction.", "examples": ["0x33469b22e9f636356c4160a87eb19df52b7412e8eac32a4a55ffe88ea8350788"]},
			"from": {` + addressOut + `, "title": "From", "description": "The signer's address, in EIP-55 form.", "examples": ["0x9d8A62f656a8d1615C1294fd71e9CFb3E4855A4F"]}
		}`,
	}.Descriptor()
}

// externalSignature is a signature that was created elsewhere.
type externalSignature struct {
	R, S    string
	YParity component.Integer
}

func (g *externalSignature) UnmarshalJSON(data []byte) error {
	return decodeExact(data, map[string]any{"r": &g.R, "s": &g.S, "yParity": &g.YParity})
}

func (signTransaction) Run(_ context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct {
		Transaction json.RawMessage
		PrivateKey  *string
		Signature   *externalSignature
	}](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	if (input.PrivateKey == nil) == (input.Signature == nil) {
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "expected privateKey or signature, but not both")
	}
	transaction, err := parseOutgoing(input.Transaction)
	if err != nil {
		return component.Result{}, invalidAt("transaction", err)
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
		return component.Result{}, invalidAt("transaction.from", mismatchf("expected %s to sign, but %s did", expected.Hex(), from.Hex()))
	}
	signed, err := transaction.signed(signature)
	if err != nil {
		return component.Result{}, err
	}
	return component.Encode(map[string]string{"signedTransaction": hexOf(signed), "transactionHash": crypto.Keccak256Hash(signed).Hex(), "from": from.Hex()})
}

// of validates the signature of a hash and returns the signature with its signer's address.
func (g externalSignature) of(hash common.Hash) (signature65, common.Address, error) {
	var signature signature65
	for at, part := range []string{g.R, g.S} {
		digits, ok := strings.CutPrefix(part, "0x")
		number, numeric := new(big.Int).SetString(digits, 16)
		if !ok || !numeric || number.Sign() < 0 || number.BitLen() > 256 {
			return signature, common.Address{}, invalid("signature."+[]string{"r", "s"}[at], errors.New("expected 0x and 1 to 64 hexadecimal digits"))
		}
		number.FillBytes(signature[32*at : 32*at+32])
	}
	if g.YParity != 0 && g.YParity != 1 {
		return signature, common.Address{}, invalid("signature.yParity", errors.New("expected 0 or 1"))
	}
	signature[64] = byte(g.YParity)
	from, err := recoverSigner(hash, signature)
	if err != nil {
		return signature, from, invalid("signature", err)
	}
	return signature, from, nil
}
