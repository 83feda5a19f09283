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
	maxTopics = 4    // topics of a log
	maxLogs   = 1000 // logs in an output
)

type getLogs struct {
	formats
	guard *egress.Guard
}

func (*getLogs) Describe() component.Descriptor {
	return nodeQuery{
		module: "GET_EVM_LOGS", title: "EVM logs",
		description: "Returns the logs (events) of contracts, filtered by contract, topics and blocks (eth_getLogs), oldest first. If abi is set, the logs are decoded. " +
			"If there are more than 1,000 logs, the execution fails with OUTPUT_TOO_LARGE; request fewer blocks. Nodes also limit the number of blocks.",
		about:    "The filter.",
		required: `"jsonRpcUrl"`,
		input: `"address": {"type": ["string", "array"], "format": "evm-address", "items": {"type": "string", "format": "evm-address"}, "minItems": 1, "maxItems": 100, "title": "Address", "description": "One or more contracts. Without it, logs of all contracts are returned.", "examples": ["0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"]},
			"topics": {"type": "array", "maxItems": 4, "items": {"type": ["string", "array", "null"], "format": "evm-hash", "items": {"type": "string", "format": "evm-hash"}, "minItems": 1, "maxItems": 100}, "title": "Topics", "description": "The topics to match, by position: a value, an array of alternatives, or null for any. The first topic is the Keccak-256 hash of the event's signature.", "examples": [["0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef", null]]},
			"fromBlock": {` + blockIn + `, "default": "latest", "title": "From block", "description": "The first block: latest, safe, finalized, earliest or a number.", "examples": ["19000000"]},
			"toBlock": {` + blockIn + `, "default": "latest", "title": "To block", "description": "The last block: latest, safe, finalized, earliest or a number.", "examples": ["19000100"]},
			"blockHash": {"type": "string", "format": "evm-hash", "title": "Block hash", "description": "The hash of a single block. Use it instead of fromBlock and toBlock.", "examples": ["0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060"]},
			` + eventsABIProperty,
		example:     `, "address": "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "fromBlock": "19000000", "toBlock": "19000010", "abi": ["event Transfer(address indexed from, address indexed to, uint256 value)"]`,
		returns:     "The logs.",
		requiredOut: `"logs", "count"`,
		output: `"logs": {"type": "array", "title": "Logs", "description": "The logs, oldest first.", "items": {"type": "object", "required": ["address", "topics", "data", "blockNumber", "blockHash", "transactionHash", "transactionIndex", "logIndex", "eventName", "arguments", "values"], "properties": {
				"address": {` + addressOut + `, "description": "The contract that emitted the log."},
				"topics": {"type": "array", "items": {` + hashOut + `}, "description": "The event's hash, followed by the indexed values."},
				"data": {` + bytesOut + `, "description": "The non-indexed values, ABI-encoded."},
				"blockNumber": {` + decimalOut + `, "description": "The number of its block, as a decimal string."},
				"blockHash": {` + hashOut + `, "description": "The hash of its block."},
				"transactionHash": {` + hashOut + `, "description": "The hash of its transaction."},
				"transactionIndex": {"type": "integer", "description": "The index of the transaction in the block."},
				"logIndex": {"type": "integer", "description": "The index of the log in the block."},
				"eventName": {"type": ["string", "null"], "description": "The event's name; null if abi is missing or doesn't contain the event."},
				"arguments": {"type": ["array", "null"], "items": {}, "description": "The event's values in order, as DECODE_EVM_LOG returns them; null if eventName is null."},
				"values": {"type": ["object", "null"], "additionalProperties": {}, "description": "The values with unique names, by name; null if eventName is null."}}}},
			"count": {"type": "integer", "minimum": 0, "title": "Count", "description": "The number of logs.", "examples": [2]}`,
	}.descriptor()
}

type logsInput struct {
	Address   json.RawMessage `json:"address"`
	Topics    []oneOrMore     `json:"topics"`
	FromBlock json.RawMessage `json:"fromBlock"`
	ToBlock   json.RawMessage `json:"toBlock"`
	BlockHash string          `json:"blockHash"`
	ABI       json.RawMessage `json:"abi"`
}

// oneOrMore decodes from a string, an array of strings, or null. Null leaves it empty.
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
	node, err := dialWithABI(m.guard, call.Input, input.ABI)
	if err != nil {
		return component.Result{}, err
	}
	const method = "eth_getLogs"
	var found *[]chainLog
	if err := node.call(ctx, &found, method, filter.params()); err != nil {
		return component.Result{}, err
	}
	if found == nil {
		return component.Result{}, node.malformed(method, protocolError("the list of logs is null"))
	}
	logs := *found
	for i := range logs {
		if err := filter.check(&logs[i]); err != nil {
			return component.Result{}, node.malformed(method, err)
		}
	}
	if len(logs) > maxLogs {
		return component.Result{}, component.Permanent(component.CodeOutputTooLarge,
			"found %d logs, but an output can have at most %d; request fewer blocks, or filter by address and topics", len(logs), maxLogs).
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

// logFilter selects the requested logs. Responses are checked against the filter, so a node
// can't return logs of a different contract.
type logFilter struct {
	addresses []common.Address
	topics    [][]common.Hash // an empty element matches any topic
	from, to  any             // parameters of JSON-RPC
	block     *common.Hash
}

func (in logsInput) filter() (f logFilter, err error) {
	if len(in.Address) > 0 {
		var texts oneOrMore
		if err := json.Unmarshal(in.Address, &texts); err != nil {
			return f, invalid("address", errors.New("expected an address or an array of addresses"))
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
			return f, invalid("blockHash", errors.New("selects a single block; leave out fromBlock and toBlock"))
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

// parseEnd parses the first or the last block of a range.
func parseEnd(field string, raw json.RawMessage) (any, error) {
	block, err := parseBlock(raw)
	if err != nil {
		return nil, invalid(field, err)
	}
	if tag, ok := block.(string); !ok || tag == "pending" {
		return nil, invalid(field, errors.New("expected latest, safe, finalized, earliest or a number; use blockHash for a hash, pending blocks are not supported"))
	}
	return block, nil
}

// height returns the number of a block parameter. It returns false for tags other than earliest.
func height(block any) (uint64, bool) {
	text, _ := block.(string)
	if text == "earliest" {
		return 0, true
	}
	number, err := strconv.ParseUint(text, 0, 63)
	return number, err == nil
}

// params returns the filter in the encoding of JSON-RPC.
func (f logFilter) params() map[string]any {
	params := map[string]any{}
	if f.block != nil {
		params["blockHash"] = *f.block
	} else {
		params["fromBlock"], params["toBlock"] = f.from, f.to
	}
	if len(f.addresses) > 0 {
		params["address"] = f.addresses
	}
	if len(f.topics) > 0 {
		params["topics"] = f.topics
	}
	return params
}

// check returns an error if a log doesn't match the filter.
func (f logFilter) check(log *chainLog) error {
	switch {
	case log.Removed:
		return protocolError("a log is marked as removed")
	case len(log.Topics) > maxTopics:
		return protocolError("a log has more than 4 topics")
	case len(f.addresses) > 0 && !slices.Contains(f.addresses, common.Address(log.Address)):
		return protocolError("a log is from another contract")
	case f.block != nil && common.Hash(log.BlockHash) != *f.block:
		return protocolError("a log is from another block")
	}
	if first, ok := height(f.from); ok && uint64(log.BlockNumber) < first {
		return protocolError("a log is from a block before fromBlock")
	}
	if last, ok := height(f.to); ok && uint64(log.BlockNumber) > last {
		return protocolError("a log is from a block after toBlock")
	}
	// Nodes disagree on whether a topic that matches anything must be present.
	for i, wanted := range f.topics {
		if len(wanted) > 0 && (i >= len(log.Topics) || !slices.Contains(wanted, common.Hash(log.Topics[i]))) {
			return protocolError("a log doesn't match the topics")
		}
	}
	return nil
}

// chainLog is a log with its position in the chain. It decodes from JSON-RPC and encodes as in
// outputs.
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
	if err := decodeObject(data, "a log", &read, []string{"address", "topics", "data", "blockNumber", "blockHash", "transactionHash", "transactionIndex", "logIndex"}); err != nil {
		return err
	}
	*l = chainLog{
		Address: read.Address, Topics: read.Topics, Data: read.Data, BlockNumber: read.BlockNumber, BlockHash: read.BlockHash, TransactionHash: read.TransactionHash,
		TransactionIndex: read.TransactionIndex, LogIndex: read.LogIndex, Removed: read.Removed,
	}
	return nil
}

// compare orders logs by block number and log index.
func (l chainLog) compare(other chainLog) int {
	return slices.Compare([]uint64{uint64(l.BlockNumber), uint64(l.LogIndex)}, []uint64{uint64(other.BlockNumber), uint64(other.LogIndex)})
}

// decode adds the name and the values of the event. A log that matches no event of the ABI stays
// unchanged, because a contract can emit events that the ABI doesn't contain.
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
