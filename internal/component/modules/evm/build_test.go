package evm

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
)

// nodeWith starts a node that responds like the canned one, with other results for these methods.
func nodeWith(t *testing.T, answers map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked request
		body, _ := io.ReadAll(r.Body)
		if json.Unmarshal(body, &asked) != nil {
			w.WriteHeader(400)
			return
		}
		answer, ok := answers[asked.Method]
		if !ok {
			result, known := canned(asked)
			if answer = `"result":` + result; !known {
				answer = `"error":{"code":-32601,"message":"no such method"}`
			}
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,%s}`, answer)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func resultOf(value string) string { return `"result":` + value }

//go:embed testdata/built.json
var builtByViem []byte

// The vectors are from viem. "legacy payment" is also the example in EIP-155.
func TestTransactionsAreSerializedAsViemDoes(t *testing.T) {
	t.Parallel()
	var golden struct {
		Cases []struct {
			Name             string
			Transaction      map[string]string
			Serialized, Hash string
		}
	}
	if err := json.Unmarshal(builtByViem, &golden); err != nil || len(golden.Cases) < 7 {
		t.Fatalf("%d cases, %v", len(golden.Cases), err)
	}
	bench := componenttest.New(t, modules(t)...)
	for _, c := range golden.Cases {
		id, _ := new(big.Int).SetString(c.Transaction["chainId"], 10)
		input := object{"jsonRpcUrl": nodeWith(t, map[string]string{"eth_chainId": resultOf(`"0x` + id.Text(16) + `"`)}), "from": account}
		if _, receives := c.Transaction["to"]; !receives {
			input["to"] = nil
		}
		for name, value := range c.Transaction {
			switch name {
			case "type":
			case "gas":
				input["gasLimit"] = value
			default:
				input[name] = value
			}
		}
		output, failed := bench.Run(t, "BUILD_EVM_TRANSACTION", text(t, input), `{}`)
		if failed != nil {
			t.Errorf("%s: %v", c.Name, failed)
			continue
		}
		var got struct {
			Transaction                           map[string]any
			SerializedTransaction, SerializedHash string
		}
		if err := json.Unmarshal(output, &got); err != nil {
			t.Fatal(err)
		}
		if got.SerializedTransaction != c.Serialized || got.SerializedHash != c.Hash {
			t.Errorf("%s:\ngot  %s %s\nwant %s %s", c.Name, got.SerializedTransaction, got.SerializedHash, c.Serialized, c.Hash)
		}
		for name, value := range c.Transaction {
			if name == "gas" {
				name = "gasLimit"
			}
			if got.Transaction[name] != value {
				t.Errorf("%s: %s is %v, want %s", c.Name, name, got.Transaction[name], value)
			}
		}
		for name, value := range input {
			if number, ok := exactly(value); ok {
				input[name] = number
			}
		}
		if again, failed := bench.Run(t, "BUILD_EVM_TRANSACTION", text(t, input), `{}`); failed != nil || string(again) != string(output) {
			t.Errorf("%s with numbers: %s, %v", c.Name, again, failed)
		}
		holdSigned(t, bench, c.Name, got.Transaction, c.Serialized)
	}
}

// exactly converts a decimal string to a JSON number if that is exact.
func exactly(value any) (json.Number, bool) {
	text, _ := value.(string)
	number, ok := wholeNumber(text)
	return json.Number(text), ok && number.CmpAbs(exact) <= 0
}

// holdSigned checks that signing the built transaction as an object, with numbers, and serialized
// gives the same result.
func holdSigned(t *testing.T, bench *componenttest.Bench, name string, built map[string]any, serialized string) {
	t.Helper()
	delete(built, "from") // not the address of the key
	numbers := maps.Clone(built)
	for member, value := range built {
		if number, ok := exactly(value); ok {
			numbers[member] = number
		}
	}
	var first string
	for _, form := range []any{serialized, built, numbers} {
		signed, failed := bench.Run(t, "SIGN_EVM_TRANSACTION", text(t, object{"transaction": form, "privateKey": keyOfEIP155}), `{}`)
		if failed != nil || first != "" && string(signed) != first {
			t.Errorf("%s: %v is signed as %s, %v", name, form, signed, failed)
		}
		first = string(signed)
	}
}

// The canned node has a base fee of 20 gwei, a tip of 1 gwei and a gas price of
// 21 gwei.
func TestMissingFeesAreSuggested(t *testing.T) {
	t.Parallel()
	noTip := map[string]string{"eth_maxPriorityFeePerGas": `"error":{"code":-32601,"message":"the method does not exist"}`}
	tipFails := func(answer string) map[string]string { return map[string]string{"eth_maxPriorityFeePerGas": answer} }
	below := map[string]string{"eth_maxPriorityFeePerGas": noTip["eth_maxPriorityFeePerGas"], "eth_gasPrice": resultOf(`"0x1"`)}
	bench := componenttest.New(t, modules(t)...)
	for name, c := range map[string]struct {
		answers           map[string]string
		given             object
		maxFee, tip, gwei string
	}{
		"nothing given":           {nil, object{}, "41000000000", "1000000000", ""},
		"both given":              {nil, object{"maxFeePerGas": "5", "maxPriorityFeePerGas": "4"}, "5", "4", ""},
		"the tip given":           {nil, object{"maxPriorityFeePerGas": "3"}, "40000000003", "3", ""},
		"the most given":          {nil, object{"maxFeePerGas": "50000000000"}, "50000000000", "1000000000", ""},
		"the most below the tip":  {nil, object{"maxFeePerGas": "7"}, "7", "7", ""},
		"a gas price given":       {nil, object{"gasPrice": "9"}, "", "", "9"},
		"a node without tips":     {noTip, object{}, "41000000000", "1000000000", ""},
		"tips not supported":      {tipFails(`"error":{"code":-32000,"message":"not supported"}`), object{}, "41000000000", "1000000000", ""},
		"tips crash":              {tipFails(`"error":{"code":-32603,"message":"method handler crashed"}`), object{}, "41000000000", "1000000000", ""},
		"tips not in the plan":    {tipFails(`"error":{"code":-32602,"message":"not in your plan"}`), object{}, "41000000000", "1000000000", ""},
		"tips are null":           {tipFails(resultOf(`null`)), object{}, "41000000000", "1000000000", ""},
		"a price below base fees": {below, object{}, "40000000000", "0", ""},
	} {
		input := object{"jsonRpcUrl": nodeWith(t, c.answers), "from": account, "to": account}
		for field, value := range c.given {
			input[field] = value
		}
		output, failed := bench.Run(t, "BUILD_EVM_TRANSACTION", text(t, input), `{}`)
		var got struct {
			Transaction struct{ MaxFeePerGas, MaxPriorityFeePerGas, GasPrice, Type, Nonce, GasLimit string }
		}
		if failed != nil || json.Unmarshal(output, &got) != nil {
			t.Errorf("%s: %v", name, failed)
			continue
		}
		tx := got.Transaction
		if tx.MaxFeePerGas != c.maxFee || tx.MaxPriorityFeePerGas != c.tip || tx.GasPrice != c.gwei || (tx.Type == "legacy") != (c.gwei != "") || tx.Nonce != "7" || tx.GasLimit != "21000" {
			t.Errorf("%s: %+v", name, tx)
		}
	}
}

func TestGasLimitIsAFifthAboveTheEstimate(t *testing.T) {
	block := func(limit int64) header { return header{GasLimit: &quantity{*big.NewInt(limit)}} }
	for _, c := range []struct {
		estimate uint64
		limit    int64
		want     uint64
	}{
		{21000, 30_000_000, 21000}, {5000, 30_000_000, 5000}, {50_000, 30_000_000, 60_000}, {21001, 30_000_000, 25201},
		{29_000_000, 30_000_000, 30_000_000}, {15_000_000, 30_000_000, 1 << 24}, {20_000_000, 1 << 50, 24_000_000}, {1 << 24, 1 << 50, 1 << 24}, {1<<24 + 5, 1 << 50, 20132665}, {9_000_000, 10_000_000, 10_000_000}, {1<<63 - 1, 1 << 50, 1<<63 - 1},
	} {
		if got := allowance(c.estimate, block(c.limit)); got != c.want {
			t.Errorf("%d in a block of %d: %d, want %d", c.estimate, c.limit, got, c.want)
		}
	}
	if got := allowance(50_000, header{}); got != 60_000 {
		t.Errorf("on a chain without a block gas limit: %d", got)
	}
}

func TestInconsistentTransactionIsNotBuilt(t *testing.T) {
	t.Parallel()
	most := "115792089237316195423570985008687907853269984665640564039457584007913129639935"
	bench := componenttest.New(t, modules(t)...)
	for name, c := range map[string]struct {
		answers map[string]string
		given   object
		code    string
		words   string
	}{
		"fees of both kinds":                      {nil, object{"gasPrice": "1", "maxFeePerGas": "1"}, component.CodeInvalidInput, "gasPrice"},
		"a tip above the most":                    {nil, object{"maxPriorityFeePerGas": "2", "maxFeePerGas": "1"}, component.CodeInvalidInput, "maxPriorityFeePerGas"},
		"another chain":                           {nil, object{"chainId": "5"}, component.CodeInvalidInput, "chainId: expected chain 5, but the node is on chain 1"},
		"the last nonce":                          {nil, object{"nonce": "18446744073709551615"}, component.CodeInvalidInput, "nonce"},
		"a tip beyond 256 bits with the base fee": {nil, object{"maxPriorityFeePerGas": most}, component.CodeUpstream, "256 bits"},
		"a chain 0":                               {map[string]string{"eth_chainId": resultOf(`"0x0"`)}, object{}, component.CodeUpstream, "the chain ID is 0"},
		"no block":                                {map[string]string{"eth_getBlockByNumber": resultOf(`null`)}, object{}, component.CodeUpstream, "the latest block is null"},
		"no gas":                                  {map[string]string{"eth_estimateGas": resultOf(`"0x0"`)}, object{}, component.CodeUpstream, "the gas estimate is 0"},
	} {
		input := object{"jsonRpcUrl": nodeWith(t, c.answers), "from": account, "to": account}
		for field, value := range c.given {
			input[field] = value
		}
		output, failed := bench.Run(t, "BUILD_EVM_TRANSACTION", text(t, input), `{}`)
		if failed == nil || failed.Code != c.code || !strings.Contains(failed.Message, c.words) {
			t.Errorf("%s: %s, %v", name, output, failed)
		}
	}
}
