package evm

import (
	"context"
	"errors"
	"strconv"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/weft-automation/weft/internal/component"
)

// messageProperties is the schema of a message to sign, given as text or as hexadecimal bytes.
const messageProperties = `"message": {"type": "string", "title": "Message", "description": "The message, in the given encoding.", "examples": ["Hello World"]},
			"encoding": {"type": "string", "enum": ["utf8", "hex"], "default": "utf8", "title": "Encoding", "description": "The encoding of message: utf8 signs the string as UTF-8, even if it looks like hexadecimal digits; hex signs the bytes written as 0x and pairs of hexadecimal digits.", "examples": ["utf8"]}`

type signMessage struct{ formats }

func (signMessage) Describe() component.Descriptor {
	return component.Computation{
		Module:      "SIGN_EVM_MESSAGE",
		Category:    category,
		Title:       "Sign EVM message",
		Description: "Signs a message as wallets do (personal_sign, EIP-191). Such a signature is never valid for a transaction.",
		Input: `"description": "The message and the private key.", "required": ["message", "privateKey"], "properties": {
			` + messageProperties + `,
			` + privateKeyProperty + `
		}, "examples": [{"message": "Hello World", "privateKey": "0x4646464646464646464646464646464646464646464646464646464646464646"}]`,
		Output: `"description": "The signature.", "required": ["signature", "messageHash", "signer"], "properties": {
			` + signatureProperty + `,
			"messageHash": {` + hashOut + `, "title": "Message hash", "description": "The hash that was signed.", "examples": ["0xa1de988600a42c4b4ab089b619297c17d53cffae5d5120d82d8a92d0bb3b78f2"]},
			` + signerProperty + `
		}`,
	}.Descriptor()
}

func (signMessage) Run(_ context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct{ Message, Encoding, PrivateKey string }](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	hash, err := messageHash(input.Message, input.Encoding)
	if err != nil {
		return component.Result{}, err
	}
	signature, signer, err := sign(input.PrivateKey, hash)
	if err != nil {
		return component.Result{}, err
	}
	return component.Encode(map[string]string{"signature": signature.hex(), "messageHash": hash.Hex(), "signer": signer.Hex()})
}

// messageHash returns the hash to sign for a message (EIP-191, version 0x45).
func messageHash(message, encoding string) (common.Hash, error) {
	data := []byte(message)
	switch encoding {
	case "", "utf8":
	case "hex":
		var err error
		if data, err = parseBytes(message); err != nil {
			return common.Hash{}, invalid("message", errors.New("expected 0x and pairs of hexadecimal digits, because encoding is hex"))
		}
	default:
		return common.Hash{}, invalid("encoding", errors.New("expected utf8 or hex"))
	}
	return crypto.Keccak256Hash([]byte("\x19Ethereum Signed Message:\n"+strconv.Itoa(len(data))), data), nil
}
