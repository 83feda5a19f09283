package evm

import (
	"context"
	"math/big"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/platform/egress"
)

type getGasPrice struct{ guard *egress.Guard }

func (*getGasPrice) Describe() component.Descriptor {
	return nodeQuery{
		module: "GET_EVM_GAS_PRICE", title: "EVM gas price",
		description: "Returns current gas prices and suggested fees. On chains with a base fee (EIP-1559), maxFeePerGas is twice the base fee plus maxPriorityFeePerGas, " +
			"which is enough for six full blocks in a row; the unused part is not charged. On chains without a base fee, only gasPrice is set.",
		about:       "The node to query.",
		required:    `"jsonRpcUrl"`,
		returns:     "Gas prices, in wei per unit of gas.",
		requiredOut: `"type", "gasPrice", "baseFeePerGas", "maxPriorityFeePerGas", "maxFeePerGas", "blockNumber"`,
		output: `"type": {"type": "string", "enum": ["eip1559", "legacy"], "title": "Type", "description": "The transaction type to use: eip1559, or legacy if the chain has no base fee.", "examples": ["eip1559"]},
			"gasPrice": {` + decimalOut + `, "title": "Gas price", "description": "The node's suggested gas price for a legacy transaction, in wei.", "examples": ["21000000000"]},
			"baseFeePerGas": {` + nullableDecimalOut + `, "title": "Base fee", "description": "The base fee per unit of gas of the latest block, in wei; null on a chain without a base fee.", "examples": ["20000000000"]},
			"maxPriorityFeePerGas": {` + nullableDecimalOut + `, "title": "Max priority fee per gas", "description": "The suggested tip for the block producer per unit of gas, in wei; null on a chain without a base fee.", "examples": ["1000000000"]},
			"maxFeePerGas": {` + nullableDecimalOut + `, "title": "Max fee per gas", "description": "The suggested maximum total fee per unit of gas, in wei: twice the base fee plus maxPriorityFeePerGas; null on a chain without a base fee.", "examples": ["41000000000"]},
			"blockNumber": {` + decimalOut + `, "title": "Block number", "description": "The number of the block that the base fee is from.", "examples": ["19000000"]}`,
	}.descriptor()
}

func (m *getGasPrice) Run(ctx context.Context, call component.Call) (component.Result, error) {
	node, err := dial(m.guard, call.Input)
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

// fees are current prices per unit of gas. The EIP-1559 fields are nil on a chain without a base
// fee.
type fees struct {
	Type                 string    `json:"type"`
	GasPrice             quantity  `json:"gasPrice"`
	BaseFeePerGas        *quantity `json:"baseFeePerGas"`
	MaxPriorityFeePerGas *quantity `json:"maxPriorityFeePerGas"`
	MaxFeePerGas         *quantity `json:"maxFeePerGas"`
	BlockNumber          decimal   `json:"blockNumber"`
}

// header has the block fields that fees and gas limits depend on.
type header struct {
	Number        decimal   `json:"number"`
	GasLimit      *quantity `json:"gasLimit"`
	BaseFeePerGas *quantity `json:"baseFeePerGas"`
}

func (h *header) UnmarshalJSON(data []byte) error {
	type plain header
	return decodeObject(data, "the block", (*plain)(h), []string{"number"}, "gasLimit")
}

func (n *node) latest(ctx context.Context) (header, error) {
	const method = "eth_getBlockByNumber"
	var latest *header
	if err := n.call(ctx, &latest, method, "latest", false); err != nil {
		return header{}, err
	}
	if latest == nil {
		return header{}, n.malformed(method, protocolError("the latest block is null"))
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
	f.MaxFeePerGas = &quantity{*suggestedMaxFee(&latest.BaseFeePerGas.Int, tip)}
	return f, nil
}

// tip returns the priority fee that the node suggests. If the node fails to suggest one, tip returns
// the gas price minus the base fee: nodes that lack the method report that in many ways, and nodes
// that have it derive the gas price from it.
func (n *node) tip(ctx context.Context, price, base *big.Int) (*big.Int, error) {
	var tip quantity
	err := n.call(ctx, &tip, "eth_maxPriorityFeePerGas")
	switch {
	case err == nil:
		return &tip.Int, nil
	case ctx.Err() != nil:
		return nil, err
	}
	beyond := new(big.Int).Sub(price, base)
	if beyond.Sign() < 0 {
		beyond.SetInt64(0)
	}
	return beyond, nil
}

// suggestedMaxFee returns twice the base fee plus the tip. The base fee grows by at most an eighth
// per block, so twice the base fee is enough for six full blocks.
func suggestedMaxFee(base, tip *big.Int) *big.Int {
	m := new(big.Int).Lsh(base, 1)
	return m.Add(m, tip)
}
