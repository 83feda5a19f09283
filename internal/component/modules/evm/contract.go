package evm

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/credit"
	"github.com/weft-automation/weft/internal/egress"
)

type readContract struct {
	formats
	guard *egress.Guard
}

func (*readContract) Describe() component.Descriptor {
	return component.Descriptor{
		Module: "READ_EVM_CONTRACT",
		Title:  "Read EVM contract",
		Description: "Calls a contract without a transaction (eth_call) and returns the raw result. " +
			"A revert fails with its decoded reason, and with an abi that of an error of the contract's own. A contract that is not there gives 0x.",
		Category: category,
		Input: json.RawMessage(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type": "object",
			"description": "Which contract, and what to call.",
			"required": ["jsonRpcUrl", "contractAddress", "calldata"],
			"properties": {
				` + jsonRPCURL + `,
				"contractAddress": {"type": "string", "format": "evm-address", "title": "Contract address", "description": "The contract to call.", "examples": ["0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"]},
				"calldata": {"type": "string", "format": "hex-bytes", "maxLength": 262146, "title": "Calldata", "description": "The encoded function call: selector and arguments.", "examples": ["0x18160ddd"]},
				"blockTag": {"type": ["string", "integer"], "format": "evm-block", "minimum": 0, "maximum": 9007199254740991, "maxLength": 80, "default": "latest", "title": "Block", "description": "At which block: latest, pending, safe, finalized, earliest, a number or a block hash.", "examples": ["latest", "19000000"]},
				` + errorsABIProperty + `
			},
			"examples": [{"jsonRpcUrl": "https://rpc.example.com/v1/mainnet", "contractAddress": "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "calldata": "0x18160ddd"}]
		}`),
		Config: json.RawMessage(emptySchema),
		Output: json.RawMessage(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type": "object",
			"description": "What the contract returned.",
			"required": ["result"],
			"properties": {
				"result": {"type": "string", "pattern": "^0x([0-9a-f]{2})*$", "title": "Result", "description": "The returned bytes, ABI-encoded, lower case.", "examples": ["0x00000000000000000000000000000000000000000000000000000000000f4240"]}
			}
		}`),
		Price: credit.Credits(3), Timeout: 30 * time.Second,
		Effect: component.EffectRead, Repeat: component.RepeatPure, Modes: both,
	}
}

func (m *readContract) Run(ctx context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct {
		JSONRPCURL, ContractAddress, Calldata string
		BlockTag, ABI                         json.RawMessage
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
	known, err := parseABI(input.ABI)
	if err != nil {
		return component.Result{}, refused("abi", err)
	}
	node, err := dial(m.guard, input.JSONRPCURL)
	if err != nil {
		return component.Result{}, err
	}
	node.contract = known
	var result blob
	message := map[string]string{"to": contract.Hex(), "data": "0x" + hex.EncodeToString(calldata)}
	if err := node.call(ctx, &result, "eth_call", message, block); err != nil {
		return component.Result{}, err
	}
	return component.Encode(map[string]string{"result": "0x" + hex.EncodeToString(result)})
}
