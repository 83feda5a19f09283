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
	return nodeQuery{
		module: "ESTIMATE_EVM_GAS", title: "Estimate EVM gas",
		description: "Estimates the gas that a transaction needs (eth_estimateGas). If the transaction would revert, the execution fails with the decoded reason.",
		about:       "The transaction, and the block to simulate it at.",
		required:    `"jsonRpcUrl", "from"`,
		input: `"from": {"type": "string", "format": "evm-address", "title": "From", "description": "The sender.", "examples": ["0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"]},
			"to": {"type": "string", "format": "evm-address", "title": "To", "description": "The recipient. Leave it out to create a contract from data.", "examples": ["0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"]},
			"value": {` + uint256In + `, "default": "0", "title": "Value", "description": "The amount of the native coin to transfer, in wei: a decimal string, or a number below 2^53.", "examples": ["1000000000000000000"]},
			"data": {` + calldataIn + `, "title": "Data", "default": "0x", "description": "The encoded function call, or the code of a contract to create.", "examples": ["0x18160ddd"]},
			"blockTag": {` + blockIn + `, "title": "Block", "description": "The block whose state the estimate uses: latest, pending, safe, finalized, earliest, a number or a block hash. Without it, the node chooses the block; some nodes accept no other request.", "examples": ["latest", "19000000"]},
			` + errorsABIProperty,
		example:     `, "from": "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045", "to": "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "data": "0x18160ddd"`,
		returns:     "The estimate.",
		requiredOut: `"gas"`,
		output:      `"gas": {` + decimalOut + `, "title": "Gas", "description": "The lowest gas limit with which the transaction succeeds, as a decimal string. The transaction can need more by the time it is mined.", "examples": ["21000"]}`,
	}.descriptor()
}

func (m *estimateGas) Run(ctx context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct {
		From, To, Data string
		Value          amount
		BlockTag, ABI  json.RawMessage
	}](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	message, err := parseMessage(input.From, input.To, input.Value, input.Data)
	if err != nil {
		return component.Result{}, err
	}
	var block any
	if len(input.BlockTag) > 0 {
		if block, err = parseBlock(input.BlockTag); err != nil {
			return component.Result{}, invalid("blockTag", err)
		}
	}
	node, err := dialWithABI(m.guard, call.Input, input.ABI)
	if err != nil {
		return component.Result{}, err
	}
	gas, err := node.estimate(ctx, message, block)
	if err != nil {
		return component.Result{}, err
	}
	return component.Encode(map[string]decimal{"gas": decimal(gas)})
}

// callMessage is the part of a transaction that eth_call and eth_estimateGas need: everything
// except gas and fees.
type callMessage struct {
	from  common.Address
	to    *common.Address // nil: a contract is created
	value *big.Int
	data  []byte
}

// parseMessage parses the fields of an input. Empty fields have their defaults.
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
		return m, component.Permanent(component.CodeInvalidInput, "to: is required; it can be left out only if data creates a contract")
	}
	return m, nil
}

// estimate returns the gas that a transaction needs at a block. If block is nil, the node chooses it.
func (n *node) estimate(ctx context.Context, m callMessage, block any) (ordinal, error) {
	const method = "eth_estimateGas"
	message := map[string]string{"from": m.from.Hex(), "value": "0x" + m.value.Text(16), "data": hexOf(m.data)}
	if m.to != nil {
		message["to"] = m.to.Hex()
	}
	params := []any{message}
	if block != nil {
		params = append(params, block)
	}
	var gas ordinal
	if err := n.call(ctx, &gas, method, params...); err != nil {
		return 0, err
	}
	if gas == 0 {
		return 0, n.malformed(method, protocolError("the gas estimate is 0"))
	}
	return gas, nil
}
