package evm

import (
	"context"
	_ "embed" // of the interfaces
	"encoding/json"

	"github.com/weft-automation/weft/internal/component"
)

// erc20 is the interface of EIP-20 with its optional functions, and the errors
// that EIP-6093 adds.
//
//go:embed erc20.json
var erc20 string

type erc20Constant struct{}

func (erc20Constant) Describe() component.Descriptor {
	return interfaceConstant("ERC20_ABI_CONSTANT", "ERC-20 ABI", "ERC-20 tokens (EIP-20)", "transfer, balanceOf, approve and so on, the events Transfer and Approval, and the errors of EIP-6093")
}

func (erc20Constant) Run(context.Context, component.Call) (component.Result, error) {
	return component.Encode(map[string]json.RawMessage{"value": json.RawMessage(erc20)})
}

// interfaceConstant describes a module whose output is always the same. It
// costs nothing, like the constants of control flow.
func interfaceConstant(module, title, whose, what string) component.Descriptor {
	d := computing{
		module: module, title: title,
		description: "Gives the interface of " + whose + ", for the input abi of other components: " + what + ".",
		input:       `"description": "No fields.", "properties": {}, "examples": [{}]`,
		output: `"description": "The interface.", "required": ["value"], "properties": {
			"value": {"type": "array", "items": {"type": "object", "additionalProperties": {}}, "title": "Value", "description": "The JSON ABI.", "examples": [[{"type": "function", "name": "symbol", "stateMutability": "view", "inputs": [], "outputs": [{"name": "", "type": "string"}]}]]}
		}`,
	}.descriptor()
	d.Price = 0
	return d
}
