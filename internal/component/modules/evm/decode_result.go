package evm

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/weft-automation/weft/internal/component"
)

type decodeResult struct{ formats }

func (decodeResult) Describe() component.Descriptor {
	return component.Computation{
		Module:   "DECODE_EVM_FUNCTION_RESULT",
		Category: category,
		Title:    "Decode EVM function result",
		Description: "Decodes the return values of a contract function, such as the result of READ_EVM_CONTRACT. " +
			"Integers are returned as decimal strings, bytes as 0x-hex and addresses in EIP-55 form. A tuple is an object if all its components have names, and an array otherwise.",
		Input: `"description": "The ABI and the returned bytes.", "required": ["abi", "encodedResult"], "properties": {
			` + abiProperty + `,
			"encodedResult": {"type": "string", "format": "hex-bytes", "title": "Encoded result", "description": "The returned bytes, ABI-encoded.", "examples": ["0x0000000000000000000000000000000000000000000000000000000000000001"]}
		}, "examples": [{"abi": ["function transfer(address to, uint256 amount) returns (bool)"], "encodedResult": "0x0000000000000000000000000000000000000000000000000000000000000001"}]`,
		Config: `"description": "The function.", "required": ["functionName"], "properties": {
			"functionName": {"type": "string", "minLength": 1, "maxLength": 4096, "title": "Function name", "description": "` + functionNameForms + ` Use the full signature if overloads return different types.", "examples": ["transfer"]}
		}, "examples": [{"functionName": "transfer"}]`,
		Output: `"description": "The returned values: 0, 1 and so on in the order of the function's outputs, and by name.", "required": ["values"], "properties": {
			"0": {"title": "First value", "description": "The first return value.", "examples": [true]},
			"1": {"title": "Second value", "description": "The second return value. Further values follow as 2, 3 and so on."},
			"values": {"type": "object", "additionalProperties": {}, "title": "Values", "description": "The return values with unique names, by name.", "examples": [{"owner": "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"}]}
		}, "additionalProperties": {}`,
	}.Descriptor()
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
		return component.Result{}, invalidAt("abi", err)
	}
	data, err := parseBytes(input.EncodedResult)
	if err != nil {
		return component.Result{}, invalid("encodedResult", err)
	}
	var first *signature
	function, err := contract.function(config.FunctionName, func(s signature) bool { // overloads with the same return types are equivalent
		if first == nil {
			first = &s
		}
		return first.text == s.text || typeNames(first.outputs) != typeNames(s.outputs)
	})
	if err != nil {
		return component.Result{}, invalidAt("functionName", err)
	}
	if len(data) == 0 && len(function.outputs) > 0 {
		return component.Result{}, invalidAt("encodedResult", mismatchf("it is empty, but %s returns %s: check that the contract is at this address on this chain", listed([]signature{function}), truncate(typeNames(function.outputs))))
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
