package evm

import (
	"context"
	"encoding/json"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// functionNameForms describes the accepted forms of functionName.
const functionNameForms = "The function: its name, such as transfer, or its full signature, such as transfer(address,uint256)."

type buildCalldata struct{}

func (buildCalldata) Describe() component.Descriptor {
	return component.Computation{
		Module:   "BUILD_EVM_CALLDATA",
		Category: category,
		Title:    "Build EVM calldata",
		Description: "Encodes a call of a contract function: the selector and the arguments. " +
			"Each argument is checked against its type. Integers are decimal strings or JSON numbers up to 2^53-1. Bytes are 0x and hexadecimal digits. Addresses are in lower case or have an EIP-55 checksum. Tuples are objects or arrays.",
		Input: `"description": "The function and its arguments.", "required": ["abi", "functionName", "arguments"], "properties": {
			` + abiProperty + `,
			"functionName": {"type": "string", "minLength": 1, "maxLength": 4096, "title": "Function name", "description": "` + functionNameForms + ` If the function is overloaded, a plain name selects the overload with the same number of arguments. Use constructor to encode constructor arguments, without a selector; append them to the contract's code.", "examples": ["transfer", "safeTransferFrom(address,address,uint256,bytes)"]},
			"arguments": {"type": "array", "items": {}, "title": "Arguments", "description": "The arguments, in the order of the function's parameters. A tuple is an object with the names of its components, or an array in their order.", "examples": [["0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045", "1000000"]]}
		}, "examples": [{"abi": ["function transfer(address to, uint256 amount) returns (bool)"], "functionName": "transfer", "arguments": ["0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045", "1000000"]}]`,
		Output: `"description": "The encoded call.", "required": ["calldata"], "properties": {
			"calldata": {` + bytesOut + `, "title": "Calldata", "description": "The selector and the arguments, ABI-encoded, in lower case.", "examples": ["0xa9059cbb000000000000000000000000d8da6bf26964af9d7eed9e03e53415d37aa9604500000000000000000000000000000000000000000000000000000000000f4240"]}
		}`,
	}.Descriptor()
}

func (buildCalldata) Run(_ context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct {
		ABI          json.RawMessage
		FunctionName string
		Arguments    json.RawMessage
	}](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	contract, err := parseABI(input.ABI)
	if err != nil {
		return component.Result{}, invalidAt("abi", err)
	}
	value, err := strictjson.Decode(input.Arguments)
	arguments, ok := value.([]any)
	if err != nil || !ok {
		return component.Result{}, invalidAt("arguments", mismatchf("expected an array, got %s", describe(value)))
	}
	function, err := contract.function(input.FunctionName, func(s signature) bool { return len(s.inputs) == len(arguments) })
	if err != nil {
		return component.Result{}, invalidAt("functionName", err)
	}
	if len(arguments) != len(function.inputs) {
		return component.Result{}, invalidAt("arguments", mismatchf("%s expects %d, got %d", listed([]signature{function}), len(function.inputs), len(arguments)))
	}
	encoded, err := encodeArguments(function.inputs, arguments)
	if err != nil {
		return component.Result{}, invalidAt("arguments", err)
	}
	if input.FunctionName != "constructor" {
		encoded = append(function.hash[:4:4], encoded...)
	}
	return component.Encode(map[string]string{"calldata": hexOf(encoded)})
}
