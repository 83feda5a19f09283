package evm

import (
	"context"
	"encoding/json"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

type signTypedData struct{ formats }

func (signTypedData) Describe() component.Descriptor {
	const mail = `"domain": {"name": "Ether Mail", "version": "1", "chainId": 1, "verifyingContract": "0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC"},
			"types": {"Person": [{"name": "name", "type": "string"}, {"name": "wallet", "type": "address"}], "Mail": [{"name": "from", "type": "Person"}, {"name": "to", "type": "Person"}, {"name": "contents", "type": "string"}]},
			"primaryType": "Mail",
			"message": {"from": {"name": "Cow", "wallet": "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"}, "to": {"name": "Bob", "wallet": "0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB"}, "contents": "Hello, Bob!"}`
	return component.Computation{
		Module:   "SIGN_EVM_TYPED_DATA",
		Category: category,
		Title:    "Sign EVM typed data",
		Description: "Signs structured data, such as an order or a permit, as wallets do (eth_signTypedData_v4, EIP-712). " +
			"A message with a missing or unknown field, or with a value that doesn't match its type, is rejected.",
		Input: `"description": "The data, its types, and the private key.", "required": ["domain", "types", "primaryType", "message", "privateKey"], "properties": {
			"domain": {"type": "object", "additionalProperties": {}, "title": "Domain", "description": "The domain that the signature is valid in: those of name, version, chainId, verifyingContract and salt that the contract uses.", "examples": [{"name": "Ether Mail", "version": "1", "chainId": 1, "verifyingContract": "0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC"}]},
			"types": {"type": "object", "maxProperties": 256, "title": "Types", "description": "The struct types: each name maps to a list of fields. EIP712Domain is optional; by default it is derived from the fields of domain.", "additionalProperties": {"type": "array", "maxItems": 256, "items": {"type": "object", "required": ["name", "type"], "properties": {
				"name": {"type": "string", "maxLength": 256, "title": "Name", "description": "The name of the field.", "examples": ["wallet"]},
				"type": {"type": "string", "maxLength": 512, "title": "Type", "description": "The type of the field: a type such as uint256, address, bytes32, bytes or string, the name of a struct, or an array of one of them.", "examples": ["address"]}
			}}}, "examples": [{"Person": [{"name": "name", "type": "string"}, {"name": "wallet", "type": "address"}]}]},
			"primaryType": {"type": "string", "minLength": 1, "maxLength": 256, "title": "Primary type", "description": "The struct type of the message.", "examples": ["Mail"]},
			"message": {"type": "object", "additionalProperties": {}, "title": "Message", "description": "The values of the struct. Integers are decimal strings or JSON numbers up to 2^53-1, bytes are 0x and hexadecimal digits.", "examples": [{"name": "Cow", "wallet": "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"}]},
			` + privateKeyProperty + `
		}, "examples": [{` + mail + `, "privateKey": "0x4646464646464646464646464646464646464646464646464646464646464646"}]`,
		Output: `"description": "The signature.", "required": ["signature", "messageHash", "domainHash", "signer"], "properties": {
			` + signatureProperty + `,
			"messageHash": {` + hashOut + `, "title": "Message hash", "description": "The signed hash of the domain and the message.", "examples": ["0xbe609aee343fb3c4b28e1df9e632fca64fcfaede20f02e86244efddf30957bd2"]},
			"domainHash": {` + hashOut + `, "title": "Domain hash", "description": "The hash of the domain (the domain separator).", "examples": ["0xf2cee375fa42b42143804025fc449deafd50cc031ca257e0b194a650a912090f"]},
			` + signerProperty + `
		}`,
	}.Descriptor()
}

func (signTypedData) Run(_ context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct {
		Domain, Types, Message  json.RawMessage
		PrimaryType, PrivateKey string
	}](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	domain, err := strictjson.Decode(input.Domain)
	if err != nil {
		return component.Result{}, invalidAt("domain", mismatchf("expected an object"))
	}
	message, err := strictjson.Decode(input.Message)
	if err != nil {
		return component.Result{}, invalidAt("message", mismatchf("expected an object"))
	}
	hash, domainHash, err := typedDataHashes(input.Types, domain, message, input.PrimaryType)
	if err != nil {
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "%s", err)
	}
	signature, signer, err := sign(input.PrivateKey, hash)
	if err != nil {
		return component.Result{}, err
	}
	return component.Encode(map[string]string{"signature": signature.hex(), "messageHash": hash.Hex(), "domainHash": domainHash.Hex(), "signer": signer.Hex()})
}
