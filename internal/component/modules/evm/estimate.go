package evm

import (
	"context"
	"encoding/json"
	"math/big"

	"github.com/ethereum/go-ethereum/common"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/platform/egress"
)

type estimateGas struct {
	formats
	guard *egress.Guard
}

func (*estimateGas) Describe() component.Descriptor {
	return asking{
		module: "ESTIMATE_EVM_GAS", title: "Estimate EVM gas",
		description: "Asks a node how much gas a transaction would use (eth_estimateGas). One that would revert fails with its decoded reason. Without a receiver the data creates a contract.",
		about:       "The transaction, and at which block it is tried.",
		required:    `"jsonRpcUrl", "from"`,
		input: `"from": {"type": "string", "format": "evm-address", "title": "From", "description": "Who would send it.", "examples": ["0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"]},
			"to": {"type": "string", "format": "evm-address", "title": "To", "description": "Who would receive it; without it the data creates a contract.", "examples": ["0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"]},
			"value": {` + uint256In + `, "default": "0", "title": "Value", "description": "How much of the native coin it would carry, in wei, as a decimal string, or below 2^53 as a number.", "examples": ["1000000000000000000"]},
			"data": {` + calldataIn + `, "title": "Data", "default": "0x", "description": "The encoded function call, or the code that creates a contract.", "examples": ["0x18160ddd"]},
			"blockTag": {` + blockIn + `, "default": "latest", "title": "Block", "description": "At which block it is tried: latest, pending, safe, finalized, earliest, a number or a block hash.", "examples": ["latest", "19000000"]},
			` + errorsABIProperty,
		example:     `, "from": "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045", "to": "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "data": "0x18160ddd"`,
		gives:       "What the transaction would use.",
		requiredOut: `"gas"`,
		output:      `"gas": {` + decimalOut + `, "title": "Gas", "description": "The least gas limit with which the transaction would not run out, as a decimal string. Between now and its block it may come to need more.", "examples": ["21000"]}`,
	}.descriptor()
}

func (m *estimateGas) Run(ctx context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct {
		JSONRPCURL, From, To, Data string
		Value                      amount
		BlockTag, ABI              json.RawMessage
	}](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	tried, err := parseMessage(input.From, input.To, input.Value, input.Data)
	if err != nil {
		return component.Result{}, err
	}
	block, err := parseBlock(input.BlockTag)
	if err != nil {
		return component.Result{}, invalid("blockTag", err)
	}
	node, err := dialKnowing(m.guard, input.JSONRPCURL, input.ABI)
	if err != nil {
		return component.Result{}, err
	}
	gas, err := node.estimate(ctx, tried, block)
	if err != nil {
		return component.Result{}, err
	}
	return component.Encode(map[string]decimal{"gas": decimal(gas)})
}

// callMessage is what a transaction does, without what it pays.
type callMessage struct {
	from  common.Address
	to    *common.Address // nil: a contract is created
	value *big.Int
	data  []byte
}

// parseMessage reads the fields of an input; those that are empty are at their
// default.
func parseMessage(from, to string, value amount, data string) (callMessage, error) {
	m := callMessage{value: new(big.Int)}
	var err error
	if m.from, err = parseAddress(from); err != nil {
		return m, invalid("from", err)
	}
	if to != "" {
		receiver, err := parseAddress(to)
		if err != nil {
			return m, invalid("to", err)
		}
		m.to = &receiver
	}
	if value != "" {
		if m.value, err = parseUint(string(value), 256); err != nil {
			return m, invalid("value", err)
		}
	}
	if data != "" {
		if m.data, err = parseBytes(data); err != nil {
			return m, invalid("data", err)
		}
	}
	if m.to == nil && len(m.data) == 0 {
		return m, component.Permanent(component.CodeInvalidInput, "to: is required: expected an address; only data that creates a contract has no receiver")
	}
	return m, nil
}

func (n *node) estimate(ctx context.Context, m callMessage, block any) (ordinal, error) {
	const method = "eth_estimateGas"
	tried := map[string]string{"from": m.from.Hex(), "value": "0x" + m.value.Text(16), "data": hexOf(m.data)}
	if m.to != nil {
		tried["to"] = m.to.Hex()
	}
	var gas ordinal
	if err := n.call(ctx, &gas, method, tried, block); err != nil {
		return 0, err
	}
	if gas == 0 {
		return 0, n.malformed(method, breach("a transaction uses more gas than 0"))
	}
	return gas, nil
}
