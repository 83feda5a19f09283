package evm

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/platform/egress"
)

const (
	waitTimeout = time.Hour
	firstPause  = 500 * time.Millisecond // between two looks at first; it doubles
	maxFailures = 5                      // of the node, one after the other, before the wait fails

	// A node behind a load balancer may lag its siblings: only what holds for
	// so long is believed.
	settleAfter = 10 * time.Second // the nonce is used, but there is no receipt
	dropAfter   = 60 * time.Second // the transaction was known, and is no more
)

// Codes of what becomes of a transaction that is never mined.
const (
	codeReplaced = "TRANSACTION_REPLACED"
	codeDropped  = "TRANSACTION_DROPPED"
)

type waitForTransaction struct {
	formats
	guard        *egress.Guard
	now          func() time.Time
	settle, drop time.Duration
}

func (*waitForTransaction) Describe() component.Descriptor {
	return component.Descriptor{
		Module: "WAIT_FOR_EVM_TRANSACTION",
		Title:  "Wait for EVM transaction",
		Description: "Waits until a transaction is mined and has the asked number of confirmations, for up to one hour, and returns its receipt. " +
			"A transaction that reverted is a result, not a failure. One that was replaced by another of the same nonce fails with TRANSACTION_REPLACED, one that the node forgot with TRANSACTION_DROPPED.",
		Category: category,
		Input: json.RawMessage(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type": "object",
			"description": "Which transaction to wait for, and how long.",
			"required": ["jsonRpcUrl", "transactionHash"],
			"properties": {
				` + jsonRPCURL + `,
				"transactionHash": {"type": "string", "format": "evm-hash", "title": "Transaction hash", "description": "The transaction to wait for. The node need not know it yet.", "examples": ["0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060"]},
				"confirmations": {"type": "integer", "minimum": 1, "maximum": 10000, "default": 1, "title": "Confirmations", "description": "How many blocks must hold it: 1 is the block that it is mined in.", "examples": [1]},
				"timeoutMs": {"type": "integer", "minimum": 1, "maximum": 3600000, "default": 3600000, "title": "Timeout (ms)", "description": "How long to wait at most, in milliseconds.", "examples": [600000]}
			},
			"examples": [{"jsonRpcUrl": "https://rpc.example.com/v1/mainnet", "transactionHash": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060", "confirmations": 2}]
		}`),
		Config: json.RawMessage(emptySchema),
		Output: json.RawMessage(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type": "object",
			"description": "What became of the transaction.",
			"required": ["receipt", "status", "blockNumber", "confirmations"],
			"properties": {
				"receipt": ` + receiptSchema + `,
				"status": {"type": "string", "enum": ["success", "reverted"], "title": "Status", "description": "Whether the transaction took effect.", "examples": ["success"]},
				"blockNumber": {` + decimalOut + `, "title": "Block number", "description": "The block that it is mined in, as a decimal string.", "examples": ["19000000"]},
				"confirmations": {"type": "integer", "minimum": 1, "title": "Confirmations", "description": "How many blocks held it when the wait ended.", "examples": [2]}
			}
		}`),
		Price: credit.Credits(5), // one call looks at the node many times
		// So much more than timeoutMs allows that the wait tells its own end.
		Timeout: waitTimeout + 30*time.Second,
		Effect:  component.EffectRead, Repeat: component.RepeatPure, Modes: both,
	}
}

type waitInput struct {
	JSONRPCURL      string            `json:"jsonRpcUrl"`
	TransactionHash string            `json:"transactionHash"`
	Confirmations   component.Integer `json:"confirmations"`
	TimeoutMs       component.Integer `json:"timeoutMs"`
}

func (m *waitForTransaction) Run(ctx context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[waitInput](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	asked, err := parseHash(input.TransactionHash)
	if err != nil {
		return component.Result{}, invalid("transactionHash", err)
	}
	state, err := m.resume(call.State)
	if err != nil {
		return component.Result{}, err
	}
	node, err := dial(m.guard, input.JSONRPCURL)
	if err != nil {
		return component.Result{}, err
	}
	w := watch{node: node, asked: asked, confirmations: max(uint64(input.Confirmations), 1), state: &state, now: m.now(), settle: m.settle, drop: m.drop}
	result, err := w.look(ctx)
	switch {
	case err != nil && !w.forgive(ctx, err):
		return component.Result{}, err
	case result != nil:
		return component.Encode(result)
	}
	limit := waitTimeout
	if input.TimeoutMs > 0 {
		limit = min(time.Duration(input.TimeoutMs)*time.Millisecond, waitTimeout)
	}
	return m.pause(state, limit)
}

// resume is the state of the last look; without one, that of a new wait.
func (m *waitForTransaction) resume(raw json.RawMessage) (waitState, error) {
	state := waitState{Since: m.now()}
	if raw == nil {
		return state, nil
	}
	if err := json.Unmarshal(raw, &state); err != nil {
		return state, fmt.Errorf("decode state of the wait: %w", err)
	}
	return state, nil
}

// pause asks for the next look, or ends the wait when its time is over.
func (m *waitForTransaction) pause(state waitState, limit time.Duration) (component.Result, error) {
	left := limit - m.now().Sub(state.Since)
	if left <= 0 {
		known := "the node never knew it"
		switch {
		case state.Mined:
			known = "it is mined, but has too few confirmations"
		case state.From != "":
			known = "it is pending"
		}
		return component.Result{}, component.Temporary(component.CodeTimeout, "the transaction was not final within %s: %s", limit, known)
	}
	after := min(firstPause<<min(state.Looks, 8), component.MaxWait, left)
	state.Looks++
	raw, err := json.Marshal(state)
	if err != nil {
		return component.Result{}, fmt.Errorf("encode state of the wait: %w", err)
	}
	return component.Result{Wait: &component.Wait{After: after, State: raw}}, nil
}
