package evm

import (
	"context"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/platform/egress"
)

type getReceipt struct {
	formats
	guard *egress.Guard
}

func (*getReceipt) Describe() component.Descriptor {
	return nodeQuery{
		module: "GET_EVM_TRANSACTION_RECEIPT", title: "EVM transaction receipt",
		description: "Returns the receipt of a transaction without waiting (eth_getTransactionReceipt). If the transaction isn't mined yet, mined is false, and receipt, status and blockNumber are null. " +
			"Use WAIT_FOR_EVM_TRANSACTION to wait for the receipt.",
		about:       "The transaction whose receipt to return.",
		required:    `"jsonRpcUrl", "transactionHash"`,
		input:       transactionHashIn,
		example:     `, "transactionHash": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060"`,
		returns:     "The receipt, if there is one.",
		requiredOut: `"mined", "receipt", "status", "blockNumber"`,
		output: `"mined": {"type": "boolean", "title": "Mined", "description": "Whether the transaction is in a block.", "examples": [true]},
			"receipt": {"type": ["object", "null"], "title": "Receipt", "description": "The decoded receipt; null until the transaction is mined.", ` + receiptMembers + `},
			"status": {"type": ["string", "null"], "enum": ["success", "reverted", null], "title": "Status", "description": "Whether the transaction succeeded or reverted; null until it is mined, and for blocks before the Byzantium fork, whose receipts have no status.", "examples": ["success"]},
			"blockNumber": {` + nullableDecimalOut + `, "title": "Block number", "description": "The number of its block, as a decimal string; null until the transaction is mined.", "examples": ["19000000"]}`,
	}.descriptor()
}

func (m *getReceipt) Run(ctx context.Context, call component.Call) (component.Result, error) {
	node, asked, err := dialForTransaction(m.guard, call.Input)
	if err != nil {
		return component.Result{}, err
	}
	const method = "eth_getTransactionReceipt"
	var found *receipt
	if err := node.call(ctx, &found, method, asked.Hex()); err != nil {
		return component.Result{}, err
	}
	var output struct {
		Mined       bool     `json:"mined"`
		Receipt     *receipt `json:"receipt"`
		Status      *string  `json:"status"`
		BlockNumber *decimal `json:"blockNumber"`
	}
	if found != nil {
		if err := found.check(asked); err != nil {
			return component.Result{}, node.malformed(method, err)
		}
		output.Mined, output.Receipt, output.Status, output.BlockNumber = true, found, found.status(), &found.BlockNumber
	}
	return component.Encode(output)
}
