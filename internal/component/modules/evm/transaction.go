package evm

import (
	"context"
	"encoding/json"

	"github.com/ethereum/go-ethereum/common"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/platform/egress"
)

type getTransaction struct {
	formats
	guard *egress.Guard
}

const transactionHashIn = `"transactionHash": {"type": "string", "format": "evm-hash", "title": "Transaction hash", "description": "The transaction's hash.", "examples": ["0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060"]}`

// dialAbout reads an input that is a node and the hash of a transaction.
func dialAbout(guard *egress.Guard, raw json.RawMessage) (*node, common.Hash, error) {
	input, err := component.Decode[struct{ JSONRPCURL, TransactionHash string }](raw)
	if err != nil {
		return nil, common.Hash{}, err
	}
	asked, err := parseHash(input.TransactionHash)
	if err != nil {
		return nil, asked, invalid("transactionHash", err)
	}
	n, err := dial(guard, input.JSONRPCURL)
	return n, asked, err
}

func (*getTransaction) Describe() component.Descriptor {
	return asking{
		module: "GET_EVM_TRANSACTION", title: "EVM transaction",
		description: "Reads a transaction by its hash (eth_getTransactionByHash), mined or still waiting. One that the node does not know is no failure: found is false and transaction null.",
		about:       "Which transaction to read.",
		required:    `"jsonRpcUrl", "transactionHash"`,
		input:       transactionHashIn,
		example:     `, "transactionHash": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060"`,
		gives:       "The transaction, as far as the node knows it.",
		requiredOut: `"found", "mined", "transaction"`,
		output: `"found": {"type": "boolean", "title": "Found", "description": "Whether the node knows the transaction.", "examples": [true]},
			"mined": {"type": "boolean", "title": "Mined", "description": "Whether a block holds it. Whether it took effect is in its receipt.", "examples": [true]},
			"transaction": ` + transactionSchema,
	}.descriptor()
}

func (m *getTransaction) Run(ctx context.Context, call component.Call) (component.Result, error) {
	node, asked, err := dialAbout(m.guard, call.Input)
	if err != nil {
		return component.Result{}, err
	}
	const method = "eth_getTransactionByHash"
	var found *rpcTransaction
	if err := node.call(ctx, &found, method, asked.Hex()); err != nil {
		return component.Result{}, err
	}
	if found != nil && common.Hash(found.Hash) != asked {
		return component.Result{}, node.malformed(method, breach("the transaction is another one"))
	}
	return component.Encode(struct {
		Found       bool            `json:"found"`
		Mined       bool            `json:"mined"`
		Transaction *rpcTransaction `json:"transaction"`
	}{found != nil, found != nil && found.BlockHash != nil, found})
}

// rpcTransaction is a transaction as nodes tell it: decoded from JSON-RPC,
// encoded in the form of our outputs, under the names of JSON-RPC.
type rpcTransaction struct {
	Hash                 hash            `json:"hash"`
	Type                 ordinal         `json:"type"`
	ChainID              *quantity       `json:"chainId"`
	Nonce                decimal         `json:"nonce"`
	From                 address         `json:"from"`
	To                   *address        `json:"to"`
	Value                quantity        `json:"value"`
	Gas                  decimal         `json:"gas"`
	Input                blob            `json:"input"`
	GasPrice             *quantity       `json:"gasPrice"`
	MaxFeePerGas         *quantity       `json:"maxFeePerGas"`
	MaxPriorityFeePerGas *quantity       `json:"maxPriorityFeePerGas"`
	AccessList           []access        `json:"accessList"`
	BlobVersionedHashes  []hash          `json:"blobVersionedHashes"`
	MaxFeePerBlobGas     *quantity       `json:"maxFeePerBlobGas"`
	AuthorizationList    []authorization `json:"authorizationList"`
	V                    *quantity       `json:"v"`
	R                    *padded         `json:"r"`
	S                    *padded         `json:"s"`
	BlockHash            *hash           `json:"blockHash"`
	BlockNumber          *decimal        `json:"blockNumber"`
	TransactionIndex     *ordinal        `json:"transactionIndex"`
}

// access is what a transaction says that it touches (EIP-2930).
type access struct {
	Address     address `json:"address"`
	StorageKeys []hash  `json:"storageKeys"`
}

// authorization lets an account run a contract's code (EIP-7702).
type authorization struct {
	ChainID quantity `json:"chainId"`
	Address address  `json:"address"`
	Nonce   decimal  `json:"nonce"`
	YParity ordinal  `json:"yParity"`
	R       padded   `json:"r"`
	S       padded   `json:"s"`
}

func (t *rpcTransaction) UnmarshalJSON(data []byte) error {
	type plain rpcTransaction
	if err := decodeObject(data, "a transaction", (*plain)(t), "hash", "nonce", "from", "value", "gas", "input"); err != nil {
		return err
	}
	if (t.BlockHash == nil) != (t.BlockNumber == nil) {
		return breach("a transaction names half a block")
	}
	if t.AccessList == nil {
		t.AccessList = []access{}
	}
	if t.BlobVersionedHashes == nil {
		t.BlobVersionedHashes = []hash{}
	}
	if t.AuthorizationList == nil {
		t.AuthorizationList = []authorization{}
	}
	return nil
}

// in says whether the transaction claims this place.
func (t *rpcTransaction) in(block hash, number decimal, index int) bool {
	return t.BlockHash != nil && *t.BlockHash == block && *t.BlockNumber == number && t.TransactionIndex != nil && uint64(*t.TransactionIndex) == uint64(index)
}

func (a *access) UnmarshalJSON(data []byte) error {
	type plain access
	return decodeObject(data, "an entry of an access list", (*plain)(a), "address", "storageKeys")
}

func (a *authorization) UnmarshalJSON(data []byte) error {
	type plain authorization
	return decodeObject(data, "an authorization", (*plain)(a), "chainId", "address", "nonce", "yParity", "r", "s")
}

const transactionSchema = `{
	"type": ["object", "null"], "title": "Transaction", "description": "The transaction, decoded, under the names of JSON-RPC; null when the node does not know it.",
	` + transactionMembers + `
}`

const transactionMembers = `"required": ["hash", "type", "chainId", "nonce", "from", "to", "value", "gas", "input", "gasPrice", "maxFeePerGas", "maxPriorityFeePerGas", "accessList", "blobVersionedHashes", "maxFeePerBlobGas", "authorizationList", "v", "r", "s", "blockHash", "blockNumber", "transactionIndex"],
	"properties": {
		"hash": {` + hashOut + `, "description": "The transaction's hash."},
		"type": {"type": "integer", "description": "Its type (EIP-2718): 0 legacy, 1 with an access list, 2 of EIP-1559, 3 with blobs, 4 of EIP-7702."},
		"chainId": {` + nullableDecimalOut + `, "description": "The chain that it was signed for; null where it was signed for any."},
		"nonce": {` + decimalOut + `, "description": "Its place among the sender's transactions."},
		"from": {` + addressOut + `, "description": "The sender."},
		"to": {` + nullableAddressOut + `, "description": "The receiver; null when it creates a contract."},
		"value": {` + decimalOut + `, "description": "How much of the native coin it carries, in wei."},
		"gas": {` + decimalOut + `, "description": "The most gas that it may use."},
		"input": {` + bytesOut + `, "description": "Its data: the encoded function call, or the code that creates a contract."},
		"gasPrice": {` + nullableDecimalOut + `, "description": "What it pays for a unit of gas, in wei."},
		"maxFeePerGas": {` + nullableDecimalOut + `, "description": "The most that it pays for a unit of gas, in wei; null of other types than those of EIP-1559 and later."},
		"maxPriorityFeePerGas": {` + nullableDecimalOut + `, "description": "What it offers to whoever makes the block, for a unit of gas; null likewise."},
		"accessList": {"type": "array", "description": "What it says that it touches (EIP-2930).", "items": {"type": "object", "required": ["address", "storageKeys"], "properties": {
			"address": {` + addressOut + `, "description": "The contract."},
			"storageKeys": {"type": "array", "items": {` + hashOut + `}, "description": "The places of its storage."}}}},
		"blobVersionedHashes": {"type": "array", "items": {` + hashOut + `}, "description": "The hashes of its blobs (EIP-4844)."},
		"maxFeePerBlobGas": {` + nullableDecimalOut + `, "description": "The most that it pays for a unit of blob gas, in wei; null without blobs."},
		"authorizationList": {"type": "array", "description": "The accounts that it lets run a contract's code (EIP-7702).", "items": {"type": "object", "required": ["chainId", "address", "nonce", "yParity", "r", "s"], "properties": {
			"chainId": {` + decimalOut + `, "description": "The chain that it holds on; 0 is every one."},
			"address": {` + addressOut + `, "description": "The contract whose code is run."},
			"nonce": {` + decimalOut + `, "description": "The nonce of the account that signed."},
			"yParity": {"type": "integer", "description": "The signature's parity."},
			"r": {` + hashOut + `, "description": "The signature's r."},
			"s": {` + hashOut + `, "description": "The signature's s."}}}},
		"v": {` + nullableDecimalOut + `, "description": "The signature's v; null where the chain's node does not tell it."},
		"r": {` + nullableHashOut + `, "description": "The signature's r, 32 bytes."},
		"s": {` + nullableHashOut + `, "description": "The signature's s, 32 bytes."},
		"blockHash": {` + nullableHashOut + `, "description": "The block that holds it; null while it waits."},
		"blockNumber": {` + nullableDecimalOut + `, "description": "The number of that block; null while it waits."},
		"transactionIndex": {"type": ["integer", "null"], "description": "Its place in that block; null while it waits."}
	}`
