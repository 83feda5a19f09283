package evm

import (
	"context"
	"encoding/json"
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
	d := asking{
		module: "BROADCAST_EVM_TRANSACTION", title: "Broadcast EVM transaction",
		description: "Sends a signed transaction to a node (eth_sendRawTransaction) and returns its hash without waiting for a block: WAIT_FOR_EVM_TRANSACTION does. " +
			"The same bytes are the same transaction, so sending them again is a success, whether it waits already or is mined.",
		about:    "The transaction, and the node that takes it.",
		required: `"jsonRpcUrl", "signedTransaction"`,
		input: `"signedTransaction": {"type": "string", "format": "hex-bytes", "minLength": 4, "maxLength": 524288, "title": "Signed transaction", "description": "The signed transaction in serialized form, as SIGN_EVM_TRANSACTION gives it.",
				"examples": ["0xf86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"]}`,
		example:     `, "signedTransaction": "0xf86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"`,
		gives:       "The transaction that the node has now.",
		requiredOut: `"transactionHash", "alreadyKnown"`,
		output: `"transactionHash": {` + hashOut + `, "title": "Transaction hash", "description": "The transaction's hash, which is computed from the bytes.", "examples": ["0x33469b22e9f636356c4160a87eb19df52b7412e8eac32a4a55ffe88ea8350788"]},
			"alreadyKnown": {"type": "boolean", "title": "Already known", "description": "Whether the node had the transaction before.", "examples": [false]}`,
	}.descriptor()
	d.Price = credit.Credits(5)
	d.Effect, d.Repeat = component.EffectWrite, component.RepeatIdempotent
	return d
}

func (m *broadcastTransaction) Run(ctx context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct{ JSONRPCURL, SignedTransaction string }](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	raw, err := parseBytes(input.SignedTransaction)
	if err != nil {
		return component.Result{}, invalid("signedTransaction", err)
	}
	its, err := signedHash(raw)
	if err != nil {
		return component.Result{}, invalid("signedTransaction", err)
	}
	node, err := dial(m.guard, input.JSONRPCURL)
	if err != nil {
		return component.Result{}, err
	}
	known, err := node.broadcast(ctx, raw, its)
	if err != nil {
		return component.Result{}, err
	}
	return component.Encode(struct {
		TransactionHash hash `json:"transactionHash"`
		AlreadyKnown    bool `json:"alreadyKnown"`
	}{hash(its), known})
}

// already are the words with which nodes refuse what waits at them.
var already = regexp.MustCompile(`(?i)already[ _]?(known|imported)|\bknown transaction`)

// broadcast sends the transaction of that hash and says whether the node had it
// before. Whatever a node says against it, a node that has it took it.
func (n *node) broadcast(ctx context.Context, raw []byte, its common.Hash) (known bool, err error) {
	const method = "eth_sendRawTransaction"
	var sent hash
	err = n.call(ctx, &sent, method, hexOf(raw))
	switch {
	case err == nil && common.Hash(sent) != its:
		return false, n.malformed(method, breach("the hash is not that of the bytes"))
	case err == nil:
		return false, nil
	}
	_, text, told := toldBy(err)
	switch {
	case !told:
		return false, err
	case already.MatchString(text), n.has(ctx, its):
		return true, nil
	}
	return false, err
}

// has says whether the node knows a transaction. No answer is a no: it is asked
// to find a reason to go on.
func (n *node) has(ctx context.Context, its common.Hash) bool {
	var tx *transaction
	err := n.call(ctx, &tx, "eth_getTransactionByHash", its.Hex())
	return err == nil && tx != nil && common.Hash(tx.Hash) == its
}

// signedHash is the hash of a signed transaction, or says why the bytes are
// none that can be sent.
func signedHash(raw []byte) (common.Hash, error) {
	kind, list, err := transactionItems(raw)
	if err != nil {
		return common.Hash{}, err
	}
	fields := map[byte]int{0: 9, 1: 11, 2: 12, 4: 13}[kind] // of a signed one
	switch {
	case kind == 0 && raw[0] == 0:
		return common.Hash{}, errors.New("it is of type 0, and legacy transactions carry no type")
	case kind == 3:
		return common.Hash{}, errors.New("it carries blobs (EIP-4844), and such transactions are not sent")
	case fields == 0: // another chain's own; its node knows it
		return crypto.Keccak256Hash(raw), nil
	case len(list) == fields-3, kind == 0 && len(list) == 9 && isZero(list[7]) && isZero(list[8]):
		return common.Hash{}, errors.New("it is not signed")
	case len(list) != fields:
		return common.Hash{}, fmt.Errorf("a signed transaction of type %d has %d fields, got %d", kind, fields, len(list))
	}
	return crypto.Keccak256Hash(raw), nil
}

// transactionItems are the RLP items of a transaction and its type of EIP-2718,
// 0 for a legacy one.
func transactionItems(raw []byte) (kind byte, list [][]byte, err error) {
	form := errors.New("it is not the RLP list of a transaction, alone or after its type (EIP-2718)")
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

// isZero says whether an RLP item is the number 0.
func isZero(item []byte) bool { return len(item) == 1 && item[0] == 0x80 }

// toldBy is the code and the message of an error that a node told, a revert
// among them; any other error is not ok.
func toldBy(err error) (code int64, message string, ok bool) {
	failed, ok := errors.AsType[*component.Error](err)
	if !ok {
		return 0, "", false
	}
	var details struct {
		Class           string `json:"class"`
		UpstreamCode    int64  `json:"upstreamCode"`
		UpstreamMessage string `json:"upstreamMessage"`
	}
	ok = json.Unmarshal(failed.Details, &details) == nil && (details.Class == classRPC || details.Class == classRevert)
	return details.UpstreamCode, details.UpstreamMessage, ok
}
