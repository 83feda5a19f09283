package evm

import (
	"context"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/platform/egress"
)

type getChainID struct{ guard *egress.Guard }

func (*getChainID) Describe() component.Descriptor {
	return nodeQuery{
		module: "GET_EVM_CHAIN_ID", title: "EVM chain id",
		description: "Returns the ID of the chain that a node is on (eth_chainId, EIP-155), such as 1 for Ethereum or 137 for Polygon.",
		about:       "The node to query.",
		required:    `"jsonRpcUrl"`,
		returns:     "The chain that the node is on.",
		requiredOut: `"chainId"`,
		output:      `"chainId": {` + decimalOut + `, "title": "Chain id", "description": "The chain ID, as a decimal string.", "examples": ["1"]}`,
	}.descriptor()
}

func (m *getChainID) Run(ctx context.Context, call component.Call) (component.Result, error) {
	node, err := dial(m.guard, call.Input)
	if err != nil {
		return component.Result{}, err
	}
	id, err := node.chainID(ctx)
	if err != nil {
		return component.Result{}, err
	}
	return component.Encode(map[string]quantity{"chainId": id})
}

// chainID returns the ID of the node's chain, which is never 0.
func (n *node) chainID(ctx context.Context) (quantity, error) {
	var id quantity
	if err := n.call(ctx, &id, "eth_chainId"); err != nil {
		return id, err
	}
	if id.Sign() == 0 {
		return id, n.malformed("eth_chainId", protocolError("the chain ID is 0"))
	}
	return id, nil
}
