package evm

import (
	"context"
	_ "embed"
	"encoding/json"

	"github.com/weft-automation/weft/internal/component"
)

// erc20 is the JSON ABI of EIP-20 with the optional functions and the errors of EIP-6093.
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

// interfaceConstant describes a module that returns a fixed ABI. It is free, like other constants.
func interfaceConstant(module, title, standard, contents string) component.Descriptor {
	d := component.Computation{
		Module: module, Title: title, Category: category,
		Description: "Returns the ABI of " + standard + " for the abi input of other components: " + contents + ".",
		Output: `"description": "The interface.", "required": ["value"], "properties": {
			"value": {"type": "array", "items": {"type": "object", "additionalProperties": {}}, "title": "Value", "description": "The JSON ABI.", "examples": [[{"type": "function", "name": "symbol", "stateMutability": "view", "inputs": [], "outputs": [{"name": "", "type": "string"}]}]]}
		}`,
	}.Descriptor()
	d.Price = 0
	return d
}
