package evm

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/platform/egress"
)

// maxGas is the maximum gas limit of a transaction on chains that apply EIP-7825.
const maxGas = 1 << 24

type buildTransaction struct {
	formats
	guard *egress.Guard
}

func (*buildTransaction) Describe() component.Descriptor {
	d := nodeQuery{
		module: "BUILD_EVM_TRANSACTION", title: "Build EVM transaction",
		description: "Builds an unsigned transaction and fills in chain, nonce, gas and fees from a node. Returns it as an object, serialized, and as the hash to sign. Nothing is sent. " +
			"Fields that you set are used unchanged. Defaults: the nonce includes pending transactions; the gas limit is the estimate plus 20%, or the estimate itself for a plain transfer; " +
			"maxFeePerGas is twice the base fee plus maxPriorityFeePerGas. If the chain has no base fee, or if gasPrice is set, the result is a legacy transaction.",
		about:    "The transaction. Missing fields are filled in from the node.",
		required: `"jsonRpcUrl", "from"`,
		input: `"from": {"type": "string", "format": "evm-address", "title": "From", "description": "The sender, who signs the transaction.", "examples": ["0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"]},
			"to": {"type": ["string", "null"], "format": "evm-address", "title": "To", "description": "The recipient. Leave it out to create a contract from data. If the new contract receives value, set it to null explicitly; this protects against a forgotten recipient.", "examples": ["0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"]},
			"value": {` + uint256In + `, "default": "0", "title": "Value", "description": "The amount of the native coin to transfer, in wei: a decimal string, or a number below 2^53.", "examples": ["1000000000000000000"]},
			"data": {` + calldataIn + `, "title": "Data", "default": "0x", "description": "The encoded function call, or the code of a contract to create.", "examples": ["0x18160ddd"]},
			"nonce": {` + uint64In + `, "title": "Nonce", "description": "The nonce. Defaults to the account's next nonce.", "examples": ["7"]},
			"gasLimit": {` + uint64In + `, "title": "Gas limit", "description": "The gas limit. If it is set, gas isn't estimated and the transaction isn't simulated.", "examples": ["100000"]},
			"maxFeePerGas": {` + uint256In + `, "title": "Max fee per gas", "description": "The maximum total fee per unit of gas, in wei. It also limits the default of maxPriorityFeePerGas.", "examples": ["41000000000"]},
			"maxPriorityFeePerGas": {` + uint256In + `, "title": "Max priority fee per gas", "description": "The maximum tip for the block producer per unit of gas, in wei.", "examples": ["1000000000"]},
			"gasPrice": {` + uint256In + `, "title": "Gas price", "description": "The gas price, in wei. If it is set, the result is a legacy transaction.", "examples": ["21000000000"]},
			"chainId": {` + uint256In + `, "title": "Chain id", "description": "The expected chain ID. If the node is on another chain, the execution fails.", "examples": ["1"]},
			` + errorsABIProperty,
		example:     `, "from": "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045", "to": "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "value": "1000000000000000000"`,
		returns:     "The unsigned transaction.",
		requiredOut: `"transaction", "serializedTransaction", "serializedHash"`,
		output: `"transaction": ` + outgoingSchema + `,
			"serializedTransaction": {` + bytesOut + `, "title": "Serialized transaction", "description": "The serialized unsigned transaction in RLP, with its type prefix (EIP-2718), or with the chain ID (EIP-155) for a legacy transaction.", "examples": ["0x02f00107843b9aca0085098bca5a0082520894d8da6bf26964af9d7eed9e03e53415d37aa96045880de0b6b3a764000080c0"]},
			"serializedHash": {` + hashOut + `, "title": "Hash to sign", "description": "The Keccak-256 hash of the serialized transaction: the 32 bytes to sign.", "examples": ["0x3f35ea56380f9b3cf5ad35daebf7080358adde31de7ae198e95cf8469e51c3b7"]}`,
	}.descriptor()
	d.Price = credit.Credits(5) // up to six requests to the node
	return d
}

const outgoingSchema = `{
	"type": "object", "title": "Transaction", "description": "The transaction, as SIGN_EVM_TRANSACTION accepts it.",
	"examples": [{"type": "eip1559", "chainId": "1", "from": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "nonce": "7", "to": "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045", "value": "1000000000000000000", "data": "0x", "gasLimit": "21000", "maxFeePerGas": "41000000000", "maxPriorityFeePerGas": "1000000000"}],
	"required": ["type", "chainId", "from", "nonce", "to", "value", "data", "gasLimit"],
	"properties": {
		"type": {"type": "string", "enum": ["eip1559", "legacy"], "description": "The transaction type: eip1559 (with maxFeePerGas and maxPriorityFeePerGas) or legacy (with gasPrice)."},
		"chainId": {` + decimalOut + `, "description": "The ID of the chain."},
		"from": {` + addressOut + `, "description": "The sender, who must sign it. It is not part of the serialized transaction."},
		"nonce": {` + decimalOut + `, "description": "The nonce of the sender."},
		"to": {` + nullableAddressOut + `, "description": "The recipient; null if the transaction creates a contract."},
		"value": {` + decimalOut + `, "description": "The amount of the native coin to transfer, in wei."},
		"data": {` + bytesOut + `, "description": "The encoded function call, or the code of a contract to create."},
		"gasLimit": {` + decimalOut + `, "description": "The gas limit."},
		"maxFeePerGas": {` + decimalOut + `, "description": "The maximum total fee per unit of gas, in wei."},
		"maxPriorityFeePerGas": {` + decimalOut + `, "description": "The maximum tip for the block producer per unit of gas, in wei."},
		"gasPrice": {` + decimalOut + `, "description": "The gas price, in wei."}
	}
}`

type buildInput struct {
	From                 string          `json:"from"`
	To                   json.RawMessage `json:"to"`
	Value                amount          `json:"value"`
	Data                 string          `json:"data"`
	Nonce                *amount         `json:"nonce"`
	GasLimit             *amount         `json:"gasLimit"`
	MaxFeePerGas         *amount         `json:"maxFeePerGas"`
	MaxPriorityFeePerGas *amount         `json:"maxPriorityFeePerGas"`
	GasPrice             *amount         `json:"gasPrice"`
	ChainID              *amount         `json:"chainId"`
	ABI                  json.RawMessage `json:"abi"`
}

// overrides are the fields that the caller set; the others are nil.
type overrides struct{ nonce, gasLimit, maxFee, tip, gasPrice, chainID *big.Int }

func (in buildInput) overrides() (o overrides, err error) {
	for _, field := range []struct {
		name string
		text *amount
		bits int
		to   **big.Int
	}{
		{"nonce", in.Nonce, 64, &o.nonce}, {"gasLimit", in.GasLimit, 64, &o.gasLimit}, {"maxFeePerGas", in.MaxFeePerGas, 256, &o.maxFee},
		{"maxPriorityFeePerGas", in.MaxPriorityFeePerGas, 256, &o.tip}, {"gasPrice", in.GasPrice, 256, &o.gasPrice}, {"chainId", in.ChainID, 256, &o.chainID},
	} {
		if field.text == nil {
			continue
		}
		if *field.to, err = parseUint(string(*field.text), field.bits); err != nil {
			return o, invalid(field.name, err)
		}
	}
	switch {
	case o.gasPrice != nil && (o.maxFee != nil || o.tip != nil):
		return o, invalid("gasPrice", errors.New("a legacy transaction has neither maxFeePerGas nor maxPriorityFeePerGas; set gasPrice or these two, not both"))
	case o.maxFee != nil && o.tip != nil && o.tip.Cmp(o.maxFee) > 0:
		return o, invalid("maxPriorityFeePerGas", errors.New("must be at most maxFeePerGas"))
	}
	return o, nil
}

// message returns the recipient, value and data. It requires an explicit null recipient for
// creating a contract with a value, because a forgotten recipient would lose that value.
func (in buildInput) message() (callMessage, error) {
	var to *string
	if len(in.To) > 0 {
		if err := json.Unmarshal(in.To, &to); err != nil {
			return callMessage{}, invalid("to", errors.New("expected a string or null"))
		}
	}
	if to == nil {
		to = new(string)
	}
	message, err := parseMessage(in.From, *to, in.Value, in.Data)
	if err == nil && message.to == nil && message.value.Sign() > 0 && in.To == nil {
		err = invalid("to", errors.New("is required: expected an address; to create a contract that receives value, set it to null"))
	}
	return message, err
}

func (m *buildTransaction) Run(ctx context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[buildInput](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	message, err := input.message()
	if err != nil {
		return component.Result{}, err
	}
	set, err := input.overrides()
	if err != nil {
		return component.Result{}, err
	}
	node, err := dialWithABI(m.guard, call.Input, input.ABI)
	if err != nil {
		return component.Result{}, err
	}
	built, err := node.complete(ctx, message, set)
	if err != nil {
		return component.Result{}, err
	}
	if err := built.check(); err != nil {
		return component.Result{}, invalidAt("transaction", err)
	}
	unsigned, err := built.unsigned()
	if err != nil {
		return component.Result{}, err
	}
	return component.Encode(struct {
		Transaction           outgoingObject `json:"transaction"`
		SerializedTransaction blob           `json:"serializedTransaction"`
		SerializedHash        hash           `json:"serializedHash"`
	}{built.object(), unsigned, hash(crypto.Keccak256Hash(unsigned))})
}

// outgoingObject is an unsigned transaction as in outputs.
type outgoingObject struct {
	Type                 string    `json:"type"`
	ChainID              quantity  `json:"chainId"`
	From                 *address  `json:"from"`
	Nonce                decimal   `json:"nonce"`
	To                   *address  `json:"to"`
	Value                quantity  `json:"value"`
	Data                 blob      `json:"data"`
	GasLimit             decimal   `json:"gasLimit"`
	MaxFeePerGas         *quantity `json:"maxFeePerGas,omitempty"`
	MaxPriorityFeePerGas *quantity `json:"maxPriorityFeePerGas,omitempty"`
	GasPrice             *quantity `json:"gasPrice,omitempty"`
}

func (t *outgoing) object() outgoingObject {
	o := outgoingObject{
		Type: typeEIP1559, ChainID: quantity{*t.chainID}, From: (*address)(t.from), Nonce: decimal(t.nonce), To: (*address)(t.to),
		Value: quantity{*t.value}, Data: t.data, GasLimit: decimal(t.gasLimit),
	}
	if t.legacy {
		o.Type, o.GasPrice = typeLegacy, &quantity{*t.gasPrice}
		return o
	}
	o.MaxFeePerGas, o.MaxPriorityFeePerGas = &quantity{*t.maxFeePerGas}, &quantity{*t.maxPriorityFeePerGas}
	return o
}

// complete fills in the fields that the caller left out. It always reads the chain ID, because the
// node's nonce, gas and fees are valid only for its own chain.
func (n *node) complete(ctx context.Context, message callMessage, set overrides) (*outgoing, error) {
	p := &outgoing{from: &message.from, to: message.to, value: message.value, data: message.data}
	id, err := n.chainID(ctx)
	if err != nil {
		return nil, err
	}
	if p.chainID = &id.Int; set.chainID != nil && set.chainID.Cmp(p.chainID) != 0 {
		return nil, component.Permanent(component.CodeInvalidInput, "chainId: expected chain %s, but the node is on chain %s", set.chainID, p.chainID)
	}
	latest, err := n.latest(ctx)
	if err != nil {
		return nil, err
	}
	if err := n.price(ctx, p, latest, set); err != nil {
		return nil, err
	}
	if set.nonce != nil {
		p.nonce = set.nonce.Uint64()
	} else {
		next, err := n.nonce(ctx, message.from, "pending")
		if err != nil {
			return nil, err
		}
		p.nonce = uint64(next)
	}
	if set.gasLimit != nil {
		p.gasLimit = set.gasLimit.Uint64()
		return p, nil
	}
	gas, err := n.estimate(ctx, message, nil)
	p.gasLimit = allowance(uint64(gas), latest)
	return p, err
}

// allowance returns the gas limit for an estimate: the estimate plus 20 % if code runs, because the
// state can change before the transaction is mined. The block gas limit caps it if the chain has one.
// So does EIP-7825, except on a chain whose estimate shows that the chain doesn't apply it.
func allowance(estimate uint64, latest header) uint64 {
	const payment = 21000
	if estimate <= payment {
		return estimate
	}
	limit := estimate + estimate/5
	if estimate <= maxGas {
		limit = min(limit, maxGas)
	}
	if block := latest.GasLimit.number(); block != nil && block.IsUint64() {
		limit = min(limit, block.Uint64())
	}
	return max(estimate, limit)
}

// price fills in the fees.
func (n *node) price(ctx context.Context, p *outgoing, latest header, set overrides) error {
	base := latest.BaseFeePerGas.number()
	switch {
	case set.gasPrice != nil:
		p.legacy, p.gasPrice = true, set.gasPrice
		return nil
	case base == nil && (set.maxFee != nil || set.tip != nil):
		return component.Permanent(component.CodeInvalidInput, "maxFeePerGas: the chain has no base fee; use gasPrice instead of maxFeePerGas and maxPriorityFeePerGas")
	case set.maxFee != nil && set.tip != nil:
		p.maxFeePerGas, p.maxPriorityFeePerGas = set.maxFee, set.tip
		return nil
	}
	suggested, err := n.fees(ctx, latest)
	if err != nil {
		return err
	}
	if base == nil {
		p.legacy, p.gasPrice = true, &suggested.GasPrice.Int
		return nil
	}
	p.maxPriorityFeePerGas, p.maxFeePerGas = suggested.MaxPriorityFeePerGas.number(), set.maxFee
	if set.tip != nil {
		p.maxPriorityFeePerGas = set.tip
	}
	if set.maxFee == nil {
		p.maxFeePerGas = suggestedMaxFee(base, p.maxPriorityFeePerGas)
	} else if p.maxPriorityFeePerGas.Cmp(set.maxFee) > 0 {
		p.maxPriorityFeePerGas = set.maxFee
	}
	if p.maxFeePerGas.BitLen() > 256 {
		return n.malformed("eth_maxPriorityFeePerGas", protocolError("the fees have more than 256 bits"))
	}
	return nil
}
