package evm

import (
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
)

// eip155 is the signed transaction of the example in EIP-155. eip155Hash is its hash.
const (
	eip155     = "0xf86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"
	eip155Hash = "0x33469b22e9f636356c4160a87eb19df52b7412e8eac32a4a55ffe88ea8350788"
)

func TestBroadcastOfKnownTransactionSucceeds(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, modules(t)...)
	known := resultOf(cannedTransaction(eip155Hash, 0))
	refusal := func(message string) string { return `"error":{"code":-32000,"message":"` + message + `"}` }
	for name, c := range map[string]struct {
		sent, found string
		already     any // nil: the module fails
		words       string
	}{
		"accepted":                      {resultOf(`"` + eip155Hash + `"`), "", false, ""},
		"geth":                          {refusal("already known"), resultOf("null"), true, ""},
		"erigon":                        {refusal("ALREADY_EXISTS: already known"), resultOf("null"), true, ""},
		"nethermind":                    {refusal("AlreadyKnown, hash: x"), resultOf("null"), true, ""},
		"besu":                          {refusal("Known transaction"), resultOf("null"), true, ""},
		"old geth":                      {refusal("known transaction: 33469b22"), resultOf("null"), true, ""},
		"parity":                        {refusal("Transaction with the same hash was already imported."), resultOf("null"), true, ""},
		"erigon, being mined":           {refusal("INTERNAL_ERROR: existing tx with same hash"), resultOf("null"), true, ""},
		"nethermind, a call":            {refusal("call failed: AlreadyKnown"), resultOf("null"), true, ""},
		"besu, its reason":              {refusal("TRANSACTION_ALREADY_KNOWN"), resultOf("null"), true, ""},
		"anvil":                         {refusal("transaction already imported"), resultOf("null"), true, ""},
		"frontier":                      {refusal("submit transaction to pool failed: Pool(AlreadyImported(0x33))"), resultOf("null"), true, ""},
		"zksync":                        {refusal("known transaction. transaction with hash 0x33 is already in the system"), resultOf("null"), true, ""},
		"cosmos":                        {refusal("tx already in mempool"), resultOf("null"), true, ""},
		"cosmos, its cache":             {refusal("tx already exists in cache"), resultOf("null"), true, ""},
		"hedera":                        {refusal("[Request ID: 1] DUPLICATE_TRANSACTION"), resultOf("null"), true, ""},
		"tron":                          {refusal("DUP_TRANSACTION_ERROR"), resultOf("null"), true, ""},
		"harmony":                       {refusal("transaction already finalized"), resultOf("null"), true, ""},
		"a gateway":                     {refusal("Transaction already exists"), resultOf("null"), true, ""},
		"another of its nonce":          {refusal("transaction already in pool with the same nonce"), resultOf("null"), nil, "same nonce"},
		"a replacement":                 {refusal("could not replace existing tx"), resultOf("null"), nil, "could not replace"},
		"an account of another pool":    {refusal("address already reserved"), resultOf("null"), nil, "address already reserved"},
		"nonce too low, and it has it":  {refusal("nonce too low: next nonce 10, tx nonce 9"), known, true, ""},
		"other words, and it has it":    {refusal("replacement transaction underpriced"), known, true, ""},
		"nonce too low":                 {refusal("nonce too low"), resultOf("null"), nil, "nonce too low"},
		"has another":                   {refusal("nonce too low"), resultOf(cannedTransaction(someHash, 0)), nil, "nonce too low"},
		"cannot say whether it has it":  {refusal("nonce too low"), refusal("not now"), nil, "nonce too low"},
		"unknown, not known":            {refusal("unknown transaction type"), resultOf("null"), nil, "unknown transaction type"},
		"no money":                      {refusal("insufficient funds for gas * price + value"), resultOf("null"), nil, "insufficient funds"},
		"the hash of something else":    {resultOf(`"` + someHash + `"`), known, nil, "the returned hash is not the hash of the transaction"},
		"no hash":                       {resultOf(`"0x12"`), known, nil, "malformed"},
		"a code of 0, and it has it":    {`"error":{"code":0,"message":"no"}`, known, true, ""},
		"a revert of it, and it has it": {`"error":{"code":3,"message":"execution reverted"}`, known, true, ""},
	} {
		url := nodeWith(t, map[string]string{"eth_sendRawTransaction": c.sent, "eth_getTransactionByHash": c.found})
		output, failed := bench.Run(t, "BROADCAST_EVM_TRANSACTION", text(t, object{"jsonRpcUrl": url, "signedTransaction": eip155}), `{}`)
		if c.already == nil {
			if failed == nil || failed.Code != component.CodeUpstream || !strings.Contains(failed.Message, c.words) {
				t.Errorf("%s: %s, %v", name, output, failed)
			}
			continue
		}
		if want := text(t, object{"transactionHash": eip155Hash, "alreadyKnown": c.already}); failed != nil || text(t, decoded(t, output)) != want {
			t.Errorf("%s: %s, %v; want %s", name, output, failed, want)
		}
	}
}

func TestOnlySignedTransactionsAreSent(t *testing.T) {
	for name, c := range map[string]struct{ raw, words string }{
		"legacy, unsigned (EIP-155)": {"0xec098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a764000080018080", "not signed"},
		"legacy, unsigned, before":   {"0xe9098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a764000080", "not signed"},
		"EIP-1559, unsigned":         {"0x02f00107843b9aca0085098bca5a0082520894d8da6bf26964af9d7eed9e03e53415d37aa96045880de0b6b3a764000080c0", "not signed"},
		"nothing":                    {"0x", "RLP"},
		"a type alone":               {"0x02", "RLP"},
		"a string":                   {"0x8568656c6c6f", "RLP"},
		"more after the list":        {eip155 + "00", "RLP"},
		"cut":                        {eip155[:len(eip155)-2], "RLP"},
		"a list of one":              {"0xc101", "9 fields, got 1"},
		"a type of 0":                {"0x00" + eip155[2:], "the type prefix 0"},
		"with blobs":                 {"0x03c101", "blobs"},
		"a broken item":              {"0xc2b801", "RLP"},
	} {
		if hash, err := signedHash(common.FromHex(c.raw)); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %s, %v", name, hash, err)
		}
	}
	for name, raw := range map[string]string{"EIP-155": eip155, "of another chain": "0x7ec3010203"} {
		if hash, err := signedHash(common.FromHex(raw)); err != nil || hash != crypto.Keccak256Hash(common.FromHex(raw)) {
			t.Errorf("%s: %s, %v", name, hash, err)
		}
	}
}
