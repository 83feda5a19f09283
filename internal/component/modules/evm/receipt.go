package evm

import (
	"encoding/json"

	"github.com/ethereum/go-ethereum/common"
)

// receipt is a transaction receipt. It decodes from JSON-RPC and encodes as in outputs.
type receipt struct {
	TransactionHash   hash      `json:"transactionHash"`
	TransactionIndex  ordinal   `json:"transactionIndex"`
	BlockHash         hash      `json:"blockHash"`
	BlockNumber       decimal   `json:"blockNumber"`
	From              address   `json:"from"`
	To                *address  `json:"to"`
	ContractAddress   *address  `json:"contractAddress"`
	Type              ordinal   `json:"type"`
	Status            *ordinal  `json:"status"`
	GasUsed           quantity  `json:"gasUsed"`
	CumulativeGasUsed *quantity `json:"cumulativeGasUsed"`
	EffectiveGasPrice *quantity `json:"effectiveGasPrice"`
	Logs              []entry   `json:"logs"`
	Root              *hash     `json:"-"` // state root, which receipts had instead of a status before Byzantium
}

func (r *receipt) UnmarshalJSON(data []byte) error {
	type plain receipt
	if err := decodeObject(data, "the receipt", (*plain)(r),
		[]string{"transactionHash", "transactionIndex", "blockHash", "blockNumber", "from", "gasUsed", "logs"}, "cumulativeGasUsed", "effectiveGasPrice"); err != nil {
		return err
	}
	if r.Status != nil {
		return nil
	}
	var read struct {
		Root *hash `json:"root"`
	}
	err := json.Unmarshal(data, &read)
	r.Root = read.Root
	return err
}

// entry is one log of a receipt.
type entry struct {
	Address  address `json:"address"`
	Topics   []hash  `json:"topics"`
	Data     blob    `json:"data"`
	LogIndex ordinal `json:"logIndex"`
}

func (e *entry) UnmarshalJSON(data []byte) error {
	type plain entry
	return decodeObject(data, "a log", (*plain)(e), []string{"address", "topics", "data", "logIndex"})
}

// check returns an error if the receipt is malformed or not that of the requested transaction.
func (r *receipt) check(want common.Hash) error {
	switch {
	case common.Hash(r.TransactionHash) != want:
		return protocolError("the receipt is for another transaction")
	case r.BlockHash == hash{}:
		return protocolError("the receipt has no block hash")
	case r.Status == nil && r.Root == nil, r.Status != nil && *r.Status > 1:
		return protocolError("the receipt has no status of 0 or 1")
	}
	for _, log := range r.Logs {
		if len(log.Topics) > maxTopics {
			return protocolError("a log of the receipt has more than 4 topics")
		}
	}
	return nil
}

// status returns success or reverted, or nil for a transaction from before Byzantium, whose receipt
// has no status.
func (r *receipt) status() *string {
	switch {
	case r.Status == nil:
		return nil
	case *r.Status == 0:
		return new("reverted")
	}
	return new("success")
}

const receiptSchema = `{"type": "object", "title": "Receipt", "description": "The transaction's receipt, decoded.", ` + receiptMembers + `}`

const receiptMembers = `"required": ["transactionHash", "transactionIndex", "blockHash", "blockNumber", "from", "to", "contractAddress", "type", "status", "gasUsed", "cumulativeGasUsed", "effectiveGasPrice", "logs"],
	"properties": {
		"transactionHash": {` + hashOut + `, "description": "The transaction's hash."},
		"transactionIndex": {"type": "integer", "description": "Its index in the block."},
		"blockHash": {` + hashOut + `, "description": "The block's hash."},
		"blockNumber": {` + decimalOut + `, "description": "The block's number, as a decimal string."},
		"from": {` + addressOut + `, "description": "The sender."},
		"to": {` + nullableAddressOut + `, "description": "The recipient; null if the transaction created a contract."},
		"contractAddress": {` + nullableAddressOut + `, "description": "The address of the created contract; null otherwise."},
		"type": {"type": "integer", "description": "The transaction's type (EIP-2718)."},
		"status": {"type": ["integer", "null"], "enum": [0, 1, null], "description": "1 for success, 0 for reverted; null for blocks before the Byzantium fork, whose receipts have no status."},
		"gasUsed": {` + decimalOut + `, "description": "The gas used, as a decimal string."},
		"cumulativeGasUsed": {` + nullableDecimalOut + `, "description": "The gas used in the block up to and including this transaction; null if the node doesn't report it."},
		"effectiveGasPrice": {` + nullableDecimalOut + `, "description": "The price paid for a unit of gas, in wei."},
		"logs": {"type": "array", "description": "The logs that contracts emitted.", "items": {"type": "object", "required": ["address", "topics", "data", "logIndex"], "properties": {
			"address": {` + addressOut + `, "description": "The contract that emitted the log."},
			"topics": {"type": "array", "items": {` + hashOut + `}, "description": "Its topics: the event's hash and the indexed values."},
			"data": {` + bytesOut + `, "description": "Its non-indexed values, ABI-encoded."},
			"logIndex": {"type": "integer", "description": "Its index in the block."}}}}
	}`
