package evm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/ethereum/go-ethereum/common"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/platform/egress"
)

const (
	maxTopics = 4    // of a log
	maxLogs   = 1000 // that a call gives
)

type getLogs struct {
	formats
	guard *egress.Guard
}

func (*getLogs) Describe() component.Descriptor {
	return asking{
		module: "GET_EVM_LOGS", title: "EVM logs",
		description: "Reads the logs (events) that contracts wrote, by contract, topics and blocks (eth_getLogs), oldest first. With an abi they come decoded. " +
			"At most 1,000 are given: more are OUTPUT_TOO_LARGE, and fewer blocks are to be asked for at a time. Nodes bound the number of blocks, too.",
		about:    "Which logs to read.",
		required: `"jsonRpcUrl"`,
		input: `"address": {"type": ["string", "array"], "format": "evm-address", "items": {"type": "string", "format": "evm-address"}, "minItems": 1, "maxItems": 100, "title": "Address", "description": "The contract whose logs are read, or several; without it those of all contracts.", "examples": ["0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"]},
			"topics": {"type": "array", "maxItems": 4, "items": {"type": ["string", "array", "null"], "format": "evm-hash", "items": {"type": "string", "format": "evm-hash"}, "minItems": 1, "maxItems": 100}, "title": "Topics", "description": "What the topics must be, in their order: a value, several of which one must match, or null for any. The first is the Keccak-256 of the event's signature.", "examples": [["0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef", null]]},
			"fromBlock": {` + blockIn + `, "default": "latest", "title": "From block", "description": "The first block: latest, safe, finalized, earliest or a number.", "examples": ["19000000"]},
			"toBlock": {` + blockIn + `, "default": "latest", "title": "To block", "description": "The last block: latest, safe, finalized, earliest or a number.", "examples": ["19000100"]},
			"blockHash": {"type": "string", "format": "evm-hash", "title": "Block hash", "description": "The one block to read, in place of fromBlock and toBlock.", "examples": ["0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060"]},
			` + eventsABIProperty,
		example:     `, "address": "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "fromBlock": "19000000", "toBlock": "19000010", "abi": ["event Transfer(address indexed from, address indexed to, uint256 value)"]`,
		gives:       "The logs.",
		requiredOut: `"logs", "count"`,
		output: `"logs": {"type": "array", "title": "Logs", "description": "The logs, oldest first.", "items": {"type": "object", "required": ["address", "topics", "data", "blockNumber", "blockHash", "transactionHash", "transactionIndex", "logIndex", "eventName", "arguments", "values"], "properties": {
				"address": {` + addressOut + `, "description": "The contract."},
				"topics": {"type": "array", "items": {` + hashOut + `}, "description": "Its indexed values, the event's hash first."},
				"data": {` + bytesOut + `, "description": "Its other values, ABI-encoded."},
				"blockNumber": {` + decimalOut + `, "description": "The block that holds it, as a decimal string."},
				"blockHash": {` + hashOut + `, "description": "The hash of that block."},
				"transactionHash": {` + hashOut + `, "description": "The transaction that wrote it."},
				"transactionIndex": {"type": "integer", "description": "The place of that transaction in the block."},
				"logIndex": {"type": "integer", "description": "Its own place in the block."},
				"eventName": {"type": ["string", "null"], "description": "The event's name; null without an abi, and when the abi does not have the event."},
				"arguments": {"type": ["array", "null"], "items": {}, "description": "The event's values in their order, as DECODE_EVM_LOG gives them; null where eventName is."},
				"values": {"type": ["object", "null"], "additionalProperties": {}, "description": "Those of them that have a name of their own, by name."}}}},
			"count": {"type": "integer", "minimum": 0, "title": "Count", "description": "How many logs there are.", "examples": [2]}`,
	}.descriptor()
}

type logsInput struct {
	JSONRPCURL string          `json:"jsonRpcUrl"`
	Address    json.RawMessage `json:"address"`
	Topics     []oneOrMore     `json:"topics"`
	FromBlock  json.RawMessage `json:"fromBlock"`
	ToBlock    json.RawMessage `json:"toBlock"`
	BlockHash  string          `json:"blockHash"`
	ABI        json.RawMessage `json:"abi"`
}

// oneOrMore is a text, several, or none for null.
type oneOrMore []string

func (o *oneOrMore) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte("[")) {
		return json.Unmarshal(data, (*[]string)(o))
	}
	if string(data) == "null" {
		return nil
	}
	*o = make([]string, 1)
	return json.Unmarshal(data, &(*o)[0])
}

func (m *getLogs) Run(ctx context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[logsInput](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	filter, err := input.filter()
	if err != nil {
		return component.Result{}, err
	}
	node, err := dialKnowing(m.guard, input.JSONRPCURL, input.ABI)
	if err != nil {
		return component.Result{}, err
	}
	const method = "eth_getLogs"
	var found *[]chainLog
	if err := node.call(ctx, &found, method, filter.params()); err != nil {
		return component.Result{}, err
	}
	if found == nil {
		return component.Result{}, node.malformed(method, breach("there is no list of logs"))
	}
	logs := *found
	for i := range logs {
		if err := filter.check(&logs[i]); err != nil {
			return component.Result{}, node.malformed(method, err)
		}
	}
	if len(logs) > maxLogs {
		return component.Result{}, component.Permanent(component.CodeOutputTooLarge,
			"there are %d logs, and at most %d are given; ask for fewer blocks at a time, or name the address and the topics", len(logs), maxLogs).
			With(map[string]int{"found": len(logs), "limit": maxLogs})
	}
	slices.SortStableFunc(logs, chainLog.compare)
	for i := range logs {
		logs[i].decode(node.contract)
	}
	return component.Encode(struct {
		Logs  []chainLog `json:"logs"`
		Count int        `json:"count"`
	}{logs, len(logs)})
}

// logFilter is which logs are asked for. An answer is held against it, so that
// a node cannot pass off one contract's logs as another's.
type logFilter struct {
	addresses []common.Address
	topics    [][]common.Hash // of a place without any, all match
	from, to  any             // parameters of JSON-RPC
	block     *common.Hash
}

func (in logsInput) filter() (f logFilter, err error) {
	if len(in.Address) > 0 {
		var texts oneOrMore
		if err := json.Unmarshal(in.Address, &texts); err != nil {
			return f, invalid("address", errors.New("an address or an array of addresses is needed"))
		}
		for _, text := range texts {
			address, err := parseAddress(text)
			if err != nil {
				return f, invalid("address", err)
			}
			f.addresses = append(f.addresses, address)
		}
	}
	for i, texts := range in.Topics {
		var wanted []common.Hash
		for _, text := range texts {
			topic, err := parseHash(text)
			if err != nil {
				return f, invalid(fmt.Sprintf("topics[%d]", i), err)
			}
			wanted = append(wanted, topic)
		}
		f.topics = append(f.topics, wanted)
	}
	if in.BlockHash != "" {
		if len(in.FromBlock)+len(in.ToBlock) > 0 {
			return f, invalid("blockHash", errors.New("names one block; leave fromBlock and toBlock out"))
		}
		hash, err := parseHash(in.BlockHash)
		if err != nil {
			return f, invalid("blockHash", err)
		}
		f.block = &hash
		return f, nil
	}
	if f.from, err = parseEnd("fromBlock", in.FromBlock); err != nil {
		return f, err
	}
	if f.to, err = parseEnd("toBlock", in.ToBlock); err != nil {
		return f, err
	}
	first, bounded := height(f.from)
	if last, ok := height(f.to); bounded && ok && last < first {
		return f, invalid("toBlock", fmt.Errorf("is block %d, which is before fromBlock, %d", last, first))
	}
	return f, nil
}

// parseEnd reads the first or the last block of a range.
func parseEnd(field string, raw json.RawMessage) (any, error) {
	block, err := parseBlock(raw)
	if err != nil {
		return nil, invalid(field, err)
	}
	if tag, ok := block.(string); !ok || tag == "pending" {
		return nil, invalid(field, errors.New("is latest, safe, finalized, earliest or a number; a hash goes into blockHash, and logs of pending blocks are not read"))
	}
	return block, nil
}

// height is the number of a block that is named by one.
func height(block any) (uint64, bool) {
	text, _ := block.(string)
	if text == "earliest" {
		return 0, true
	}
	number, err := strconv.ParseUint(text, 0, 63)
	return number, err == nil
}

// params is the filter as JSON-RPC wants it.
func (f logFilter) params() map[string]any {
	asked := map[string]any{}
	if f.block != nil {
		asked["blockHash"] = *f.block
	} else {
		asked["fromBlock"], asked["toBlock"] = f.from, f.to
	}
	if len(f.addresses) > 0 {
		asked["address"] = f.addresses
	}
	if len(f.topics) > 0 {
		asked["topics"] = f.topics
	}
	return asked
}

// check says whether a log is one of those that were asked for.
func (f logFilter) check(log *chainLog) error {
	switch {
	case log.Removed:
		return breach("a log is one that was removed")
	case len(log.Topics) > maxTopics:
		return breach("a log has more than 4 topics")
	case len(f.addresses) > 0 && !slices.Contains(f.addresses, common.Address(log.Address)):
		return breach("a log is of another contract")
	case f.block != nil && common.Hash(log.BlockHash) != *f.block:
		return breach("a log is of another block")
	}
	if first, ok := height(f.from); ok && uint64(log.BlockNumber) < first {
		return breach("a log is of a block before those that were asked for")
	}
	if last, ok := height(f.to); ok && uint64(log.BlockNumber) > last {
		return breach("a log is of a block after those that were asked for")
	}
	// Whether a place where all match has to be there at all, nodes do not agree.
	for i, wanted := range f.topics {
		if len(wanted) > 0 && (i >= len(log.Topics) || !slices.Contains(wanted, common.Hash(log.Topics[i]))) {
			return breach("a log has other topics")
		}
	}
	return nil
}

// chainLog is a log with its place: decoded from JSON-RPC, encoded in the form
// of our outputs.
type chainLog struct {
	Address          address        `json:"address"`
	Topics           []hash         `json:"topics"`
	Data             blob           `json:"data"`
	BlockNumber      decimal        `json:"blockNumber"`
	BlockHash        hash           `json:"blockHash"`
	TransactionHash  hash           `json:"transactionHash"`
	TransactionIndex ordinal        `json:"transactionIndex"`
	LogIndex         ordinal        `json:"logIndex"`
	EventName        *string        `json:"eventName"`
	Arguments        []any          `json:"arguments"`
	Values           map[string]any `json:"values"`
	Removed          bool           `json:"-"`
}

func (l *chainLog) UnmarshalJSON(data []byte) error {
	var read struct {
		Address          address
		Topics           []hash
		Data             blob
		BlockNumber      decimal
		BlockHash        hash
		TransactionHash  hash
		TransactionIndex ordinal
		LogIndex         ordinal
		Removed          bool
	}
	if err := decodeObject(data, "a log", &read, "address", "topics", "data", "blockNumber", "blockHash", "transactionHash", "transactionIndex", "logIndex"); err != nil {
		return err
	}
	*l = chainLog{
		Address: read.Address, Topics: read.Topics, Data: read.Data, BlockNumber: read.BlockNumber, BlockHash: read.BlockHash, TransactionHash: read.TransactionHash,
		TransactionIndex: read.TransactionIndex, LogIndex: read.LogIndex, Removed: read.Removed,
	}
	return nil
}

// compare orders logs by their places.
func (l chainLog) compare(other chainLog) int {
	return slices.Compare([]uint64{uint64(l.BlockNumber), uint64(l.LogIndex)}, []uint64{uint64(other.BlockNumber), uint64(other.LogIndex)})
}

// decode adds what the interface tells of the log. A log that none of its
// events fits stays as it is: a contract writes logs of other kinds, too.
func (l *chainLog) decode(contract *contractABI) {
	if contract == nil || len(contract.events) == 0 {
		return
	}
	topics := make([]common.Hash, len(l.Topics))
	for i, topic := range l.Topics {
		topics[i] = common.Hash(topic)
	}
	event, list, err := readLog(contract.events, topics, l.Data)
	if err != nil {
		return
	}
	l.EventName, l.Arguments, l.Values = &event.name, list, byName(event.inputs, list)
}
