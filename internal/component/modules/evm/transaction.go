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

// dialForTransaction decodes an input that has a node URL and a transaction hash. It returns the
// node and the hash.
func dialForTransaction(guard *egress.Guard, raw json.RawMessage) (*node, common.Hash, error) {
	input, err := component.Decode[struct{ TransactionHash string }](raw)
	if err != nil {
		return nil, common.Hash{}, err
	}
	asked, err := parseHash(input.TransactionHash)
	if err != nil {
		return nil, asked, invalid("transactionHash", err)
	}
	n, err := dial(guard, raw)
	return n, asked, err
}

func (*getTransaction) Describe() component.Descriptor {
	return nodeQuery{
		module: "GET_EVM_TRANSACTION", title: "EVM transaction",
		description: "Returns a mined or pending transaction by its hash (eth_getTransactionByHash). If the node doesn't know the transaction, found is false and transaction is null.",
		about:       "The transaction to look up.",
		required:    `"jsonRpcUrl", "transactionHash"`,
		input:       transactionHashIn,
		example:     `, "transactionHash": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060"`,
		returns:     "The transaction, if the node knows it.",
		requiredOut: `"found", "mined", "transaction"`,
		output: `"found": {"type": "boolean", "title": "Found", "description": "Whether the node knows the transaction.", "examples": [true]},
			"mined": {"type": "boolean", "title": "Mined", "description": "Whether the transaction is in a block. Its receipt has the status.", "examples": [true]},
			"transaction": ` + transactionSchema,
	}.descriptor()
}

func (m *getTransaction) Run(ctx context.Context, call component.Call) (component.Result, error) {
	node, asked, err := dialForTransaction(m.guard, call.Input)
	if err != nil {
		return component.Result{}, err
	}
	const method = "eth_getTransactionByHash"
	var found *rpcTransaction
	if err := node.call(ctx, &found, method, asked.Hex()); err != nil {
		return component.Result{}, err
	}
	if found != nil && common.Hash(found.Hash) != asked {
		return component.Result{}, node.malformed(method, protocolError("the transaction is not the requested one"))
	}
	return component.Encode(struct {
		Found       bool            `json:"found"`
		Mined       bool            `json:"mined"`
		Transaction *rpcTransaction `json:"transaction"`
	}{found != nil, found != nil && found.BlockHash != nil, found})
}

// rpcTransaction is a transaction with the field names of JSON-RPC. It decodes from JSON-RPC and
// encodes as in outputs.
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

// access is an entry of an access list (EIP-2930).
type access struct {
	Address     address `json:"address"`
	StorageKeys []hash  `json:"storageKeys"`
}

// authorization allows an account to run a contract's code (EIP-7702).
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
	if err := decodeObject(data, "a transaction", (*plain)(t), []string{"hash", "nonce", "from", "value", "gas", "input"},
		"gasPrice", "maxFeePerGas", "maxPriorityFeePerGas", "maxFeePerBlobGas", "v", "r", "s"); err != nil {
		return err
	}
	if (t.BlockHash == nil) != (t.BlockNumber == nil) {
		return protocolError("a transaction has only one of blockHash and blockNumber")
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

// in reports whether the transaction is at this index of this block.
func (t *rpcTransaction) in(block hash, number decimal, index int) bool {
	return t.BlockHash != nil && *t.BlockHash == block && *t.BlockNumber == number && t.TransactionIndex != nil && uint64(*t.TransactionIndex) == uint64(index)
}

func (a *access) UnmarshalJSON(data []byte) error {
	type plain access
	return decodeObject(data, "an entry of an access list", (*plain)(a), []string{"address", "storageKeys"})
}

func (a *authorization) UnmarshalJSON(data []byte) error {
	type plain authorization
	return decodeObject(data, "an authorization", (*plain)(a), []string{"chainId", "address", "nonce", "yParity", "r", "s"})
}

const transactionSchema = `{
	"type": ["object", "null"], "title": "Transaction", "description": "The decoded transaction, with the field names of JSON-RPC; null if the node doesn't know it.",
	` + transactionMembers + `
}`

const transactionMembers = `"required": ["hash", "type", "chainId", "nonce", "from", "to", "value", "gas", "input", "gasPrice", "maxFeePerGas", "maxPriorityFeePerGas", "accessList", "blobVersionedHashes", "maxFeePerBlobGas", "authorizationList", "v", "r", "s", "blockHash", "blockNumber", "transactionIndex"],
	"properties": {
		"hash": {` + hashOut + `, "description": "The transaction's hash."},
		"type": {"type": "integer", "description": "The transaction type (EIP-2718): 0 legacy, 1 access list, 2 EIP-1559, 3 blobs, 4 EIP-7702."},
		"chainId": {` + nullableDecimalOut + `, "description": "The ID of the chain that it was signed for; null if it is valid on any chain."},
		"nonce": {` + decimalOut + `, "description": "The nonce of the sender."},
		"from": {` + addressOut + `, "description": "The sender."},
		"to": {` + nullableAddressOut + `, "description": "The recipient; null if the transaction creates a contract."},
		"value": {` + decimalOut + `, "description": "The amount of the native coin to transfer, in wei."},
		"gas": {` + decimalOut + `, "description": "The gas limit."},
		"input": {` + bytesOut + `, "description": "The data: an encoded function call, or the code of a contract to create."},
		"gasPrice": {` + nullableDecimalOut + `, "description": "The gas price, in wei."},
		"maxFeePerGas": {` + nullableDecimalOut + `, "description": "The maximum total fee per unit of gas, in wei; null for types before EIP-1559."},
		"maxPriorityFeePerGas": {` + nullableDecimalOut + `, "description": "The maximum tip for the block producer per unit of gas, in wei; null for types before EIP-1559."},
		"accessList": {"type": "array", "description": "The access list (EIP-2930).", "items": {"type": "object", "required": ["address", "storageKeys"], "properties": {
			"address": {` + addressOut + `, "description": "The address of the contract."},
			"storageKeys": {"type": "array", "items": {` + hashOut + `}, "description": "The storage keys."}}}},
		"blobVersionedHashes": {"type": "array", "items": {` + hashOut + `}, "description": "The hashes of its blobs (EIP-4844)."},
		"maxFeePerBlobGas": {` + nullableDecimalOut + `, "description": "The maximum fee per unit of blob gas, in wei; null without blobs."},
		"authorizationList": {"type": "array", "description": "The authorizations of accounts to run a contract's code (EIP-7702).", "items": {"type": "object", "required": ["chainId", "address", "nonce", "yParity", "r", "s"], "properties": {
			"chainId": {` + decimalOut + `, "description": "The ID of the chain that it is valid on; 0 for every chain."},
			"address": {` + addressOut + `, "description": "The contract whose code runs."},
			"nonce": {` + decimalOut + `, "description": "The nonce of the signing account."},
			"yParity": {"type": "integer", "description": "The signature's parity."},
			"r": {` + hashOut + `, "description": "The signature's r."},
			"s": {` + hashOut + `, "description": "The signature's s."}}}},
		"v": {` + nullableDecimalOut + `, "description": "The v of the signature; null if the node doesn't report it."},
		"r": {` + nullableHashOut + `, "description": "The signature's r, 32 bytes."},
		"s": {` + nullableHashOut + `, "description": "The signature's s, 32 bytes."},
		"blockHash": {` + nullableHashOut + `, "description": "The hash of its block; null while pending."},
		"blockNumber": {` + nullableDecimalOut + `, "description": "The number of its block; null while pending."},
		"transactionIndex": {"type": ["integer", "null"], "description": "Its index in the block; null while pending."}
	}`
