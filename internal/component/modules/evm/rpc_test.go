package evm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
	"github.com/weft-automation/weft/internal/component/modules/upstream"
	"github.com/weft-automation/weft/internal/platform/egress"
)

// answer writes a well-formed JSON-RPC response with the result of the method.
func answer(w http.ResponseWriter, r *http.Request, result func(method string) string) {
	var request struct {
		ID     json.RawMessage
		Method string
	}
	body, _ := io.ReadAll(r.Body)
	if json.Unmarshal(body, &request) != nil {
		w.WriteHeader(400)
		return
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, request.ID, result(request.Method))
}

const account = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"

// balanceFrom queries a native balance from a node with this handler.
func balanceFrom(t *testing.T, handler http.HandlerFunc) (json.RawMessage, *component.Error) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	bench := componenttest.New(t, modules(t)...)
	return bench.Run(t, "GET_EVM_ACCOUNT_BALANCE", text(t, object{"jsonRpcUrl": server.URL + "/v3/key-0123456789abcdef", "tokenAddress": zeroAddress, "account": account}), `{}`)
}

func TestHostileNodeCausesCleanError(t *testing.T) {
	result := func(value string) string { return `{"jsonrpc":"2.0","id":1,"result":` + value + `}` }
	failure := func(value string) string { return `{"jsonrpc":"2.0","id":1,"error":` + value + `}` }
	for name, c := range map[string]struct {
		status    int
		body      string
		retryable bool
		details   string
	}{
		"not JSON":          {200, `<html>`, true, `"class":"malformed"`},
		"empty":             {200, ``, true, `"class":"malformed"`},
		"no result":         {200, `{"jsonrpc":"2.0","id":1}`, true, `"class":"malformed"`},
		"null result":       {200, result(`null`), true, `"class":"malformed"`},
		"other id":          {200, `{"jsonrpc":"2.0","id":2,"result":"0x1"}`, true, `"class":"malformed"`},
		"other version":     {200, `{"jsonrpc":"1.0","id":1,"result":"0x1"}`, true, `"class":"malformed"`},
		"a batch":           {200, `[` + result(`"0x1"`) + `]`, true, `"class":"malformed"`},
		"decimal":           {200, result(`"12"`), true, `"class":"malformed"`},
		"number":            {200, result(`12`), true, `"class":"malformed"`},
		"no digits":         {200, result(`"0x"`), true, `"class":"malformed"`},
		"no hex":            {200, result(`"0xzz"`), true, `"class":"malformed"`},
		"negative":          {200, result(`"-0x1"`), true, `"class":"malformed"`},
		"65 digits":         {200, result(`"0x` + strings.Repeat("1", 65) + `"`), true, `"class":"malformed"`},
		"deep":              {200, strings.Repeat(`[`, 100_000), true, `"class":"malformed"`},
		"method not found":  {200, failure(`{"code":-32601,"message":"no such method"}`), false, `"upstreamCode":-32601,"upstreamMessage":"no such method"`},
		"limit":             {429, failure(`{"code":-32005,"message":"slow down"}`), true, `"retryAfter":"7","sent":"answered","upstreamCode":-32005`},
		"internal":          {200, failure(`{"code":-32603,"message":"oops"}`), true, `"upstreamCode":-32603`},
		"error with 503":    {503, failure(`{"code":1,"message":"oops"}`), true, `"upstreamCode":1`},
		"unauthorized":      {401, `no key`, false, `"upstreamCode":401,"upstreamMessage":"no key"`},
		"bad gateway":       {502, `<h1>`, true, `"upstreamCode":502`},
		"too many requests": {429, ``, true, `"upstreamCode":429`},
		"endless message":   {200, failure(`{"code":1,"message":"` + strings.Repeat("é\\u0000", 100_000) + `"}`), false, `"upstreamCode":1`},
		"key echoed":        {200, failure(`{"code":1,"message":"bad project key-0123456789abcdef"}`), false, `bad project [redacted]`},
		"revert of nobody":  {200, failure(`{"code":3,"message":"execution reverted","data":{"data":7}}`), false, `"kind":"none"`},
		"message of geth":   {200, failure(`{"code":-32000,"message":"execution reverted: too late"}`), false, `"class":"revert"`},
		"parity":            {200, failure(`{"code":-32015,"message":"VM execution error.","data":"Reverted 0x08c379a0"}`), false, `"kind":"custom"`},
	} {
		t.Run(name, func(t *testing.T) {
			want := time.Duration(0)
			if c.status != http.StatusOK {
				want = 7 * time.Second
			}
			output, failed := balanceFrom(t, func(w http.ResponseWriter, _ *http.Request) {
				if want != 0 {
					w.Header().Set("Retry-After", "7")
				}
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			})
			if failed == nil || failed.Code != component.CodeUpstream || failed.Retryable != c.retryable || !strings.Contains(string(failed.Details), c.details) {
				t.Fatalf("got %s, %v %s", output, failed, details(failed))
			}
			if failed.RetryAfter != want {
				t.Errorf("retry after %s, want %s", failed.RetryAfter, want)
			}
			if len(failed.Message) > 1<<10 || strings.Contains(failed.Message+details(failed)+failed.Error(), "0123456789abcdef") {
				t.Errorf("message %.2000s", failed.Error())
			}
		})
	}
}

func TestResponseIsReadUpToTheLimit(t *testing.T) {
	_, failed := balanceFrom(t, func(w http.ResponseWriter, _ *http.Request) {
		part := strings.Repeat(" ", 1<<16)
		for range 1000 {
			if _, err := io.WriteString(w, part); err != nil {
				return
			}
		}
	})
	if failed == nil || failed.Code != component.CodeUpstream || !strings.Contains(string(failed.Details), `"too_large"`) {
		t.Errorf("got %v", failed)
	}
}

func TestSlowNodeTimesOut(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	guard := egress.New(egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(guard.Close)
	node, err := dial(guard, json.RawMessage(`{"jsonRpcUrl":"`+server.URL+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	if node.client.Timeout != callTimeout {
		t.Errorf("a call may take %s", node.client.Timeout)
	}
	node.client.Timeout = 50 * time.Millisecond
	_, err = balanceOf(t.Context(), node, common.Address{}, common.HexToAddress(account))
	if failed, ok := err.(*component.Error); !ok || failed.Code != component.CodeTimeout || !failed.Retryable {
		t.Errorf("got %v, want TIMEOUT", err)
	}
}

// The addresses are from EIP-55.
func TestMixedCaseAddressNeedsEIP55Checksum(t *testing.T) {
	for _, text := range []string{
		"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359", "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB", "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
		"0x52908400098527886E0F7030069857D2E4169EE7", "0x8617E340B3D01FA5F11F306F4090FD50E238070D", "0xde709f2102306220921060314715629080e2fb77", "0x27b1fdb04752bbc536007a920d24acb045561c26",
	} {
		for _, form := range []string{text, strings.ToLower(text), "0x" + strings.ToUpper(text[2:])} {
			if address, err := parseAddress(form); err != nil || !strings.EqualFold(address.Hex(), text) {
				t.Errorf("%s: %s, %v", form, address.Hex(), err)
			}
		}
	}
	for _, text := range []string{
		"", "0x", "5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0X5aaeb6053f3e94c9b9a09f33669435e7ef1beaed", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAe",
		"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed0", "0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeg", "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beae\u0435",
	} {
		if address, err := parseAddress(text); err == nil {
			t.Errorf("%q was read as %s", text, address.Hex())
		}
	}
}

func TestInvalidInputSendsNothing(t *testing.T) {
	bench := componenttest.New(t, modules(t)...)
	const nowhere = "http://127.0.0.1:9"
	for _, c := range []struct {
		module string
		input  object
	}{
		{"GET_EVM_ACCOUNT_BALANCE", object{"tokenAddress": zeroAddress, "account": account}},
		{"GET_EVM_ACCOUNT_BALANCE", object{"jsonRpcUrl": "ws://127.0.0.1:9", "tokenAddress": zeroAddress, "account": account}},
		{"GET_EVM_ACCOUNT_BALANCE", object{"jsonRpcUrl": "127.0.0.1", "tokenAddress": zeroAddress, "account": account}},
		{"GET_EVM_ACCOUNT_BALANCE", object{"jsonRpcUrl": nowhere, "account": account}},
		{"GET_EVM_ACCOUNT_BALANCE", object{"jsonRpcUrl": nowhere, "tokenAddress": "0x0", "account": account}},
		{"GET_EVM_ACCOUNT_BALANCE", object{"jsonRpcUrl": nowhere, "tokenAddress": zeroAddress, "account": "0xD8dA6BF26964aF9D7eEd9e03E53415D37aA96045"}},
		{"GET_EVM_ACCOUNT_BALANCE", object{"jsonRpcUrl": nowhere, "tokenAddress": zeroAddress, "account": "vitalik.eth"}},
		{"READ_EVM_CONTRACT", object{"jsonRpcUrl": nowhere, "contractAddress": account, "calldata": "0x1"}},
		{"READ_EVM_CONTRACT", object{"jsonRpcUrl": nowhere, "contractAddress": account, "calldata": "18160ddd"}},
		{"READ_EVM_CONTRACT", object{"jsonRpcUrl": nowhere, "contractAddress": account, "calldata": "0x", "blockTag": "newest"}},
		{"READ_EVM_CONTRACT", object{"jsonRpcUrl": nowhere, "contractAddress": account, "calldata": "0x", "blockTag": -1}},
		{"READ_EVM_CONTRACT", object{"jsonRpcUrl": nowhere, "contractAddress": account, "calldata": "0x", "blockTag": 1.5}},
		{waitModule, object{"jsonRpcUrl": nowhere, "transactionHash": "0x12"}},
		{waitModule, object{"jsonRpcUrl": nowhere, "transactionHash": "0x" + strings.Repeat("ab", 32), "confirmations": 0}},
		{waitModule, object{"jsonRpcUrl": nowhere, "transactionHash": "0x" + strings.Repeat("ab", 32), "timeoutMs": 3600001}},
	} {
		if output, failed := bench.Run(t, c.module, text(t, c.input), `{}`); failed == nil || failed.Code != component.CodeInvalidInput || failed.Retryable {
			t.Errorf("%s %v: %s, %v", c.module, c.input, output, failed)
		}
	}
}

// FuzzAnswer runs every decoder on arbitrary responses. Each returns a value or a clean error.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":"0x1"}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":3,"message":"execution reverted","data":"0x4e487b710000000000000000000000000000000000000000000000000000000000000011"}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"transactionHash":"0x00","logs":[{"topics":null}],"status":"0x1"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		n := &node{host: "node.example"}
		result, err := n.result("eth_call", upstream.Answer{Status: 200, Body: body})
		if err != nil {
			if _, ok := err.(*component.Error); !ok {
				t.Errorf("error of type %T: %v", err, err)
			}
			return
		}
		var q quantity
		var o ordinal
		var b blob
		var r *receipt
		var tx *transaction
		for _, out := range []any{&q, &o, &b, &r, &tx} {
			if json.Unmarshal(result, out) != nil {
				continue
			}
			if _, err := json.Marshal(out); err != nil {
				t.Errorf("%T read from %s cannot be written: %v", out, result, err)
			}
		}
		if r != nil {
			_ = r.check(common.Hash(r.TransactionHash))
		}
	})
}

func FuzzRevert(f *testing.F) {
	f.Add(common.FromHex("0x08c379a0000000000000000000000000000000000000000000000000000000000000002000000000000000000000000000000000000000000000000000000000000000046f6f707300000000000000000000000000000000000000000000000000000000"))
	f.Add(common.FromHex("0x4e487b710000000000000000000000000000000000000000000000000000000000000011"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := decodeRevert(data, nil)
		if r.Kind == "custom" && r.Data != "0x"+common.Bytes2Hex(data) {
			t.Errorf("%x became %+v", data, r)
		}
		reason, err := abi.UnpackRevert(data)
		if (err == nil) != (r.Kind == "error" || r.Kind == "panic") || r.Kind == "error" && r.Reason != reason {
			t.Errorf("%x became %+v, and in another implementation %q, %v", data, r, reason, err)
		}
	})
}

func FuzzScalars(f *testing.F) {
	for _, seed := range []string{account, "0x", "latest", "12", "0x" + strings.Repeat("f", 64), "-1", `"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if address, err := parseAddress(text); err == nil && !strings.EqualFold(address.Hex(), text) {
			t.Errorf("%q was read as %s", text, address.Hex())
		}
		if hash, err := parseHash(text); err == nil && !strings.EqualFold(hash.Hex(), text) {
			t.Errorf("%q was read as %s", text, hash.Hex())
		}
		raw, _ := json.Marshal(text)
		if block, err := parseBlock(raw); err == nil {
			if _, err := json.Marshal(block); err != nil {
				t.Errorf("%q gives a block that cannot be sent: %v", text, err)
			}
		}
		if data, err := parseBytes(text); err == nil && !strings.EqualFold(hexOf(data), text) {
			t.Errorf("%q was read as %x", text, data)
		}
		for _, bits := range []int{64, 256} {
			if number, err := parseUint(text, bits); err == nil && (number.String() != text || number.BitLen() > bits) {
				t.Errorf("%q was read as %s", text, number)
			}
		}
	})
}
