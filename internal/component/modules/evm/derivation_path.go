package evm

import (
	"context"
	"fmt"

	"github.com/weft-automation/weft/internal/component"
)

// The fixed part of the path of BIP-44: its purpose, and the coin of SLIP-44.
const (
	hardened    = 1 << 31
	bip44       = 44
	coinOfEther = 60
)

type derivationPath struct{}

func (derivationPath) Describe() component.Descriptor {
	index := func(name, title, description string) string {
		return `"` + name + `": {"type": "integer", "minimum": 0, "maximum": 2147483647, "title": "` + title + `", "description": "` + description + `", "examples": [0]}`
	}
	return computing{
		module:      "GET_EVM_DERIVATION_PATH",
		title:       "EVM derivation path",
		description: "Gives the path (BIP-44) by which a wallet derives the key of an account: m/44'/60'/account'/change/address.",
		input: `"description": "Which key of the wallet.", "required": ["accountIndex", "changeIndex", "addressIndex"], "properties": {
			` + index("accountIndex", "Account index", "The account, from 0. It is hardened.") + `,
			` + index("changeIndex", "Change index", "0 for addresses that others see, which is the usual one; 1 for change.") + `,
			` + index("addressIndex", "Address index", "The address within the account, from 0.") + `
		}, "examples": [{"accountIndex": 0, "changeIndex": 0, "addressIndex": 0}]`,
		output: `"description": "The path, in both forms.", "required": ["derivationPath", "path"], "properties": {
			"derivationPath": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 4294967295}, "minItems": 5, "maxItems": 5, "title": "Derivation path", "description": "The five indexes; hardened ones have 2147483648 (2^31) added.", "examples": [[2147483692, 2147483708, 2147483648, 0, 0]]},
			"path": {"type": "string", "title": "Path", "description": "The path as wallets write it; an apostrophe marks what is hardened.", "examples": ["m/44'/60'/0'/0/0"]}
		}`,
	}.descriptor()
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
		"derivationPath": []component.Integer{bip44 + hardened, coinOfEther + hardened, input.AccountIndex + hardened, input.ChangeIndex, input.AddressIndex},
		"path":           fmt.Sprintf("m/%d'/%d'/%d'/%d/%d", bip44, coinOfEther, input.AccountIndex, input.ChangeIndex, input.AddressIndex),
	})
}
