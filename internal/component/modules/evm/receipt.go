package evm

import (
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/ethereum/go-ethereum/common"
)

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
}

// entry is one log of a receipt.
type entry struct {
	Address  address `json:"address"`
	Topics   []hash  `json:"topics"`
	Data     blob    `json:"data"`
	LogIndex ordinal `json:"logIndex"`
}

// check says whether the receipt is one for the transaction that was asked.
func (r *receipt) check(asked common.Hash) error {
	switch {
	case common.Hash(r.TransactionHash) != asked:
		return errors.New("the receipt is that of another transaction")
	case r.BlockHash == hash{}:
		return errors.New("the receipt names no block")
	case r.Status == nil || *r.Status > 1:
		return errors.New("the receipt has no status of 0 or 1")
	}
	if r.Logs == nil {
		r.Logs = []entry{}
	}
	for i := range r.Logs {
		if r.Logs[i].Topics == nil {
			r.Logs[i].Topics = []hash{}
		}
	}
	return nil
}

const receiptSchema = `{
	"type": "object",
	"title": "Receipt",
	"description": "The transaction's receipt, decoded.",
	"required": ["transactionHash", "transactionIndex", "blockHash", "blockNumber", "from", "to", "contractAddress", "type", "status", "gasUsed", "cumulativeGasUsed", "effectiveGasPrice", "logs"],
	"properties": {
		"transactionHash": {"type": "string", "pattern": "^0x[0-9a-f]{64}$", "description": "The transaction's hash."},
		"transactionIndex": {"type": "integer", "description": "Its place in the block."},
		"blockHash": {"type": "string", "pattern": "^0x[0-9a-f]{64}$", "description": "The block's hash."},
		"blockNumber": {"type": "string", "pattern": "^[0-9]+$", "description": "The block's number, as a decimal string."},
		"from": {"type": "string", "pattern": "^0x[0-9a-fA-F]{40}$", "description": "The sender."},
		"to": {"type": ["string", "null"], "pattern": "^0x[0-9a-fA-F]{40}$", "description": "The receiver; null when a contract was created."},
		"contractAddress": {"type": ["string", "null"], "pattern": "^0x[0-9a-fA-F]{40}$", "description": "The contract that was created; null otherwise."},
		"type": {"type": "integer", "description": "The transaction's type (EIP-2718)."},
		"status": {"type": "integer", "enum": [0, 1], "description": "1 success, 0 reverted."},
		"gasUsed": {"type": "string", "pattern": "^[0-9]+$", "description": "Gas used, as a decimal string."},
		"cumulativeGasUsed": {"type": "string", "pattern": "^[0-9]+$", "description": "Gas used in the block up to and with this transaction."},
		"effectiveGasPrice": {"type": ["string", "null"], "pattern": "^[0-9]+$", "description": "The price paid for a unit of gas, in wei."},
		"logs": {"type": "array", "description": "What the contracts logged.", "items": {"type": "object", "required": ["address", "topics", "data", "logIndex"], "properties": {
			"address": {"type": "string", "pattern": "^0x[0-9a-fA-F]{40}$", "description": "The contract."},
			"topics": {"type": "array", "items": {"type": "string", "pattern": "^0x[0-9a-f]{64}$"}, "description": "Its indexed values."},
			"data": {"type": "string", "pattern": "^0x([0-9a-f]{2})*$", "description": "Its other values, ABI-encoded."},
			"logIndex": {"type": "integer", "description": "Its place in the block."}}}}
	}
}`

// transaction is what is remembered of a transaction, to tell later what became
// of it.
type transaction struct {
	Hash  hash    `json:"hash"`
	From  address `json:"from"`
	Nonce ordinal `json:"nonce"`
}

// The scalars of JSON-RPC in the form of our outputs.
type (
	hash    common.Hash
	address common.Address
	blob    []byte
	decimal uint64 // an ordinal that goes out as a decimal string
)

func (h *hash) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		return errors.New("a hash is not a string")
	}
	parsed, err := parseHash(text)
	*h = hash(parsed)
	return err
}

func (h hash) MarshalJSON() ([]byte, error) { return json.Marshal(common.Hash(h).Hex()) }

func (a *address) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil || !common.IsHexAddress(text) {
		return errors.New("an address is not 0x and 40 hexadecimal digits")
	}
	*a = address(common.HexToAddress(text))
	return nil
}

func (a address) MarshalJSON() ([]byte, error) { return json.Marshal(common.Address(a).Hex()) }

func (b *blob) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		return errors.New("bytes are not a string")
	}
	parsed, err := parseBytes(text)
	*b = parsed
	return err
}

func (b blob) MarshalJSON() ([]byte, error) { return json.Marshal("0x" + hex.EncodeToString(b)) }

func (d *decimal) UnmarshalJSON(data []byte) error { return (*ordinal)(d).UnmarshalJSON(data) }

func (d decimal) MarshalJSON() ([]byte, error) { return json.Marshal(ordinal(d).String()) }
