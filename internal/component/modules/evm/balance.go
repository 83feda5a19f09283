package evm

import (
	"context"
	"math/big"

	"github.com/ethereum/go-ethereum/common"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/platform/egress"
)

type accountBalance struct {
	formats
	guard *egress.Guard
}

func (*accountBalance) Describe() component.Descriptor {
	return nodeQuery{
		module: "GET_EVM_ACCOUNT_BALANCE", title: "EVM account balance",
		description: "Returns an account's balance of the native coin or of an ERC-20 token, at the latest block.",
		about:       "The account, the token and the node.",
		required:    `"jsonRpcUrl", "tokenAddress", "account"`,
		input: `"tokenAddress": {"type": "string", "format": "evm-address", "title": "Token address", "description": "The contract of the token. Use the zero address for the native coin.", "examples": ["0x0000000000000000000000000000000000000000"]},
			"account": {"type": "string", "format": "evm-address", "title": "Account", "description": "The account whose balance to return.", "examples": ["0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"]}`,
		example:     `, "tokenAddress": "0x0000000000000000000000000000000000000000", "account": "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"`,
		returns:     "The balance.",
		requiredOut: `"balance"`,
		output:      `"balance": {` + decimalOut + `, "title": "Balance", "description": "The balance in base units (wei for a native coin), as a decimal string.", "examples": ["1000000000000000000"]}`,
	}.descriptor()
}

func (m *accountBalance) Run(ctx context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct{ TokenAddress, Account string }](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	token, err := parseAddress(input.TokenAddress)
	if err != nil {
		return component.Result{}, invalid("tokenAddress", err)
	}
	account, err := parseAddress(input.Account)
	if err != nil {
		return component.Result{}, invalid("account", err)
	}
	node, err := dial(m.guard, call.Input)
	if err != nil {
		return component.Result{}, err
	}
	balance, err := balanceOf(ctx, node, token, account)
	if err != nil {
		return component.Result{}, err
	}
	return component.Encode(map[string]string{"balance": balance.String()})
}

func balanceOf(ctx context.Context, node *node, token, account common.Address) (*big.Int, error) {
	if token == (common.Address{}) {
		var balance quantity
		if err := node.call(ctx, &balance, "eth_getBalance", account.Hex(), "latest"); err != nil {
			return nil, err
		}
		return &balance.Int, nil
	}
	const selector = "0x70a08231" // balanceOf(address)
	calldata := selector + hexOf(common.LeftPadBytes(account.Bytes(), wordSize))[2:]
	var word blob
	if err := node.call(ctx, &word, "eth_call", map[string]string{"to": token.Hex(), "data": calldata}, "latest"); err != nil {
		return nil, err
	}
	if len(word) < wordSize { // no contract at the address, or not a token
		return nil, component.Permanent(component.CodeInvalidInput, "tokenAddress: %s is not an ERC-20 token on this chain: balanceOf returned no value", token.Hex())
	}
	return new(big.Int).SetBytes(word[:wordSize]), nil
}
