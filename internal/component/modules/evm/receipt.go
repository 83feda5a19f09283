package evm

import "github.com/ethereum/go-ethereum/common"

// receipt is a transaction's receipt: decoded from JSON-RPC, encoded in the
// form of our outputs.
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
	CumulativeGasUsed quantity  `json:"cumulativeGasUsed"`
	EffectiveGasPrice *quantity `json:"effectiveGasPrice"`
	Logs              []entry   `json:"logs"`
	Root              *hash     `json:"-"` // of the state, in place of a status before Byzantium
}

func (r *receipt) UnmarshalJSON(data []byte) error {
	type plain receipt
	read := struct {
		*plain
		Root *hash `json:"root"`
	}{plain: (*plain)(r)}
	err := decodeObject(data, "the receipt", &read,
		"transactionHash", "transactionIndex", "blockHash", "blockNumber", "from", "gasUsed", "cumulativeGasUsed", "logs")
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
	return decodeObject(data, "a log", (*plain)(e), "address", "topics", "data", "logIndex")
}

// check says whether the receipt is one for the transaction that was asked.
func (r *receipt) check(asked common.Hash) error {
	switch {
	case common.Hash(r.TransactionHash) != asked:
		return breach("the receipt is that of another transaction")
	case r.BlockHash == hash{}:
		return breach("the receipt names no block")
	case r.Status == nil && r.Root == nil, r.Status != nil && *r.Status > 1:
		return breach("the receipt has no status of 0 or 1")
	}
	for _, log := range r.Logs {
		if len(log.Topics) > maxTopics {
			return breach("a log of the receipt has more than 4 topics")
		}
	}
	return nil
}

// status says whether the transaction took effect; nothing of one from before
// Byzantium, whose receipt does not tell.
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
		"transactionIndex": {"type": "integer", "description": "Its place in the block."},
		"blockHash": {` + hashOut + `, "description": "The block's hash."},
		"blockNumber": {` + decimalOut + `, "description": "The block's number, as a decimal string."},
		"from": {` + addressOut + `, "description": "The sender."},
		"to": {` + nullableAddressOut + `, "description": "The receiver; null when a contract was created."},
		"contractAddress": {` + nullableAddressOut + `, "description": "The contract that was created; null otherwise."},
		"type": {"type": "integer", "description": "The transaction's type (EIP-2718)."},
		"status": {"type": ["integer", "null"], "enum": [0, 1, null], "description": "1 success, 0 reverted; null in blocks from before the Byzantium fork, whose receipts do not tell."},
		"gasUsed": {` + decimalOut + `, "description": "Gas used, as a decimal string."},
		"cumulativeGasUsed": {` + decimalOut + `, "description": "Gas used in the block up to and with this transaction."},
		"effectiveGasPrice": {` + nullableDecimalOut + `, "description": "The price paid for a unit of gas, in wei."},
		"logs": {"type": "array", "description": "What the contracts logged.", "items": {"type": "object", "required": ["address", "topics", "data", "logIndex"], "properties": {
			"address": {` + addressOut + `, "description": "The contract."},
			"topics": {"type": "array", "items": {` + hashOut + `}, "description": "Its indexed values."},
			"data": {` + bytesOut + `, "description": "Its other values, ABI-encoded."},
			"logIndex": {"type": "integer", "description": "Its place in the block."}}}}
	}`
