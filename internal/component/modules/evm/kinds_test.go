package evm

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
	"github.com/weft-automation/weft/internal/component/modules/evm/evmtest"
)

// What a module does at a kind of node, for the example in its schema.
const (
	works    = "works"    // it has an output, at the first attempt
	recovers = "recovers" // attempts fail with retryable errors, and a later one has an output
	stops    = "stops"    // it fails with an error that is not retryable
)

// attempts is how often runAt runs a module that fails with a retryable error. An outage lasts longer.
const attempts = 8

// runAt runs a module until it has an output, or fails for good, and returns which of the above it
// did. A wait continues, however many polls it takes.
func runAt(t *testing.T, bench *componenttest.Bench, module string, input object, kind evmtest.Kind) (did string, last error) {
	t.Helper()
	input["jsonRpcUrl"] = evmtest.Mock(t, kind, func(method string, params []json.RawMessage) (string, bool) {
		return canned(request{method, params})
	})
	call := component.Call{ExecutionID: uuid.Must(uuid.NewV7()), Attempt: 1, Input: json.RawMessage(text(t, input)), Config: json.RawMessage(`{}`)}
	schema := componenttest.Compile(t, mustLookup(t, bench, module).Output)
	did = works
	for tries := 0; tries < attempts; {
		result, failed := bench.Look(t, module, call)
		switch {
		case failed != nil && !failed.Retryable:
			return stops, failed
		case failed != nil:
			did, last = recovers, failed
			tries++
			call.State = nil
		case result.Wait != nil:
			call.State = result.Wait.State
		default:
			var read any
			if err := json.Unmarshal(result.Output, &read); err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(read); err != nil {
				t.Errorf("%s at a node with %s returns %s: %v", module, kind.Name, result.Output, err)
			}
			return did, last
		}
	}
	return "fails", last
}

// TestEveryModuleAtEveryKindOfNode is the table of modules and answers. A module works at every kind
// of node, except where the table says otherwise.
func TestEveryModuleAtEveryKindOfNode(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, modules(t)...)
	for _, kind := range evmtest.Kinds {
		for module, input := range nodeQueries(t, modules(t)) {
			want := works
			switch {
			case kind.Name == "outage" && module != waitModule:
				want = "fails"
			case kind.Name == "limits results" && module == "GET_EVM_LOGS":
				want = stops
			case len(kind.Name) > 5 && kind.Name[:5] == "limit" && kind.Name != "limits results" && module != waitModule:
				want = recovers
			}
			if did, err := runAt(t, bench, module, input, kind); did != want {
				t.Errorf("%s at a node with %s %s, want %s: %v", module, kind.Name, did, want, err)
			}
		}
	}
}

// A field from which nothing follows is null if the node writes something else. A field that says
// something is never null by mistake.
func TestInformativeFieldsMayBeInvalid(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, modules(t)...)
	for _, c := range []struct {
		module, method, answer, object, field string
		ok                                    bool
	}{
		{"GET_EVM_BLOCK", "eth_getBlockByNumber", replaceOnce(cannedBlock(`[]`), `"stateRoot":"`+someHash, `"stateRoot":"0x`), "block", "stateRoot", true},
		{"GET_EVM_BLOCK", "eth_getBlockByNumber", replaceOnce(cannedBlock(`[]`), `"gasLimit":"0x1c9c380",`, ``), "block", "gasLimit", true},
		{"GET_EVM_BLOCK", "eth_getBlockByNumber", replaceOnce(cannedBlock(`[]`), `"gasUsed":"0xe4e1c0"`, `"gasUsed":7`), "block", "gasUsed", true},
		{"GET_EVM_BLOCK", "eth_getBlockByNumber", replaceOnce(cannedBlock(`[]`), `"baseFeePerGas":"0x4a817c800"`, `"baseFeePerGas":"0x"`), "block", "", false},
		{"GET_EVM_BLOCK", "eth_getBlockByNumber", replaceOnce(cannedBlock(`[]`), `"timestamp":"0x65a0c5f3"`, `"timestamp":"0x"`), "block", "", false},
		{"GET_EVM_TRANSACTION", "eth_getTransactionByHash", replaceOnce(cannedTransaction(someHash, 0), `"v":"0x1"`, `"v":"0x"`), "transaction", "v", true},
		{"GET_EVM_TRANSACTION", "eth_getTransactionByHash", replaceOnce(cannedTransaction(someHash, 0), `"to":null`, `"to":"0x12"`), "transaction", "", false},
		{"GET_EVM_TRANSACTION_RECEIPT", "eth_getTransactionReceipt", replaceOnce(cannedReceipt(someHash), `"effectiveGasPrice":"0x4e3b29200"`, `"effectiveGasPrice":"0x"`), "receipt", "effectiveGasPrice", true},
		{"GET_EVM_TRANSACTION_RECEIPT", "eth_getTransactionReceipt", replaceOnce(cannedReceipt(someHash), `"cumulativeGasUsed":"0x5208"`, `"root":"0x"`), "receipt", "cumulativeGasUsed", true},
		{"GET_EVM_TRANSACTION_RECEIPT", "eth_getTransactionReceipt", replaceOnce(cannedReceipt(someHash), `"status":"0x1"`, `"status":"0x"`), "receipt", "", false},
	} {
		input := object{"jsonRpcUrl": nodeWith(t, map[string]string{c.method: c.answer})}
		if c.module != "GET_EVM_BLOCK" {
			input["transactionHash"] = someHash
		}
		output, failed := bench.Run(t, c.module, text(t, input), `{}`)
		if !c.ok {
			if failed == nil || failed.Code != component.CodeUpstream {
				t.Errorf("%s: %.100s: %s, %v", c.module, c.answer, output, failed)
			}
			continue
		}
		found, _ := decoded(t, output)[c.object].(object)
		if value, is := found[c.field]; failed != nil || !is || value != nil {
			t.Errorf("%s: %s is %v: %v", c.module, c.field, value, failed)
		}
	}
}

// An error has three forms.
func TestErrorOfANodeMayBeAText(t *testing.T) {
	for given, want := range map[string]rpcError{
		`"over rate limit"`:                        {Message: "over rate limit"},
		`{"code":"-32005","message":"slow"}`:       {Code: -32005, Message: "slow"},
		`{"code":-32000,"message":{"text":"odd"}}`: {Code: -32000, Message: `{"text":"odd"}`},
		`["odd"]`: {Message: `["odd"]`},
		`{}`:      {},
	} {
		var got rpcError
		if err := json.Unmarshal([]byte(given), &got); err != nil || got.Code != want.Code || got.Message != want.Message {
			t.Errorf("%s: %+v, %v", given, got, err)
		}
	}
}

// An entry that a compiler generated and that Weft can't use matters only to a caller who asks for
// it.
func TestUnusableEntryOfAnABIIsSkipped(t *testing.T) {
	const odd = `{"type":"function","name":"odd","inputs":[{"name":"a","type":"enum Side"}]}`
	const good = `{"type":"function","name":"good","inputs":[]}`
	for given, words := range map[string]string{
		`[` + odd + `,` + good + `]`:                                "",
		`[` + good + `,{"type":"storage","name":"x"}]`:              "",
		`[` + odd + `]`:                                             "[0].inputs[0]",
		`["function odd(enum Side)",` + good + `]`:                  "[0]",
		`[` + good + `,{"name":"odd","inputs":[{"type":"uint7"}]}]`: "[1].inputs[0]",
	} {
		contract, err := parseABI(json.RawMessage(given))
		if words != "" {
			if err == nil || !contains(err.Error(), words) {
				t.Errorf("%s: %v", given, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", given, err)
			continue
		}
		if _, err := contract.function("good", nil); err != nil {
			t.Errorf("%s: %v", given, err)
		}
	}
	contract, err := parseABI(json.RawMessage(`[` + odd + `,` + good + `]`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := contract.function("odd", nil); err == nil || !contains(err.Error(), "[0].inputs[0]") {
		t.Errorf("asked for it: %v", err)
	}
}
