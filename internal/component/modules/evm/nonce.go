package evm

import (
	"context"
	"encoding/json"

	"github.com/ethereum/go-ethereum/common"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/platform/egress"
)

type getNonce struct {
	formats
	guard *egress.Guard
}

func (*getNonce) Describe() component.Descriptor {
	return nodeQuery{
		module: "GET_EVM_NONCE", title: "EVM nonce",
		description: "Returns the next nonce of an account (eth_getTransactionCount). " +
			"By default it includes transactions that are pending at the node.",
		about:    "The account and the block.",
		required: `"jsonRpcUrl", "account"`,
		input: `"account": {"type": "string", "format": "evm-address", "title": "Account", "description": "The account whose nonce to return.", "examples": ["0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"]},
			"blockTag": {` + blockIn + `, "default": "pending", "title": "Block", "description": "The last block to count transactions in: pending (includes pending transactions), latest (mined transactions only), safe, finalized, earliest, a number or a block hash.", "examples": ["pending", "latest"]}`,
		example:     `, "account": "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"`,
		returns:     "The account's nonce.",
		requiredOut: `"nonce"`,
		output:      `"nonce": {` + decimalOut + `, "title": "Nonce", "description": "The nonce of the account's next transaction, as a decimal string.", "examples": ["7"]}`,
	}.descriptor()
}

func (m *getNonce) Run(ctx context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct {
		Account  string
		BlockTag json.RawMessage
	}](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	account, err := parseAddress(input.Account)
	if err != nil {
		return component.Result{}, invalid("account", err)
	}
	var block any = "pending"
	if len(input.BlockTag) > 0 {
		if block, err = parseBlock(input.BlockTag); err != nil {
			return component.Result{}, invalid("blockTag", err)
		}
	}
	node, err := dial(m.guard, call.Input)
	if err != nil {
		return component.Result{}, err
	}
	next, err := node.nonce(ctx, account, block)
	if err != nil {
		return component.Result{}, err
	}
	return component.Encode(map[string]decimal{"nonce": decimal(next)})
}

func (n *node) nonce(ctx context.Context, account common.Address, block any) (ordinal, error) {
	var next ordinal
	err := n.call(ctx, &next, "eth_getTransactionCount", account.Hex(), block)
	return next, err
}
