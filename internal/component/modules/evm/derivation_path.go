package evm

import (
	"context"
	"fmt"

	"github.com/weft-automation/weft/internal/component"
)

// The fixed part of a BIP-44 path: the purpose, and the SLIP-44 coin type of Ether.
const (
	hardened      = 1 << 31
	bip44         = 44
	coinTypeEther = 60
)

type derivationPath struct{}

func (derivationPath) Describe() component.Descriptor {
	index := func(name, title, description string) string {
		return `"` + name + `": {"type": "integer", "minimum": 0, "maximum": 2147483647, "title": "` + title + `", "description": "` + description + `", "examples": [0]}`
	}
	return component.Computation{
		Module:      "GET_EVM_DERIVATION_PATH",
		Category:    category,
		Title:       "EVM derivation path",
		Description: "Returns the BIP-44 path from which a wallet derives an account's key: m/44'/60'/account'/change/address.",
		Input: `"description": "The indexes of the key.", "required": ["accountIndex", "changeIndex", "addressIndex"], "properties": {
			` + index("accountIndex", "Account index", "The index of the account, from 0. It is hardened.") + `,
			` + index("changeIndex", "Change index", "0 for external addresses (the usual value), 1 for change addresses.") + `,
			` + index("addressIndex", "Address index", "The index of the address within the account, from 0.") + `
		}, "examples": [{"accountIndex": 0, "changeIndex": 0, "addressIndex": 0}]`,
		Output: `"description": "The path, as a list and as a string.", "required": ["derivationPath", "path"], "properties": {
			"derivationPath": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 4294967295}, "minItems": 5, "maxItems": 5, "title": "Derivation path", "description": "The five indexes. Hardened indexes include an offset of 2147483648 (2^31).", "examples": [[2147483692, 2147483708, 2147483648, 0, 0]]},
			"path": {"type": "string", "title": "Path", "description": "The path in the usual notation. An apostrophe marks a hardened index.", "examples": ["m/44'/60'/0'/0/0"]}
		}`,
	}.Descriptor()
}

func (derivationPath) Run(_ context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct{ AccountIndex, ChangeIndex, AddressIndex component.Integer }](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	for _, index := range []component.Integer{input.AccountIndex, input.ChangeIndex, input.AddressIndex} {
		if index < 0 || index >= hardened {
			return component.Result{}, component.Permanent(component.CodeInvalidInput, "accountIndex, changeIndex and addressIndex must be from 0 to %d", hardened-1)
		}
	}
	return component.Encode(map[string]any{
		"derivationPath": []component.Integer{bip44 + hardened, coinTypeEther + hardened, input.AccountIndex + hardened, input.ChangeIndex, input.AddressIndex},
		"path":           fmt.Sprintf("m/%d'/%d'/%d'/%d/%d", bip44, coinTypeEther, input.AccountIndex, input.ChangeIndex, input.AddressIndex),
	})
}
