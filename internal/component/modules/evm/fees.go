package evm

import (
	"context"
	"math/big"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/platform/egress"
)

type getGasPrice struct{ guard *egress.Guard }

func (*getGasPrice) Describe() component.Descriptor {
	return asking{
		module: "GET_EVM_GAS_PRICE", title: "EVM gas price",
		description: "Reads what gas costs now and suggests what to pay for it. Where the chain has a base fee (EIP-1559), maxFeePerGas is twice the base fee plus maxPriorityFeePerGas, " +
			"which holds through six full blocks; what is not needed of it is not paid. On a chain without one, gasPrice is all there is.",
		about:       "Which node to ask.",
		required:    `"jsonRpcUrl"`,
		gives:       "What gas costs, in wei for a unit.",
		requiredOut: `"type", "gasPrice", "baseFeePerGas", "maxPriorityFeePerGas", "maxFeePerGas", "blockNumber"`,
		output: `"type": {"type": "string", "enum": ["eip1559", "legacy"], "title": "Type", "description": "The kind of transaction that the chain takes: eip1559, or legacy where it has no base fee.", "examples": ["eip1559"]},
			"gasPrice": {` + decimalOut + `, "title": "Gas price", "description": "What the node suggests to pay for a unit of gas in a legacy transaction, in wei.", "examples": ["21000000000"]},
			"baseFeePerGas": {` + nullableDecimalOut + `, "title": "Base fee", "description": "What the latest block burnt for each unit of gas; null on a chain without a base fee.", "examples": ["20000000000"]},
			"maxPriorityFeePerGas": {` + nullableDecimalOut + `, "title": "Max priority fee per gas", "description": "What to offer whoever makes the block (the tip), for a unit of gas; null on a chain without a base fee.", "examples": ["1000000000"]},
			"maxFeePerGas": {` + nullableDecimalOut + `, "title": "Max fee per gas", "description": "The suggested most to pay for a unit of gas: twice the base fee plus maxPriorityFeePerGas; null on a chain without a base fee.", "examples": ["41000000000"]},
			"blockNumber": {` + decimalOut + `, "title": "Block number", "description": "The block that the base fee is of.", "examples": ["19000000"]}`,
	}.descriptor()
}

func (m *getGasPrice) Run(ctx context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct{ JSONRPCURL string }](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	node, err := dial(m.guard, input.JSONRPCURL)
	if err != nil {
		return component.Result{}, err
	}
	latest, err := node.latest(ctx)
	if err != nil {
		return component.Result{}, err
	}
	suggested, err := node.fees(ctx, latest)
	if err != nil {
		return component.Result{}, err
	}
	return component.Encode(suggested)
}

// fees is what gas costs. All but the gas price is nil on a chain without a
// base fee.
type fees struct {
	Type                 string    `json:"type"`
	GasPrice             quantity  `json:"gasPrice"`
	BaseFeePerGas        *quantity `json:"baseFeePerGas"`
	MaxPriorityFeePerGas *quantity `json:"maxPriorityFeePerGas"`
	MaxFeePerGas         *quantity `json:"maxFeePerGas"`
	BlockNumber          decimal   `json:"blockNumber"`
}

// header is what prices and limits need of a block.
type header struct {
	Number        decimal   `json:"number"`
	GasLimit      quantity  `json:"gasLimit"`
	BaseFeePerGas *quantity `json:"baseFeePerGas"`
}

func (h *header) UnmarshalJSON(data []byte) error {
	type plain header
	return decodeObject(data, "the block", (*plain)(h), "number", "gasLimit")
}

func (n *node) latest(ctx context.Context) (header, error) {
	const method = "eth_getBlockByNumber"
	var latest *header
	if err := n.call(ctx, &latest, method, "latest", false); err != nil {
		return header{}, err
	}
	if latest == nil {
		return header{}, n.malformed(method, breach("there is no latest block"))
	}
	return *latest, nil
}

func (n *node) fees(ctx context.Context, latest header) (fees, error) {
	f := fees{Type: typeLegacy, BlockNumber: latest.Number, BaseFeePerGas: latest.BaseFeePerGas}
	if err := n.call(ctx, &f.GasPrice, "eth_gasPrice"); err != nil || latest.BaseFeePerGas == nil {
		return f, err
	}
	f.Type = typeEIP1559
	tip, err := n.tip(ctx, &f.GasPrice.Int, &latest.BaseFeePerGas.Int)
	if err != nil {
		return f, err
	}
	f.MaxPriorityFeePerGas = &quantity{*tip}
	f.MaxFeePerGas = &quantity{*most(&latest.BaseFeePerGas.Int, tip)}
	return f, nil
}

// tip is what the node suggests to offer beyond the base fee. Where it does not
// know how to, it is what the gas price has beyond it.
func (n *node) tip(ctx context.Context, price, base *big.Int) (*big.Int, error) {
	var tip quantity
	err := n.call(ctx, &tip, "eth_maxPriorityFeePerGas")
	if lacksMethod(err) {
		beyond := new(big.Int).Sub(price, base)
		if beyond.Sign() < 0 {
			beyond.SetInt64(0)
		}
		return beyond, nil
	}
	return &tip.Int, err
}

// most is the suggested most for a unit of gas: the base fee grows by an eighth
// with each full block, so twice of it holds through six.
func most(base, tip *big.Int) *big.Int {
	m := new(big.Int).Lsh(base, 1)
	return m.Add(m, tip)
}

// lacksMethod says whether a node refused a call because it has no such method:
// by the codes of JSON-RPC and EIP-1474.
func lacksMethod(err error) bool {
	code, _, ok := toldBy(err)
	return ok && (code == -32601 || code == -32004)
}
