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

// maxGas is the most that a transaction may be allowed since EIP-7825.
const maxGas = 1 << 24

type buildTransaction struct {
	formats
	guard *egress.Guard
}

func (*buildTransaction) Describe() component.Descriptor {
	d := asking{
		module: "BUILD_EVM_TRANSACTION", title: "Build EVM transaction",
		description: "Completes a transaction from what a node says (chain, nonce, gas, fees) and gives it as an object, serialized and hashed for signing. Nothing is sent. " +
			"What is given is taken as it is, what is not is asked for: the nonce counts the transactions that wait at the node; the gas limit is a fifth above the estimate, for a plain payment the estimate itself; " +
			"maxFeePerGas is twice the base fee plus maxPriorityFeePerGas. On a chain without a base fee, or with gasPrice, it is a legacy transaction.",
		about:    "What the transaction does, and what is known of it already.",
		required: `"jsonRpcUrl", "from"`,
		input: `"from": {"type": "string", "format": "evm-address", "title": "From", "description": "Who sends and signs it.", "examples": ["0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"]},
			"to": {"type": ["string", "null"], "format": "evm-address", "title": "To", "description": "Who receives it. Without it the data creates a contract; one that is paid at once needs null, so that a receiver that is forgotten costs nothing.", "examples": ["0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"]},
			"value": {` + uint256In + `, "default": "0", "title": "Value", "description": "How much of the native coin it carries, in wei, as a decimal string, or below 2^53 as a number.", "examples": ["1000000000000000000"]},
			"data": {` + calldataIn + `, "title": "Data", "default": "0x", "description": "The encoded function call, or the code that creates a contract.", "examples": ["0x18160ddd"]},
			"nonce": {` + uint64In + `, "title": "Nonce", "description": "The nonce to use, in place of the account's next one.", "examples": ["7"]},
			"gasLimit": {` + uint64In + `, "title": "Gas limit", "description": "The most gas that it may use, in place of the estimate. With it the transaction is not tried beforehand.", "examples": ["100000"]},
			"maxFeePerGas": {` + uint256In + `, "title": "Max fee per gas", "description": "The most to pay for a unit of gas, in wei. It bounds what a node may suggest as maxPriorityFeePerGas, too.", "examples": ["41000000000"]},
			"maxPriorityFeePerGas": {` + uint256In + `, "title": "Max priority fee per gas", "description": "What to offer whoever makes the block (the tip), for a unit of gas, in wei.", "examples": ["1000000000"]},
			"gasPrice": {` + uint256In + `, "title": "Gas price", "description": "What to pay for a unit of gas, in wei. With it, it is a legacy transaction.", "examples": ["21000000000"]},
			"chainId": {` + uint256In + `, "title": "Chain id", "description": "The chain that the transaction is for. A node on another chain is an error.", "examples": ["1"]},
			` + errorsABIProperty,
		example:     `, "from": "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045", "to": "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "value": "1000000000000000000"`,
		gives:       "The transaction, ready to be signed.",
		requiredOut: `"transaction", "serializedTransaction", "serializedHash"`,
		output: `"transaction": ` + outgoingSchema + `,
			"serializedTransaction": {` + bytesOut + `, "title": "Serialized transaction", "description": "The transaction as it is signed (RLP; with its type before it, EIP-2718, or with the chain's id, EIP-155, when it is a legacy one).", "examples": ["0x02f00107843b9aca0085098bca5a0082520894d8da6bf26964af9d7eed9e03e53415d37aa96045880de0b6b3a764000080c0"]},
			"serializedHash": {` + hashOut + `, "title": "Hash to sign", "description": "The Keccak-256 of the serialized transaction: the 32 bytes that a signature is of.", "examples": ["0x3f35ea56380f9b3cf5ad35daebf7080358adde31de7ae198e95cf8469e51c3b7"]}`,
	}.descriptor()
	d.Price = credit.Credits(5) // it asks the node up to six times
	return d
}

const outgoingSchema = `{
	"type": "object", "title": "Transaction", "description": "The transaction, as SIGN_EVM_TRANSACTION takes it.",
	"examples": [{"type": "eip1559", "chainId": "1", "from": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "nonce": "7", "to": "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045", "value": "1000000000000000000", "data": "0x", "gasLimit": "21000", "maxFeePerGas": "41000000000", "maxPriorityFeePerGas": "1000000000"}],
	"required": ["type", "chainId", "from", "nonce", "to", "value", "data", "gasLimit"],
	"properties": {
		"type": {"type": "string", "enum": ["eip1559", "legacy"], "description": "Its kind: eip1559 has maxFeePerGas and maxPriorityFeePerGas, legacy has gasPrice."},
		"chainId": {` + decimalOut + `, "description": "The chain that it is for."},
		"from": {` + addressOut + `, "description": "Who is to sign it. What is signed does not hold it."},
		"nonce": {` + decimalOut + `, "description": "Its place among the sender's transactions."},
		"to": {` + nullableAddressOut + `, "description": "Who receives it; null when it creates a contract."},
		"value": {` + decimalOut + `, "description": "How much of the native coin it carries, in wei."},
		"data": {` + bytesOut + `, "description": "The encoded function call, or the code that creates a contract."},
		"gasLimit": {` + decimalOut + `, "description": "The most gas that it may use."},
		"maxFeePerGas": {` + decimalOut + `, "description": "The most to pay for a unit of gas, in wei."},
		"maxPriorityFeePerGas": {` + decimalOut + `, "description": "What is offered to whoever makes the block, for a unit of gas, in wei."},
		"gasPrice": {` + decimalOut + `, "description": "What to pay for a unit of gas, in wei."}
	}
}`

type buildInput struct {
	JSONRPCURL           string          `json:"jsonRpcUrl"`
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

// overrides are the fields that the caller settled; the others are nil.
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
		return o, invalid("gasPrice", errors.New("a legacy transaction has neither maxFeePerGas nor maxPriorityFeePerGas; give one or the other"))
	case o.maxFee != nil && o.tip != nil && o.tip.Cmp(o.maxFee) > 0:
		return o, invalid("maxPriorityFeePerGas", errors.New("may not be more than maxFeePerGas"))
	}
	return o, nil
}

// message is what the transaction does. A creation that is paid has to be asked for: what
// is sent to a contract that nobody wanted stays there.
func (in buildInput) message() (callMessage, error) {
	var to *string
	if len(in.To) > 0 {
		if err := json.Unmarshal(in.To, &to); err != nil {
			return callMessage{}, invalid("to", errors.New("a text or null is needed"))
		}
	}
	if to == nil {
		to = new(string)
	}
	does, err := parseMessage(in.From, *to, in.Value, in.Data)
	if err == nil && does.to == nil && does.value.Sign() > 0 && in.To == nil {
		err = invalid("to", errors.New("is required: expected an address; where the data is to create a contract that is paid value at once, give null"))
	}
	return does, err
}

func (m *buildTransaction) Run(ctx context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[buildInput](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	does, err := input.message()
	if err != nil {
		return component.Result{}, err
	}
	given, err := input.overrides()
	if err != nil {
		return component.Result{}, err
	}
	node, err := dialKnowing(m.guard, input.JSONRPCURL, input.ABI)
	if err != nil {
		return component.Result{}, err
	}
	built, err := node.complete(ctx, does, given)
	if err != nil {
		return component.Result{}, err
	}
	if err := built.check(); err != nil {
		return component.Result{}, refused("transaction", err)
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

// outgoingObject is a transaction to be signed as outputs hold it.
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

// complete settles what the caller left open. The chain is always asked for:
// what the node says of nonce, gas and fees holds on its own chain only.
func (n *node) complete(ctx context.Context, does callMessage, given overrides) (*outgoing, error) {
	p := &outgoing{from: &does.from, to: does.to, value: does.value, data: does.data}
	id, err := n.chainID(ctx)
	if err != nil {
		return nil, err
	}
	if p.chainID = &id.Int; given.chainID != nil && given.chainID.Cmp(p.chainID) != 0 {
		return nil, component.Permanent(component.CodeInvalidInput, "chainId: %s is asked for, but the node is on the chain %s", given.chainID, p.chainID)
	}
	latest, err := n.latest(ctx)
	if err != nil {
		return nil, err
	}
	if err := n.price(ctx, p, latest, given); err != nil {
		return nil, err
	}
	if given.nonce != nil {
		p.nonce = given.nonce.Uint64()
	} else {
		next, err := n.nonce(ctx, does.from, "pending")
		if err != nil {
			return nil, err
		}
		p.nonce = uint64(next)
	}
	if given.gasLimit != nil {
		p.gasLimit = given.gasLimit.Uint64()
		return p, nil
	}
	gas, err := n.estimate(ctx, does, "latest")
	p.gasLimit = allowance(uint64(gas), latest)
	return p, err
}

// allowance is the gas limit by an estimate: a fifth more where code runs, which
// may find another state when it is mined, as far as a block and EIP-7825 allow.
func allowance(estimate uint64, latest header) uint64 {
	const payment = 21000
	if estimate <= payment {
		return estimate
	}
	limit := uint64(maxGas)
	if latest.GasLimit.IsUint64() {
		limit = min(limit, latest.GasLimit.Uint64())
	}
	return max(estimate, min(estimate+estimate/5, limit))
}

// price settles the fees.
func (n *node) price(ctx context.Context, p *outgoing, latest header, given overrides) error {
	base := latest.BaseFeePerGas.number()
	switch {
	case given.gasPrice != nil:
		p.legacy, p.gasPrice = true, given.gasPrice
		return nil
	case base == nil && (given.maxFee != nil || given.tip != nil):
		return component.Permanent(component.CodeInvalidInput, "maxFeePerGas: the chain has no base fee; give gasPrice instead of maxFeePerGas and maxPriorityFeePerGas")
	case given.maxFee != nil && given.tip != nil:
		p.maxFeePerGas, p.maxPriorityFeePerGas = given.maxFee, given.tip
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
	p.maxPriorityFeePerGas, p.maxFeePerGas = suggested.MaxPriorityFeePerGas.number(), given.maxFee
	if given.tip != nil {
		p.maxPriorityFeePerGas = given.tip
	}
	if given.maxFee == nil {
		p.maxFeePerGas = most(base, p.maxPriorityFeePerGas)
	} else if p.maxPriorityFeePerGas.Cmp(given.maxFee) > 0 {
		p.maxPriorityFeePerGas = given.maxFee
	}
	if p.maxFeePerGas.BitLen() > 256 {
		return n.malformed("eth_maxPriorityFeePerGas", breach("the fees are larger than 256 bits"))
	}
	return nil
}
