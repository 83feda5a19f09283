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
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/weft-automation/weft/internal/component/componenttest"
)

//go:embed testdata/exchanges.io
var published string

// exchange is a JSON-RPC request and its response.
type exchange struct {
	method string
	params []any
	result any
}

func exchanges(t *testing.T) (list []exchange) {
	t.Helper()
	for _, block := range strings.Split(published, "\n\n") {
		var asked struct {
			Method string
			Params []any
		}
		var response struct{ Result any }
		for line := range strings.Lines(block) {
			var err error
			if text, ok := strings.CutPrefix(line, ">> "); ok {
				err = json.Unmarshal([]byte(text), &asked)
			} else if text, ok := strings.CutPrefix(line, "<< "); ok {
				err = json.Unmarshal([]byte(text), &response)
			}
			if err != nil {
				t.Fatalf("%.100s: %v", line, err)
			}
		}
		if asked.Method != "" {
			list = append(list, exchange{asked.Method, asked.Params, response.Result})
		}
	}
	return list
}

// key identifies a request. It ignores the case of addresses.
func key(t *testing.T, method string, params []any) string {
	return strings.ToLower(method + " " + text(t, append([]any{}, params...)))
}

// asks returns the module and the input that cause the request.
func (e exchange) asks() (module string, input object) {
	switch e.method {
	case "eth_getTransactionByHash":
		return "GET_EVM_TRANSACTION", object{"transactionHash": e.params[0]}
	case "eth_getTransactionReceipt":
		return "GET_EVM_TRANSACTION_RECEIPT", object{"transactionHash": e.params[0]}
	case "eth_getBlockByNumber", "eth_getBlockByHash":
		return "GET_EVM_BLOCK", object{"blockTag": e.params[0], "wholeTransactions": e.params[1]}
	case "eth_getTransactionCount":
		return "GET_EVM_NONCE", object{"account": e.params[0], "blockTag": e.params[1]}
	case "eth_chainId":
		return "GET_EVM_CHAIN_ID", object{}
	case "eth_sendRawTransaction":
		return "BROADCAST_EVM_TRANSACTION", object{"signedTransaction": e.params[0]}
	case "eth_getBalance":
		return "GET_EVM_ACCOUNT_BALANCE", object{"tokenAddress": zeroAddress, "account": e.params[0]}
	case "eth_call", "eth_estimateGas":
		asked := e.params[0].(object)
		data := asked["input"]
		if data == nil {
			data = "0x"
		}
		if e.method == "eth_call" {
			return "READ_EVM_CONTRACT", object{"contractAddress": asked["to"], "from": asked["from"], "calldata": data}
		}
		return "ESTIMATE_EVM_GAS", object{"from": asked["from"], "to": asked["to"], "data": data}
	}
	return "GET_EVM_LOGS", maps.Clone(e.params[0].(object))
}

// resultOf returns the part of an output that corresponds to the response.
func (e exchange) resultOf(output object) any {
	switch e.method {
	case "eth_getTransactionByHash":
		return output["transaction"]
	case "eth_getTransactionReceipt":
		return output["receipt"]
	case "eth_getBlockByNumber", "eth_getBlockByHash":
		return output["block"]
	case "eth_getTransactionCount":
		return output["nonce"]
	case "eth_chainId":
		return output["chainId"]
	case "eth_sendRawTransaction":
		return output["transactionHash"]
	case "eth_getBalance":
		return output["balance"]
	case "eth_call":
		return output["result"]
	case "eth_estimateGas":
		return output["gas"]
	}
	return output["logs"]
}

// TestPublishedExchangesAreReproduced compares each value of an output with the node's response,
// for the exchanges in the specification's tests.
func TestPublishedExchangesAreReproduced(t *testing.T) {
	t.Parallel()
	list := exchanges(t)
	if len(list) < 37 {
		t.Fatalf("only %d exchanges", len(list))
	}
	answers := map[string]any{}
	for _, e := range list {
		answers[question(t, e.method, e.params)] = e.result
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Method string
			Params []any
		}
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &asked); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		result, ok := answers[question(t, asked.Method, asked.Params)]
		if !ok {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"nobody published this request"}}`)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":%s}`, text(t, result))
	}))
	t.Cleanup(server.Close)
	bench := componenttest.New(t, modules(t)...)
	for _, e := range list {
		module, input := e.asks()
		input["jsonRpcUrl"] = server.URL
		output, failed := bench.Run(t, module, text(t, input), `{}`)
		if failed != nil {
			t.Errorf("%s %.100v: %v", module, e.params, failed)
			continue
		}
		read := decoded(t, output)
		c := comparison{T: t, where: fmt.Sprintf("%s %.80v", module, e.params)}
		raw := e.result
		if block, ok := raw.(object); ok && module == "GET_EVM_BLOCK" && e.params[1] == true {
			c.same("transactions", block["transactions"], read["transactions"])
			hashes := []any{}
			for _, tx := range block["transactions"].([]any) {
				hashes = append(hashes, tx.(object)["hash"])
			}
			block = maps.Clone(block)
			block["transactions"] = hashes
			raw = block
		}
		c.same("", raw, e.resultOf(read))
	}
}

// comparison compares outputs with a node's responses.
type comparison struct {
	*testing.T
	where string
}

var digits = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)

func (c comparison) same(path string, raw, out any) {
	c.Helper()
	switch raw := raw.(type) {
	case string:
		if want := outputForm(raw, out); out != want {
			c.Errorf("%s%s: %v, and the node said %s", c.where, path, out, raw)
		}
		return
	case []any:
		list, ok := out.([]any)
		if !ok || len(list) != len(raw) {
			c.Errorf("%s%s: %v, and the node said %v", c.where, path, out, raw)
			return
		}
		for i := range raw {
			c.same(fmt.Sprintf("%s[%d]", path, i), raw[i], list[i])
		}
		return
	case object:
		members, _ := out.(object)
		for name, value := range members {
			if said, ok := raw[name]; ok {
				c.same(path+"."+name, said, value)
			} else if name != "time" && !slices.Contains([]string{"null", "[]"}, text(c.T, value)) {
				c.Errorf("%s%s.%s: %v, of which the node said nothing", c.where, path, name, value)
			}
		}
		if len(members) < 2 {
			c.Errorf("%s%s: %v, and the node said %v", c.where, path, out, raw)
		}
		return
	}
	if raw != out {
		c.Errorf("%s%s: %v, and the node said %v", c.where, path, out, raw)
	}
}

// outputForm converts a node's value into the form of the output.
func outputForm(raw string, out any) any {
	number, _ := new(big.Int).SetString(strings.TrimPrefix(raw, "0x"), 16)
	form, isText := out.(string)
	switch {
	case number != nil && !isText:
		return float64(number.Int64())
	case number != nil && digits.MatchString(form):
		return number.String()
	case len(raw) == 2+2*common.AddressLength:
		return common.HexToAddress(raw).Hex()
	case number != nil && len(form) == 2+2*common.HashLength:
		return common.BigToHash(number).Hex()
	}
	return strings.ToLower(raw)
}
