package evm

import (
	"context"
	"encoding/json"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/platform/egress"
)

type getBlock struct {
	formats
	guard *egress.Guard
}

func (*getBlock) Describe() component.Descriptor {
	return nodeQuery{
		module: "GET_EVM_BLOCK", title: "EVM block",
		description: "Returns a block by tag, number or hash, with the hashes of its transactions or the full transactions. If the node doesn't have the block, found is false and block is null. " +
			"An output can have at most 1 MiB; few blocks with full transactions exceed this.",
		about:    "The block to return.",
		required: `"jsonRpcUrl"`,
		input: `"blockTag": {` + blockIn + `, "default": "latest", "title": "Block", "description": "The block: latest, pending, safe, finalized, earliest, a number or a block hash.", "examples": ["latest", "19000000"]},
			"wholeTransactions": {"type": "boolean", "default": false, "title": "Whole transactions", "description": "Whether to return full transactions in addition to their hashes.", "examples": [false]}`,
		example:     `, "blockTag": "latest"`,
		returns:     "The block, if the node has it.",
		requiredOut: `"found", "block", "transactions"`,
		output: `"found": {"type": "boolean", "title": "Found", "description": "Whether the node has the block.", "examples": [true]},
			"block": ` + blockSchema + `,
			"transactions": {"type": "array", "title": "Transactions", "description": "The full transactions in block order, with the field names of JSON-RPC; empty unless wholeTransactions is true.", "items": {"type": "object", ` + transactionMembers + `}}`,
	}.descriptor()
}

type blockOutput struct {
	Found        bool             `json:"found"`
	Block        *rpcBlock        `json:"block"`
	Transactions []rpcTransaction `json:"transactions"`
}

func (m *getBlock) Run(ctx context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct {
		BlockTag          json.RawMessage
		WholeTransactions bool
	}](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	block, err := parseBlock(input.BlockTag)
	if err != nil {
		return component.Result{}, invalid("blockTag", err)
	}
	node, err := dial(m.guard, call.Input)
	if err != nil {
		return component.Result{}, err
	}
	output := blockOutput{Transactions: []rpcTransaction{}}
	method := "eth_getBlockByNumber"
	if byHash, ok := block.(map[string]string); ok {
		method, block = "eth_getBlockByHash", byHash["blockHash"]
	}
	if err := node.call(ctx, &output.Block, method, block, input.WholeTransactions); err != nil {
		return component.Result{}, err
	}
	if output.Block == nil {
		return component.Encode(output)
	}
	output.Found = true
	err = output.Block.check(block.(string))
	if err == nil {
		err = output.list(input.WholeTransactions, block != "pending")
	}
	if err != nil {
		return component.Result{}, node.malformed(method, err)
	}
	return component.Encode(output)
}

// rpcBlock is a block. It decodes from JSON-RPC and encodes as in outputs. A field is nil if the
// chain doesn't have it.
type rpcBlock struct {
	Number           *decimal        `json:"number"`
	Hash             *hash           `json:"hash"`
	ParentHash       hash            `json:"parentHash"`
	Timestamp        decimal         `json:"timestamp"`
	Time             string          `json:"time"`
	Miner            *address        `json:"miner"`
	GasLimit         *quantity       `json:"gasLimit"`
	GasUsed          *quantity       `json:"gasUsed"`
	BaseFeePerGas    *quantity       `json:"baseFeePerGas"`
	BlobGasUsed      *quantity       `json:"blobGasUsed"`
	ExcessBlobGas    *quantity       `json:"excessBlobGas"`
	Difficulty       *quantity       `json:"difficulty"`
	ExtraData        *blob           `json:"extraData"`
	MixHash          *hash           `json:"mixHash"`
	StateRoot        *hash           `json:"stateRoot"`
	TransactionsRoot *hash           `json:"transactionsRoot"`
	ReceiptsRoot     *hash           `json:"receiptsRoot"`
	Size             *decimal        `json:"size"`
	Uncles           []hash          `json:"uncles"`
	Withdrawals      []withdrawal    `json:"withdrawals"`
	Transactions     json.RawMessage `json:"transactions"` // hashes in an output
}

// withdrawal is a payment from the beacon chain (EIP-4895).
type withdrawal struct {
	Index          decimal  `json:"index"`
	ValidatorIndex decimal  `json:"validatorIndex"`
	Address        address  `json:"address"`
	Amount         quantity `json:"amount"`
}

func (w *withdrawal) UnmarshalJSON(data []byte) error {
	type plain withdrawal
	return decodeObject(data, "a withdrawal", (*plain)(w), []string{"index", "validatorIndex", "address", "amount"})
}

func (b *rpcBlock) UnmarshalJSON(data []byte) error {
	type plain rpcBlock
	if err := decodeObject(data, "the block", (*plain)(b), []string{"parentHash", "timestamp", "transactions"},
		"miner", "gasLimit", "gasUsed", "blobGasUsed", "excessBlobGas", "difficulty", "extraData", "mixHash", "stateRoot", "transactionsRoot", "receiptsRoot", "size"); err != nil {
		return err
	}
	const lastSecond = 253402300799 // of the year 9999
	if b.Timestamp > lastSecond {
		return protocolError("the block's time is beyond the year 9999")
	}
	b.Time = time.Unix(int64(b.Timestamp), 0).UTC().Format("2006-01-02T15:04:05.000Z")
	if b.Uncles == nil {
		b.Uncles = []hash{}
	}
	if b.Withdrawals == nil {
		b.Withdrawals = []withdrawal{}
	}
	return nil
}

// check returns an error if the block is not the requested one. asked is a tag, a number or a hash
// in the encoding of JSON-RPC. A pending block has neither number nor hash.
func (b *rpcBlock) check(asked string) error {
	if asked == "pending" {
		return nil
	}
	if b.Number == nil || b.Hash == nil {
		return protocolError("the block has no number or no hash")
	}
	switch asked {
	case "latest", "safe", "finalized":
		return nil
	case "earliest":
		asked = "0x0"
	}
	if asked != common.Hash(*b.Hash).Hex() && asked != ordinal(*b.Number).hex() {
		return protocolError("the block is not the requested one")
	}
	return nil
}

// list converts the block's transactions into the form of the output. Unless the block is pending,
// list returns an error if a transaction claims to be in a different block or position.
func (o *blockOutput) list(full, mined bool) error {
	hashes := []hash{}
	var err error
	if full {
		err = json.Unmarshal(o.Block.Transactions, &o.Transactions)
	} else {
		err = json.Unmarshal(o.Block.Transactions, &hashes)
	}
	if err != nil {
		return err
	}
	for i, tx := range o.Transactions {
		if mined && !tx.in(*o.Block.Hash, *o.Block.Number, i) {
			return protocolError("a transaction of the block claims to be in another place")
		}
		hashes = append(hashes, tx.Hash)
	}
	o.Block.Transactions, err = json.Marshal(hashes)
	return err
}

const blockSchema = `{
	"type": ["object", "null"], "title": "Block", "description": "The decoded block; null if the node doesn't have it. Fields that the chain doesn't have, or that the node reports in an invalid form, are null.",
	"required": ["number", "hash", "parentHash", "timestamp", "time", "miner", "gasLimit", "gasUsed", "baseFeePerGas", "blobGasUsed", "excessBlobGas", "difficulty", "extraData", "mixHash", "stateRoot", "transactionsRoot", "receiptsRoot", "size", "uncles", "withdrawals", "transactions"],
	"properties": {
		"number": {` + nullableDecimalOut + `, "description": "The block number; null for a pending block if the node reports none."},
		"hash": {` + nullableHashOut + `, "description": "The block hash; null for a pending block if the node reports none."},
		"parentHash": {` + hashOut + `, "description": "The hash of the parent block."},
		"timestamp": {` + decimalOut + `, "description": "When it was made, in seconds since 1970."},
		"time": {"type": "string", "format": "date-time", "description": "The same time as RFC 3339."},
		"miner": {` + nullableAddressOut + `, "description": "The address that receives the tips."},
		"gasLimit": {` + nullableDecimalOut + `, "description": "The gas limit of the block; null on chains without one."},
		"gasUsed": {` + nullableDecimalOut + `, "description": "The gas that its transactions used."},
		"baseFeePerGas": {` + nullableDecimalOut + `, "description": "The base fee per unit of gas, in wei; null before EIP-1559 and on chains without it."},
		"blobGasUsed": {` + nullableDecimalOut + `, "description": "The gas that blobs used (EIP-4844)."},
		"excessBlobGas": {` + nullableDecimalOut + `, "description": "The excess blob gas, which determines the price of blob gas (EIP-4844)."},
		"difficulty": {` + nullableDecimalOut + `, "description": "The difficulty; 0 on proof-of-stake chains."},
		"extraData": {` + nullableBytesOut + `, "description": "The extra data set by the block producer."},
		"mixHash": {` + nullableHashOut + `, "description": "The random value of the beacon chain (EIP-4399), or part of the proof of work."},
		"stateRoot": {` + nullableHashOut + `, "description": "The root of the state after the block."},
		"transactionsRoot": {` + nullableHashOut + `, "description": "The root of the transactions."},
		"receiptsRoot": {` + nullableHashOut + `, "description": "The root of the receipts."},
		"size": {` + nullableDecimalOut + `, "description": "The size in bytes."},
		"uncles": {"type": "array", "items": {` + hashOut + `}, "description": "The hashes of the uncles."},
		"withdrawals": {"type": "array", "description": "The withdrawals from the beacon chain (EIP-4895).", "items": {"type": "object", "required": ["index", "validatorIndex", "address", "amount"], "properties": {
			"index": {` + decimalOut + `, "description": "The index of the withdrawal."},
			"validatorIndex": {` + decimalOut + `, "description": "The index of the validator."},
			"address": {` + addressOut + `, "description": "The recipient."},
			"amount": {` + decimalOut + `, "description": "The amount, in gwei."}}}},
		"transactions": {"type": "array", "items": {` + hashOut + `}, "description": "The hashes of the transactions, in block order."}
	}
}`
