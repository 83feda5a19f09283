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
		"transactionHash": {"type": "string", "pattern": "^0x[0-9a-f]{64}$", "description": "The transaction's hash."},
		"transactionIndex": {"type": "integer", "description": "Its place in the block."},
		"blockHash": {"type": "string", "pattern": "^0x[0-9a-f]{64}$", "description": "The block's hash."},
		"blockNumber": {"type": "string", "pattern": "^[0-9]+$", "description": "The block's number, as a decimal string."},
		"from": {"type": "string", "pattern": "^0x[0-9a-fA-F]{40}$", "description": "The sender."},
		"to": {"type": ["string", "null"], "pattern": "^0x[0-9a-fA-F]{40}$", "description": "The receiver; null when a contract was created."},
		"contractAddress": {"type": ["string", "null"], "pattern": "^0x[0-9a-fA-F]{40}$", "description": "The contract that was created; null otherwise."},
		"type": {"type": "integer", "description": "The transaction's type (EIP-2718)."},
		"status": {"type": ["integer", "null"], "enum": [0, 1, null], "description": "1 success, 0 reverted; null in blocks from before the Byzantium fork, whose receipts do not tell."},
		"gasUsed": {"type": "string", "pattern": "^[0-9]+$", "description": "Gas used, as a decimal string."},
		"cumulativeGasUsed": {"type": "string", "pattern": "^[0-9]+$", "description": "Gas used in the block up to and with this transaction."},
		"effectiveGasPrice": {"type": ["string", "null"], "pattern": "^[0-9]+$", "description": "The price paid for a unit of gas, in wei."},
		"logs": {"type": "array", "description": "What the contracts logged.", "items": {"type": "object", "required": ["address", "topics", "data", "logIndex"], "properties": {
			"address": {"type": "string", "pattern": "^0x[0-9a-fA-F]{40}$", "description": "The contract."},
			"topics": {"type": "array", "items": {"type": "string", "pattern": "^0x[0-9a-f]{64}$"}, "description": "Its indexed values."},
			"data": {"type": "string", "pattern": "^0x([0-9a-f]{2})*$", "description": "Its other values, ABI-encoded."},
			"logIndex": {"type": "integer", "description": "Its place in the block."}}}}
	}`

// transaction is what is remembered of a transaction, to tell later what became
// of it.
type transaction struct {
	Hash  hash    `json:"hash"`
	From  address `json:"from"`
	Nonce ordinal `json:"nonce"`
}

func (t *transaction) UnmarshalJSON(data []byte) error {
	type plain transaction
	return decodeObject(data, "the transaction", (*plain)(t), "hash", "from", "nonce")
}
