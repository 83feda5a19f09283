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
	return asking{
		module: "READ_EVM_CONTRACT", title: "Read EVM contract",
		description: "Calls a contract without a transaction (eth_call) and returns the raw result. " +
			"A revert fails with its decoded reason, and with an abi that of an error of the contract's own. A contract that is not there gives 0x.",
		about:    "Which contract, and what to call.",
		required: `"jsonRpcUrl", "contractAddress", "calldata"`,
		input: `"contractAddress": {"type": "string", "format": "evm-address", "title": "Contract address", "description": "The contract to call.", "examples": ["0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"]},
			"calldata": {` + calldataIn + `, "title": "Calldata", "description": "The encoded function call: selector and arguments.", "examples": ["0x18160ddd"]},
			"from": {"type": "string", "format": "evm-address", "title": "From", "description": "Who calls, as the contract sees it (msg.sender). Nothing is signed, so it may be anybody; without it, it is the zero address.", "examples": ["0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"]},
			"blockTag": {` + blockIn + `, "default": "latest", "title": "Block", "description": "At which block: latest, pending, safe, finalized, earliest, a number or a block hash.", "examples": ["latest", "19000000"]},
			` + errorsABIProperty,
		example:     `, "contractAddress": "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "calldata": "0x18160ddd"`,
		gives:       "What the contract returned.",
		requiredOut: `"result"`,
		output:      `"result": {` + bytesOut + `, "title": "Result", "description": "The returned bytes, ABI-encoded, lower case.", "examples": ["0x00000000000000000000000000000000000000000000000000000000000f4240"]}`,
	}.descriptor()
}

func (m *readContract) Run(ctx context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct {
		JSONRPCURL, ContractAddress, Calldata, From string
		BlockTag, ABI                               json.RawMessage
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
	node, err := dialKnowing(m.guard, input.JSONRPCURL, input.ABI)
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
