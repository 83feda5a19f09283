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
	return asking{
		module: "GET_EVM_TRANSACTION_RECEIPT", title: "EVM transaction receipt",
		description: "Reads what became of a transaction (eth_getTransactionReceipt), once. Until a block holds it there is no receipt, which is no failure: mined is false and receipt, status and blockNumber are null. " +
			"WAIT_FOR_EVM_TRANSACTION waits for it.",
		about:       "Whose receipt to read.",
		required:    `"jsonRpcUrl", "transactionHash"`,
		input:       transactionHashIn,
		example:     `, "transactionHash": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060"`,
		gives:       "The receipt, if there is one.",
		requiredOut: `"mined", "receipt", "status", "blockNumber"`,
		output: `"mined": {"type": "boolean", "title": "Mined", "description": "Whether a block holds the transaction.", "examples": [true]},
			"receipt": {"type": ["object", "null"], "title": "Receipt", "description": "The transaction's receipt, decoded; null until a block holds it.", ` + receiptMembers + `},
			"status": {"type": ["string", "null"], "enum": ["success", "reverted", null], "title": "Status", "description": "Whether the transaction took effect; null until a block holds it, and in blocks from before the Byzantium fork, whose receipts do not tell.", "examples": ["success"]},
			"blockNumber": {` + nullableDecimalOut + `, "title": "Block number", "description": "The block that holds it, as a decimal string; null until there is one.", "examples": ["19000000"]}`,
	}.descriptor()
}

func (m *getReceipt) Run(ctx context.Context, call component.Call) (component.Result, error) {
	node, asked, err := dialAbout(m.guard, call.Input)
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
