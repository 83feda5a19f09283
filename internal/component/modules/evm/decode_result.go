package evm

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/weft-automation/weft/internal/component"
)

type decodeResult struct{ formats }

func (decodeResult) Describe() component.Descriptor {
	return computing{
		module: "DECODE_EVM_FUNCTION_RESULT",
		title:  "Decode EVM function result",
		description: "Decodes what a contract's function returned, as READ_EVM_CONTRACT gives it. " +
			"Integers come as decimal strings, bytes as 0x-hex, addresses in EIP-55 form, tuples as objects where all their members are named, else as arrays.",
		input: `"description": "The interface, and what was returned.", "required": ["abi", "encodedResult"], "properties": {
			` + abiProperty + `,
			"encodedResult": {"type": "string", "format": "hex-bytes", "title": "Encoded result", "description": "The returned bytes, ABI-encoded.", "examples": ["0x0000000000000000000000000000000000000000000000000000000000000001"]}
		}, "examples": [{"abi": ["function transfer(address to, uint256 amount) returns (bool)"], "encodedResult": "0x0000000000000000000000000000000000000000000000000000000000000001"}]`,
		config: `"description": "Which function returned it.", "required": ["functionName"], "properties": {
			"functionName": {"type": "string", "minLength": 1, "maxLength": 4096, "title": "Function name", "description": "` + functionNameForms + ` Of overloads that return different types, only the full signature tells which.", "examples": ["transfer"]}
		}, "examples": [{"functionName": "transfer"}]`,
		output: `"description": "The returned values: 0, 1 and so on in the order of the function's outputs, and by name.", "required": ["values"], "properties": {
			"0": {"title": "First value", "description": "The first value that the function returns.", "examples": [true]},
			"1": {"title": "Second value", "description": "The second value that the function returns; further ones follow as 2, 3 and so on."},
			"values": {"type": "object", "additionalProperties": {}, "title": "Values", "description": "Those return values that have a name of their own, by name.", "examples": [{"owner": "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"}]}
		}, "additionalProperties": {}`,
	}.descriptor()
}

func (decodeResult) Run(_ context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct {
		ABI           json.RawMessage
		EncodedResult string
	}](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	config, err := component.Decode[struct{ FunctionName string }](call.Config)
	if err != nil {
		return component.Result{}, err
	}
	contract, err := parseABI(input.ABI)
	if err != nil {
		return component.Result{}, refused("abi", err)
	}
	data, err := parseBytes(input.EncodedResult)
	if err != nil {
		return component.Result{}, invalid("encodedResult", err)
	}
	var first *signature
	function, err := contract.function(config.FunctionName, func(s signature) bool { // overloads that return the same are as good as one
		if first == nil {
			first = &s
		}
		return first.text == s.text || typeNames(first.outputs) != typeNames(s.outputs)
	})
	if err != nil {
		return component.Result{}, refused("functionName", err)
	}
	if len(data) == 0 && len(function.outputs) > 0 {
		return component.Result{}, refused("encodedResult", misfitf("it is empty, and %s returns %s: is the contract at this address, on this chain?", listed([]signature{function}), cut(typeNames(function.outputs))))
	}
	list, err := decodeParameters(function.outputs, data)
	if err != nil {
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "encodedResult, return value %s", err)
	}
	output := map[string]any{"values": byName(function.outputs, list)}
	for i, value := range list {
		output[strconv.Itoa(i)] = value
	}
	return component.Encode(output)
}
