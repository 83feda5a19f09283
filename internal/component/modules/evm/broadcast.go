package evm

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/platform/egress"
)

type broadcastTransaction struct {
	formats
	guard *egress.Guard
}

func (*broadcastTransaction) Describe() component.Descriptor {
	d := nodeQuery{
		module: "BROADCAST_EVM_TRANSACTION", title: "Broadcast EVM transaction",
		description: "Sends a signed transaction to a node (eth_sendRawTransaction) and returns its hash immediately. Use WAIT_FOR_EVM_TRANSACTION to wait until it is mined. " +
			"Sending the same transaction again succeeds, whether it is pending or mined.",
		about:    "The transaction and the node.",
		required: `"jsonRpcUrl", "signedTransaction"`,
		input: `"signedTransaction": {"type": "string", "format": "hex-bytes", "minLength": 4, "maxLength": 524288, "title": "Signed transaction", "description": "The serialized signed transaction, as SIGN_EVM_TRANSACTION returns it.",
				"examples": ["0xf86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"]}`,
		example:     `, "signedTransaction": "0xf86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"`,
		returns:     "The sent transaction.",
		requiredOut: `"transactionHash", "alreadyKnown"`,
		output: `"transactionHash": {` + hashOut + `, "title": "Transaction hash", "description": "The transaction's hash, computed from its bytes.", "examples": ["0x33469b22e9f636356c4160a87eb19df52b7412e8eac32a4a55ffe88ea8350788"]},
			"alreadyKnown": {"type": "boolean", "title": "Already known", "description": "Whether the node already had the transaction.", "examples": [false]}`,
	}.descriptor()
	d.Price = credit.Credits(5)
	d.Effect, d.Repeat = component.EffectWrite, component.RepeatIdempotent
	return d
}

func (m *broadcastTransaction) Run(ctx context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct{ SignedTransaction string }](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	raw, err := parseBytes(input.SignedTransaction)
	if err != nil {
		return component.Result{}, invalid("signedTransaction", err)
	}
	want, err := signedHash(raw)
	if err != nil {
		return component.Result{}, invalid("signedTransaction", err)
	}
	node, err := dial(m.guard, call.Input)
	if err != nil {
		return component.Result{}, err
	}
	known, err := node.broadcast(ctx, raw, want)
	if err != nil {
		return component.Result{}, err
	}
	return component.Encode(struct {
		TransactionHash hash `json:"transactionHash"`
		AlreadyKnown    bool `json:"alreadyKnown"`
	}{hash(want), known})
}

// already matches the messages with which nodes and gateways reject a transaction that they already have.
// A message about the nonce is about another transaction of the same account.
var (
	already = regexp.MustCompile(`(?i)already[ _]?(known|imported)|\bknown[ _]?transaction|\bsame hash|` +
		`\b(tx|transaction)[ _]?(is )?already[ _]?(exists|in|pending|finalized)\b|\bdup(licate)?[ _]?(tx|transaction)`)
	aboutNonce = regexp.MustCompile(`(?i)nonce`)
)

// broadcast sends a transaction and reports whether the node already had it. After an error it
// checks whether the node has the transaction, because then it was accepted.
func (n *node) broadcast(ctx context.Context, raw []byte, want common.Hash) (known bool, err error) {
	const method = "eth_sendRawTransaction"
	var sent hash
	err = n.call(ctx, &sent, method, hexOf(raw))
	switch {
	case err == nil && common.Hash(sent) != want:
		return false, n.malformed(method, protocolError("the returned hash is not the hash of the transaction"))
	case err == nil:
		return false, nil
	}
	_, text, ok := rpcErrorOf(err)
	switch {
	case !ok:
		return false, err
	case already.MatchString(text) && !aboutNonce.MatchString(text), n.has(ctx, want):
		return true, nil
	}
	return false, err
}

// has reports whether the node has a transaction. It returns false if the query fails.
func (n *node) has(ctx context.Context, want common.Hash) bool {
	var tx *transaction
	err := n.call(ctx, &tx, "eth_getTransactionByHash", want.Hex())
	return err == nil && tx != nil && common.Hash(tx.Hash) == want
}

// signedHash returns the hash of a signed transaction, or an error if the bytes are not a
// transaction that can be sent.
func signedHash(raw []byte) (common.Hash, error) {
	kind, list, err := transactionItems(raw)
	if err != nil {
		return common.Hash{}, err
	}
	fields := map[byte]int{0: 9, 1: 11, 2: 12, 4: 13}[kind] // fields of a signed transaction by type
	switch {
	case kind == 0 && raw[0] == 0:
		return common.Hash{}, errors.New("it has the type prefix 0, but legacy transactions have no prefix")
	case kind == 3:
		return common.Hash{}, errors.New("it has blobs (EIP-4844), which are not supported")
	case fields == 0: // a type that only some chains have; the node validates the transaction
		return crypto.Keccak256Hash(raw), nil
	case len(list) == fields-3, kind == 0 && len(list) == 9 && isZero(list[7]) && isZero(list[8]):
		return common.Hash{}, errors.New("it is not signed")
	case len(list) != fields:
		return common.Hash{}, fmt.Errorf("a signed transaction of type %d has %d fields, got %d", kind, fields, len(list))
	}
	return crypto.Keccak256Hash(raw), nil
}

// transactionItems returns the RLP items of a transaction and its EIP-2718 type, 0 for a legacy
// transaction.
func transactionItems(raw []byte) (kind byte, list [][]byte, err error) {
	form := errors.New("it is not an RLP-encoded transaction with or without a type prefix (EIP-2718)")
	if len(raw) == 0 {
		return 0, nil, form
	}
	if raw[0] <= 0x7f {
		kind, raw = raw[0], raw[1:]
	}
	content, rest, err := rlp.SplitList(raw)
	if err != nil || len(rest) > 0 {
		return 0, nil, form
	}
	for len(content) > 0 {
		_, _, after, err := rlp.Split(content)
		if err != nil {
			return 0, nil, form
		}
		list = append(list, content[:len(content)-len(after)])
		content = after
	}
	return kind, list, nil
}

// isZero reports whether an RLP item is the number 0.
func isZero(item []byte) bool { return len(item) == 1 && item[0] == 0x80 }
