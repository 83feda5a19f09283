package evm

import (
	"context"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/upstream"
	"github.com/weft-automation/weft/internal/platform/egress"
)

const maxScan = 16 // blocks searched for the transaction that replaced the watched transaction

// waitState is what a poll stores for the next one.
type waitState struct {
	Since   time.Time  `json:"since"`           // time of the first poll
	Polls   int        `json:"looks"`           // number of polls so far
	From    string     `json:"from,omitempty"`  // the sender, once the node knew the transaction
	Nonce   uint64     `json:"nonce,omitempty"` // the transaction's nonce, likewise
	Head    uint64     `json:"head,omitempty"`  // the last block that can't contain the transaction or a replacement
	Mined   bool       `json:"mined,omitempty"`
	Missing *time.Time `json:"missing,omitempty"` // when the node was first found without the transaction
	Used    *time.Time `json:"used,omitempty"`    // when its nonce was first found used by a different transaction
}

// transaction has the fields that identify a transaction and its replacement.
type transaction struct {
	Hash  hash    `json:"hash"`
	From  address `json:"from"`
	Nonce ordinal `json:"nonce"`
}

func (t *transaction) UnmarshalJSON(data []byte) error {
	type plain transaction
	return decodeObject(data, "the transaction", (*plain)(t), []string{"hash", "from", "nonce"})
}

// watch is one poll of a transaction.
type watch struct {
	node          *node
	hash          common.Hash
	confirmations uint64
	state         *waitState
	now           time.Time
	settle, drop  time.Duration
}

type waitResult struct {
	Receipt       *receipt `json:"receipt"`
	Status        string   `json:"status"`
	BlockNumber   decimal  `json:"blockNumber"`
	Confirmations uint64   `json:"confirmations"`
}

// poll returns the result, or nil if the wait continues. It updates the state in either case.
func (w *watch) poll(ctx context.Context) (*waitResult, error) {
	var r *receipt
	if err := w.node.call(ctx, &r, "eth_getTransactionReceipt", w.hash.Hex()); err != nil {
		return nil, err
	}
	var head ordinal
	if err := w.node.call(ctx, &head, "eth_blockNumber"); err != nil {
		return nil, err
	}
	if r != nil {
		if err := r.check(w.hash); err != nil {
			return nil, w.node.malformed("eth_getTransactionReceipt", err)
		}
		if r.Status == nil { // of a block before Byzantium, so waiting longer is of no use
			return nil, component.Permanent(component.CodeUpstream, "the receipt has no status of 0 or 1").
				With(upstream.Details{Class: egress.ClassMalformed, Reason: egress.ReasonJSONRPC, Sent: egress.SentAnswered})
		}
		return w.mined(ctx, r, uint64(head))
	}
	w.state.Mined = false
	known, err := w.remember(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case known:
		w.state.Head = uint64(head)
		w.state.Missing, w.state.Used = nil, nil
	case w.state.From != "":
		err = w.checkMissing(ctx, uint64(head))
	}
	return nil, err
}

// mined counts the confirmations. It returns nil if there are too few. Each poll reads the receipt
// again, so it detects when a reorganisation drops the block.
func (w *watch) mined(ctx context.Context, r *receipt, head uint64) (*waitResult, error) {
	confirmations := uint64(1) // a node that lags behind may report an older head
	if block := uint64(r.BlockNumber); head >= block {
		confirmations = head - block + 1
	}
	if confirmations < w.confirmations {
		w.state.Mined = true
		w.state.Head = max(uint64(r.BlockNumber), 1) - 1
		w.state.Missing, w.state.Used = nil, nil
		if w.state.From == "" {
			if _, err := w.remember(ctx); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	return &waitResult{Receipt: r, Status: *r.status(), BlockNumber: r.BlockNumber, Confirmations: confirmations}, nil
}

// remember stores the sender and the nonce, by which a replacement is identified later. It reports
// whether the node has the transaction.
func (w *watch) remember(ctx context.Context) (bool, error) {
	var tx *transaction
	if err := w.node.call(ctx, &tx, "eth_getTransactionByHash", w.hash.Hex()); err != nil || tx == nil {
		return false, err
	}
	if common.Hash(tx.Hash) != w.hash {
		return false, w.node.malformed("eth_getTransactionByHash", protocolError("the transaction is not the requested one"))
	}
	w.state.From, w.state.Nonce = common.Address(tx.From).Hex(), uint64(tx.Nonce)
	return true, nil
}

// checkMissing handles a transaction that the node had but no longer has. It returns
// TRANSACTION_REPLACED if a different transaction used the nonce, and TRANSACTION_DROPPED
// otherwise. It returns either error only after the state has lasted long enough to rule out a
// lagging node.
func (w *watch) checkMissing(ctx context.Context, head uint64) error {
	var next ordinal
	if err := w.node.call(ctx, &next, "eth_getTransactionCount", w.state.From, "latest"); err != nil {
		return err
	}
	details := map[string]any{"from": w.state.From, "nonce": decimal(w.state.Nonce)}
	if uint64(next) > w.state.Nonce {
		w.state.Missing = nil
		if !w.lasted(&w.state.Used, w.settle) {
			return nil
		}
		message := "the transaction was replaced: another transaction used its nonce"
		if by, ok := w.replacement(ctx, head); ok {
			details["replacedBy"] = by
			message = "the transaction was replaced by " + by.Hex()
		}
		return component.Permanent(codeReplaced, "%s", message).With(details)
	}
	w.state.Used = nil
	if !w.lasted(&w.state.Missing, w.drop) {
		return nil
	}
	return component.Permanent(codeDropped, "the node dropped the transaction: it no longer knows it, and the nonce is unused").With(details)
}

// lasted records when a state was first observed and reports whether it has lasted for the limit.
func (w *watch) lasted(first **time.Time, limit time.Duration) bool {
	if *first == nil {
		*first = new(w.now)
	}
	return w.now.Sub(**first) >= limit
}

// replacement searches the blocks since the transaction was last pending for the transaction that
// used its nonce. The result only adds detail to an error, so replacement returns false if the
// search fails.
func (w *watch) replacement(ctx context.Context, head uint64) (common.Hash, bool) {
	for number := w.state.Head; number <= min(head, w.state.Head+maxScan); number++ {
		var block *struct {
			Transactions []transaction `json:"transactions"`
		}
		if err := w.node.call(ctx, &block, "eth_getBlockByNumber", ordinal(number).hex(), true); err != nil || block == nil {
			return common.Hash{}, false
		}
		for _, tx := range block.Transactions {
			if common.Address(tx.From).Hex() == w.state.From && uint64(tx.Nonce) == w.state.Nonce {
				return common.Hash(tx.Hash), true
			}
		}
	}
	return common.Hash{}, false
}
