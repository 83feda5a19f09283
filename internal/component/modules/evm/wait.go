package evm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/platform/egress"
)

const (
	waitTimeout = time.Hour
	firstPause  = 500 * time.Millisecond // the delay after the first poll; each poll doubles it

	// A node behind a load balancer can lag behind its siblings. A state counts only after the
	// module has observed it for the following time.
	settleAfter = 10 * time.Second // the nonce is used, but there is no receipt
	dropAfter   = 60 * time.Second // the node no longer has the transaction
)

// Error codes for transactions that are never mined.
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
	d := nodeQuery{
		module: "WAIT_FOR_EVM_TRANSACTION", title: "Wait for EVM transaction",
		description: "Waits up to one hour until a transaction is mined and has the requested number of confirmations, then returns its receipt. Outages and rate limits of the node don't end the wait. " +
			"A reverted transaction is a result, not a failure. If another transaction used the same nonce, the execution fails with TRANSACTION_REPLACED. If the node dropped the transaction, it fails with TRANSACTION_DROPPED.",
		about:    "The transaction to wait for, and the timeout.",
		required: `"jsonRpcUrl", "transactionHash"`,
		input: `"transactionHash": {"type": "string", "format": "evm-hash", "title": "Transaction hash", "description": "The hash of the transaction. The node doesn't have to know it yet.", "examples": ["0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060"]},
				"confirmations": {"type": "integer", "minimum": 1, "maximum": 10000, "default": 1, "title": "Confirmations", "description": "The number of confirmations to wait for. The block that contains the transaction counts as 1.", "examples": [1]},
				"timeoutMs": {"type": "integer", "minimum": 1, "maximum": 3600000, "default": 3600000, "title": "Timeout (ms)", "description": "The maximum time to wait, in milliseconds.", "examples": [600000]}`,
		example:     `, "transactionHash": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060", "confirmations": 2`,
		returns:     "The outcome of the transaction.",
		requiredOut: `"receipt", "status", "blockNumber", "confirmations"`,
		output: `"receipt": ` + receiptSchema + `,
				"status": {"type": "string", "enum": ["success", "reverted"], "title": "Status", "description": "Whether the transaction succeeded or reverted.", "examples": ["success"]},
				"blockNumber": {` + decimalOut + `, "title": "Block number", "description": "The number of the block that contains the transaction, as a decimal string.", "examples": ["19000000"]},
				"confirmations": {"type": "integer", "minimum": 1, "title": "Confirmations", "description": "The number of confirmations when the wait finished.", "examples": [2]}`,
	}.descriptor()
	d.Price = credit.Credits(5)              // an execution polls the node many times
	d.Timeout = waitTimeout + 30*time.Second // longer than the maximum of timeoutMs, so that the module reports its own timeout
	return d
}

type waitInput struct {
	TransactionHash string            `json:"transactionHash"`
	Confirmations   component.Integer `json:"confirmations"`
	TimeoutMs       component.Integer `json:"timeoutMs"`
}

func (m *waitForTransaction) Run(ctx context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[waitInput](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	hash, err := parseHash(input.TransactionHash)
	if err != nil {
		return component.Result{}, invalid("transactionHash", err)
	}
	state, err := m.resume(call.State)
	if err != nil {
		return component.Result{}, err
	}
	node, err := dial(m.guard, call.Input)
	if err != nil {
		return component.Result{}, err
	}
	w := watch{node: node, hash: hash, confirmations: max(uint64(input.Confirmations), 1), state: &state, now: m.now(), settle: m.settle, drop: m.drop}
	result, err := w.poll(ctx)
	failed, ok := tolerable(ctx, err)
	switch {
	case err != nil && !ok:
		return component.Result{}, err
	case result != nil:
		return component.Encode(result)
	}
	limit := waitTimeout
	if input.TimeoutMs > 0 {
		limit = min(time.Duration(input.TimeoutMs)*time.Millisecond, waitTimeout)
	}
	return m.pause(state, limit, failed)
}

// resume returns the state that the previous poll stored, or the state of a new wait if raw is nil.
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

// tolerable returns the error of a poll after which the wait continues: the transaction goes on while
// its node is down, so a failure that a retry can resolve ends the wait only at its timeout.
func tolerable(ctx context.Context, err error) (*component.Error, bool) {
	failed, ok := errors.AsType[*component.Error](err)
	return failed, ok && failed.Retryable && ctx.Err() == nil
}

// pause schedules the next poll. It returns TIMEOUT if the limit has passed. The node's failure, nil
// if the last poll succeeded, is then part of the error.
func (m *waitForTransaction) pause(state waitState, limit time.Duration, last *component.Error) (component.Result, error) {
	left := limit - m.now().Sub(state.Since)
	if left <= 0 {
		known := "the node never knew it"
		switch {
		case state.Mined:
			known = "it is mined, but has too few confirmations"
		case state.From != "":
			known = "it is pending"
		}
		if last == nil {
			return component.Result{}, component.Temporary(component.CodeTimeout, "the transaction was not final within %s: %s", limit, known)
		}
		failed := component.Temporary(component.CodeTimeout, "the transaction was not final within %s: %s; the last request to the node failed: %s", limit, known, last.Message)
		failed.Details, failed.Err = last.Details, last
		return component.Result{}, failed
	}
	after := min(firstPause<<min(state.Polls, 8), component.MaxWait, left)
	state.Polls++
	raw, err := json.Marshal(state)
	if err != nil {
		return component.Result{}, fmt.Errorf("encode state of the wait: %w", err)
	}
	return component.Result{Wait: &component.Wait{After: after, State: raw}}, nil
}
