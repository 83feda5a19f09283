package evm

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
)

// bench runs modules that don't query a node.
type bench struct{ *componenttest.Bench }

func newBench(t testing.TB) bench { return bench{componenttest.New(t, Modules(nil)...)} }

// compute returns the output of a module or its error.
func (b bench) compute(t testing.TB, module string, input, config any) (object, *component.Error) {
	t.Helper()
	in, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	conf, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	output, failed := b.Run(t, module, string(in), string(conf))
	if failed != nil {
		return nil, failed
	}
	var members object
	if err := json.Unmarshal(output, &members); err != nil {
		t.Fatal(err)
	}
	return members, nil
}

// gives fails the test unless the output has these fields.
func (b bench) gives(t testing.TB, what, module string, input, config any, want object) {
	t.Helper()
	output, failed := b.compute(t, module, input, config)
	if failed != nil {
		t.Errorf("%s: %v", what, failed)
		return
	}
	for name, value := range want {
		if !reflect.DeepEqual(output[name], value) {
			t.Errorf("%s: %s is %v, want %v", what, name, output[name], value)
		}
	}
}

// refuses fails the test unless the module fails with a message that contains this string.
func (b bench) refuses(t testing.TB, what, module string, input, config any, message string) {
	t.Helper()
	output, failed := b.compute(t, module, input, config)
	if failed == nil || failed.Code != component.CodeInvalidInput || failed.Retryable || !contains(failed.Message, message) {
		t.Errorf("%s:\ngot  %.300s %v\nwant %s", what, jsonOf(t, output), failed, message)
	}
}

// vectors are outputs on which two other implementations agree. The script next to the file
// generated them.
type vectors struct {
	Calls []struct {
		Name      string
		Inputs    []any
		Arguments []any
		Calldata  string
	}
	Signatures []struct{ Text, Signature, Selector string }
	Logs       []struct {
		ABI, Topics []string
		Data        string
		EventName   string
		Arguments   []any
	}
	Errors []struct {
		ABI       json.RawMessage
		Name      string
		Arguments []any
		Data      string
	}
	Keys         []struct{ PrivateKey, PublicKey, Compressed, Address string }
	Transactions []struct {
		Transaction, Signature object
		PrivateKey             string
		SerializedTransaction  string
		SerializedHash         string
		SignedTransaction      string
		TransactionHash        string
		From                   string
	}
	Messages  []struct{ Message, Encoding, PrivateKey, Signature, MessageHash, Signer string }
	TypedData []struct {
		Domain, Types, Message                                              object
		PrimaryType, PrivateKey, Signature, MessageHash, DomainHash, Signer string
	}
}

func readVectors(t testing.TB) vectors {
	t.Helper()
	data, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Calls) != 80 || len(v.Signatures) != 4 || len(v.Logs) != 5 || len(v.Errors) != 1 || len(v.Keys) != 4 || len(v.Transactions) != 28 || len(v.Messages) != 28 || len(v.TypedData) != 12 {
		t.Fatal("the vectors are not those that the script makes")
	}
	return v
}

func TestCalldataMatchesOtherImplementations(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, v := range readVectors(t).Calls {
		abi := []any{object{"type": "function", "name": v.Name, "inputs": v.Inputs, "outputs": v.Inputs}}
		b.gives(t, v.Name, "BUILD_EVM_CALLDATA", object{"abi": abi, "functionName": v.Name, "arguments": v.Arguments}, object{}, object{"calldata": v.Calldata})
		want := object{}
		for i, value := range v.Arguments {
			want[string(rune('0'+i))] = value
		}
		b.gives(t, v.Name, "DECODE_EVM_FUNCTION_RESULT", object{"abi": abi, "encodedResult": "0x" + v.Calldata[10:]}, object{"functionName": v.Name}, want)
	}
}

func TestABISignaturesMatchOtherImplementations(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Signatures {
		contract, err := parseABI(json.RawMessage(text(t, []string{v.Text})))
		if err != nil {
			t.Fatal(err)
		}
		function := contract.functions[0]
		if function.text != v.Signature || hexOf(function.hash[:4]) != v.Selector {
			t.Errorf("%s is %s, %x", v.Text, function.text, function.hash[:4])
		}
	}
}

func TestLogsMatchOtherImplementations(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, v := range readVectors(t).Logs {
		input := object{"abi": v.ABI, "topics": v.Topics, "data": v.Data}
		b.gives(t, v.EventName, "DECODE_EVM_LOG", input, object{}, object{"eventName": v.EventName, "arguments": v.Arguments})
	}
}

func TestAddressesMatchOtherImplementations(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, v := range readVectors(t).Keys {
		for _, key := range []string{v.PublicKey, v.Compressed} {
			b.gives(t, key, "COMPUTE_EVM_ADDRESS", object{"publicKey": key}, object{}, object{"address": v.Address})
		}
	}
}

func TestTransactionSignaturesMatchOtherImplementations(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, v := range readVectors(t).Transactions {
		want := object{"signedTransaction": v.SignedTransaction, "transactionHash": v.TransactionHash, "from": v.From}
		for _, transaction := range []any{v.Transaction, v.SerializedTransaction} {
			b.gives(t, v.TransactionHash, "SIGN_EVM_TRANSACTION", object{"transaction": transaction, "privateKey": v.PrivateKey}, object{}, want)
			b.gives(t, v.TransactionHash, "SIGN_EVM_TRANSACTION", object{"transaction": transaction, "signature": v.Signature}, object{}, want)
		}
		parsed, err := parseOutgoing(json.RawMessage(text(t, v.Transaction)))
		if err != nil {
			t.Fatal(err)
		}
		unsigned, err := parsed.unsigned()
		if hash, _ := parsed.hash(); err != nil || hexOf(unsigned) != v.SerializedTransaction || hash.Hex() != v.SerializedHash {
			t.Errorf("%v is %x unsigned, want %s", v.Transaction, unsigned, v.SerializedTransaction)
		}
	}
}

func TestMessageSignaturesMatchOtherImplementations(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, v := range readVectors(t).Messages {
		message := object{"message": v.Message, "encoding": v.Encoding}
		message["privateKey"] = v.PrivateKey
		b.gives(t, v.Message, "SIGN_EVM_MESSAGE", message, object{}, object{"signature": v.Signature, "messageHash": v.MessageHash, "signer": v.Signer})
		message["signature"], message["address"] = v.Signature, v.Signer
		b.gives(t, v.Message, "VERIFY_EVM_MESSAGE", message, object{}, object{"valid": true, "signer": v.Signer})
	}
}

func TestTypedDataSignaturesMatchOtherImplementations(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, v := range readVectors(t).TypedData {
		input := object{"domain": v.Domain, "types": v.Types, "primaryType": v.PrimaryType, "message": v.Message, "privateKey": v.PrivateKey}
		b.gives(t, v.PrimaryType, "SIGN_EVM_TYPED_DATA", input, object{}, object{"signature": v.Signature, "messageHash": v.MessageHash, "domainHash": v.DomainHash, "signer": v.Signer})
	}
}

func TestCustomErrorsMatchOtherImplementations(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Errors {
		contract, err := parseABI(v.ABI)
		if err != nil {
			t.Fatal(err)
		}
		data, err := parseBytes(v.Data)
		if err != nil {
			t.Fatal(err)
		}
		r := decodeRevert(data, contract)
		if r.Kind != "custom" || r.Name != v.Name || text(t, r.Arguments) != text(t, v.Arguments) || r.Data != v.Data {
			t.Errorf("%s became %+v", v.Data, r)
		}
	}
}
