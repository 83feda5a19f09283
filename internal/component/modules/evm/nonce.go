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
	return asking{
		module: "GET_EVM_NONCE", title: "EVM nonce",
		description: "Reads the nonce that the next transaction of an account takes (eth_getTransactionCount). " +
			"It counts the transactions that wait at the node, too, unless another block than pending is asked for.",
		about:    "Whose nonce, and at which block.",
		required: `"jsonRpcUrl", "account"`,
		input: `"account": {"type": "string", "format": "evm-address", "title": "Account", "description": "The account whose nonce is read.", "examples": ["0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"]},
			"blockTag": {` + blockIn + `, "default": "pending", "title": "Block", "description": "Up to which block transactions count: pending (with those that wait at the node), latest (those that are mined), safe, finalized, earliest, a number or a block hash.", "examples": ["pending", "latest"]}`,
		example:     `, "account": "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"`,
		gives:       "The account's nonce.",
		requiredOut: `"nonce"`,
		output:      `"nonce": {` + decimalOut + `, "title": "Nonce", "description": "The nonce of the account's next transaction, which is the number of those before, as a decimal string.", "examples": ["7"]}`,
	}.descriptor()
}

func (m *getNonce) Run(ctx context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct {
		JSONRPCURL, Account string
		BlockTag            json.RawMessage
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
	node, err := dial(m.guard, input.JSONRPCURL)
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
