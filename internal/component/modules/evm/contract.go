package evm

import (
	"context"
	"encoding/json"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/platform/egress"
)

type readContract struct {
	formats
	guard *egress.Guard
}

func (*readContract) Describe() component.Descriptor {
	return nodeQuery{
		module: "READ_EVM_CONTRACT", title: "Read EVM contract",
		description: "Calls a contract function without sending a transaction (eth_call) and returns the raw result. " +
			"If the call reverts, the execution fails with the decoded reason. Custom errors are decoded if abi contains them. If there is no contract at the address, the result is 0x.",
		about:    "The contract and the function call.",
		required: `"jsonRpcUrl", "contractAddress", "calldata"`,
		input: `"contractAddress": {"type": "string", "format": "evm-address", "title": "Contract address", "description": "The contract to call.", "examples": ["0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"]},
			"calldata": {` + calldataIn + `, "title": "Calldata", "description": "The encoded function call: selector and arguments.", "examples": ["0x18160ddd"]},
			"from": {"type": "string", "format": "evm-address", "title": "From", "description": "The caller's address as the contract sees it (msg.sender). It can be any address because nothing is signed. Defaults to the zero address.", "examples": ["0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"]},
			"blockTag": {` + blockIn + `, "default": "latest", "title": "Block", "description": "The block whose state the call reads: latest, pending, safe, finalized, earliest, a number or a block hash.", "examples": ["latest", "19000000"]},
			` + errorsABIProperty,
		example:     `, "contractAddress": "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "calldata": "0x18160ddd"`,
		returns:     "What the contract returned.",
		requiredOut: `"result"`,
		output:      `"result": {` + bytesOut + `, "title": "Result", "description": "The returned bytes, ABI-encoded, in lower case.", "examples": ["0x00000000000000000000000000000000000000000000000000000000000f4240"]}`,
	}.descriptor()
}

func (m *readContract) Run(ctx context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct {
		ContractAddress, Calldata, From string
		BlockTag, ABI                   json.RawMessage
	}](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	contract, err := parseAddress(input.ContractAddress)
	if err != nil {
		return component.Result{}, invalid("contractAddress", err)
	}
	calldata, err := parseBytes(input.Calldata)
	if err != nil {
		return component.Result{}, invalid("calldata", err)
	}
	block, err := parseBlock(input.BlockTag)
	if err != nil {
		return component.Result{}, invalid("blockTag", err)
	}
	node, err := dialWithABI(m.guard, call.Input, input.ABI)
	if err != nil {
		return component.Result{}, err
	}
	var result blob
	message := map[string]string{"to": contract.Hex(), "data": hexOf(calldata)}
	if input.From != "" {
		caller, err := parseAddress(input.From)
		if err != nil {
			return component.Result{}, invalid("from", err)
		}
		message["from"] = caller.Hex()
	}
	if err := node.call(ctx, &result, "eth_call", message, block); err != nil {
		return component.Result{}, err
	}
	return component.Encode(map[string]string{"result": hexOf(result)})
}
