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
	return asking{
		module: "GET_EVM_BLOCK", title: "EVM block",
		description: "Reads a block by its tag, number or hash, with the hashes of its transactions, or with the whole transactions too. A block that the node does not have is no failure: found is false and block null. " +
			"An output has at most 1 MiB, which few blocks with whole transactions exceed.",
		about:    "Which block to read.",
		required: `"jsonRpcUrl"`,
		input: `"blockTag": {` + blockIn + `, "default": "latest", "title": "Block", "description": "Which block: latest, pending, safe, finalized, earliest, a number or a block hash.", "examples": ["latest", "19000000"]},
			"wholeTransactions": {"type": "boolean", "default": false, "title": "Whole transactions", "description": "Whether to read the transactions themselves, and not their hashes alone.", "examples": [false]}`,
		example:     `, "blockTag": "latest"`,
		gives:       "The block, if the node has it.",
		requiredOut: `"found", "block", "transactions"`,
		output: `"found": {"type": "boolean", "title": "Found", "description": "Whether the node has the block.", "examples": [true]},
			"block": ` + blockSchema + `,
			"transactions": {"type": "array", "title": "Transactions", "description": "The whole transactions, under the names of JSON-RPC, in their order; empty unless they are asked for.", "items": {"type": "object", ` + transactionMembers + `}}`,
	}.descriptor()
}

type blockOutput struct {
	Found        bool             `json:"found"`
	Block        *rpcBlock        `json:"block"`
	Transactions []rpcTransaction `json:"transactions"`
}

func (m *getBlock) Run(ctx context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct {
		JSONRPCURL        string
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
	node, err := dial(m.guard, input.JSONRPCURL)
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

// rpcBlock is a block: decoded from JSON-RPC, encoded in the form of our
// outputs. What some chains do not have is nil there.
type rpcBlock struct {
	Number           *decimal        `json:"number"`
	Hash             *hash           `json:"hash"`
	ParentHash       hash            `json:"parentHash"`
	Timestamp        decimal         `json:"timestamp"`
	Time             string          `json:"time"`
	Miner            *address        `json:"miner"`
	GasLimit         quantity        `json:"gasLimit"`
	GasUsed          quantity        `json:"gasUsed"`
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
	return decodeObject(data, "a withdrawal", (*plain)(w), "index", "validatorIndex", "address", "amount")
}

func (b *rpcBlock) UnmarshalJSON(data []byte) error {
	type plain rpcBlock
	if err := decodeObject(data, "the block", (*plain)(b), "parentHash", "timestamp", "gasLimit", "gasUsed", "transactions"); err != nil {
		return err
	}
	const lastSecond = 253402300799 // of the year 9999
	if b.Timestamp > lastSecond {
		return breach("the block's time is beyond the year 9999")
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

// check says whether the block is the one that was asked for: a tag, a number
// or a hash, as JSON-RPC has them. A pending one has neither number nor hash.
func (b *rpcBlock) check(asked string) error {
	if asked == "pending" {
		return nil
	}
	if b.Number == nil || b.Hash == nil {
		return breach("the block has no number or no hash")
	}
	switch asked {
	case "latest", "safe", "finalized":
		return nil
	case "earliest":
		asked = "0x0"
	}
	if asked != common.Hash(*b.Hash).Hex() && asked != ordinal(*b.Number).hex() {
		return breach("the block is another one")
	}
	return nil
}

// list brings the block's transactions into the form of the output. Those of a
// block that is made name it.
func (o *blockOutput) list(whole, made bool) error {
	hashes := []hash{}
	var err error
	if whole {
		err = json.Unmarshal(o.Block.Transactions, &o.Transactions)
	} else {
		err = json.Unmarshal(o.Block.Transactions, &hashes)
	}
	if err != nil {
		return err
	}
	for i, tx := range o.Transactions {
		if made && !tx.in(*o.Block.Hash, *o.Block.Number, i) {
			return breach("a transaction of the block says that it is elsewhere")
		}
		hashes = append(hashes, tx.Hash)
	}
	o.Block.Transactions, err = json.Marshal(hashes)
	return err
}

const blockSchema = `{
	"type": ["object", "null"], "title": "Block", "description": "The block, decoded; null when the node does not have it. What a chain does not have is null.",
	"required": ["number", "hash", "parentHash", "timestamp", "time", "miner", "gasLimit", "gasUsed", "baseFeePerGas", "blobGasUsed", "excessBlobGas", "difficulty", "extraData", "mixHash", "stateRoot", "transactionsRoot", "receiptsRoot", "size", "uncles", "withdrawals", "transactions"],
	"properties": {
		"number": {` + nullableDecimalOut + `, "description": "The block's number; null of one that is pending, if the node says so."},
		"hash": {` + nullableHashOut + `, "description": "The block's hash; null likewise."},
		"parentHash": {` + hashOut + `, "description": "The hash of the block before."},
		"timestamp": {` + decimalOut + `, "description": "When it was made, in seconds since 1970."},
		"time": {"type": "string", "format": "date-time", "description": "The same time as RFC 3339."},
		"miner": {` + nullableAddressOut + `, "description": "Who gets the tips."},
		"gasLimit": {` + decimalOut + `, "description": "The most gas that its transactions may use together."},
		"gasUsed": {` + decimalOut + `, "description": "The gas that they used."},
		"baseFeePerGas": {` + nullableDecimalOut + `, "description": "What each unit of gas burnt, in wei; null before EIP-1559 and on chains without it."},
		"blobGasUsed": {` + nullableDecimalOut + `, "description": "The gas that blobs used (EIP-4844)."},
		"excessBlobGas": {` + nullableDecimalOut + `, "description": "The running excess of blob gas, from which its price comes."},
		"difficulty": {` + nullableDecimalOut + `, "description": "The difficulty; 0 on chains with proof of stake."},
		"extraData": {` + nullableBytesOut + `, "description": "What its maker wrote into it."},
		"mixHash": {` + nullableHashOut + `, "description": "The random value of the beacon chain (EIP-4399), or part of the proof of work."},
		"stateRoot": {` + nullableHashOut + `, "description": "The root of the state after it."},
		"transactionsRoot": {` + nullableHashOut + `, "description": "The root of its transactions."},
		"receiptsRoot": {` + nullableHashOut + `, "description": "The root of their receipts."},
		"size": {` + nullableDecimalOut + `, "description": "Its size in bytes."},
		"uncles": {"type": "array", "items": {` + hashOut + `}, "description": "The hashes of its uncles."},
		"withdrawals": {"type": "array", "description": "What it pays out from the beacon chain (EIP-4895).", "items": {"type": "object", "required": ["index", "validatorIndex", "address", "amount"], "properties": {
			"index": {` + decimalOut + `, "description": "The withdrawal's number."},
			"validatorIndex": {` + decimalOut + `, "description": "The validator's number."},
			"address": {` + addressOut + `, "description": "Who gets it."},
			"amount": {` + decimalOut + `, "description": "How much, in gwei."}}}},
		"transactions": {"type": "array", "items": {` + hashOut + `}, "description": "The hashes of its transactions, in their order."}
	}
}`
