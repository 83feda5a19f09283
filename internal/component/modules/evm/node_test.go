package evm

import (
	"encoding/json"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/goleak"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
	"github.com/weft-automation/weft/internal/component/modules/evm/evmtest"
	"github.com/weft-automation/weft/internal/platform/egress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const zeroAddress = "0x0000000000000000000000000000000000000000"

// modules returns the modules with a guard that allows loopback, and with short delays for lost
// transactions.
func modules(t *testing.T) []component.Module {
	guard := egress.New(egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(guard.Close)
	list := Modules(guard)
	for _, module := range list {
		if wait, ok := module.(*waitForTransaction); ok {
			wait.settle, wait.drop = 100*time.Millisecond, 150*time.Millisecond
		}
	}
	return list
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

type object = map[string]any

func tokenABI(t *testing.T) abi.ABI {
	t.Helper()
	parsed, err := abi.JSON(strings.NewReader(string(evmtest.Token(t).ABI)))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func calldata(t *testing.T, method string, arguments ...any) string {
	t.Helper()
	data, err := tokenABI(t).Pack(method, arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return "0x" + common.Bytes2Hex(data)
}

func TestBalancesAreReadFromARealNode(t *testing.T) {
	node := evmtest.Start(t)
	token := node.DeployToken(t, 1_000_000)
	bench := componenttest.New(t, modules(t)...)
	holder, other := node.Accounts[0], node.Accounts[1]
	node.Mined(t, node.Send(t, map[string]string{"from": holder, "to": token, "data": calldata(t, "transfer", common.HexToAddress(other), big.NewInt(1234))}))
	for name, c := range map[string]struct{ token, account, want string }{
		"native":              {zeroAddress, other, "10000000000000000000000"},
		"native, lower case":  {zeroAddress, strings.ToLower(other), "10000000000000000000000"},
		"native, nobody":      {zeroAddress, "0x00000000000000000000000000000000000000aa", "0"},
		"token":               {token, holder, "998766"},
		"token, other":        {token, other, "1234"},
		"token in upper case": {"0x" + strings.ToUpper(token[2:]), other, "1234"},
		"token, nobody":       {common.HexToAddress(token).Hex(), "0x00000000000000000000000000000000000000aa", "0"},
	} {
		output, failed := bench.Run(t, "GET_EVM_ACCOUNT_BALANCE", text(t, object{"jsonRpcUrl": node.URL, "tokenAddress": c.token, "account": c.account}), `{}`)
		if failed != nil {
			t.Errorf("%s: %v", name, failed)
		} else if string(output) != `{"balance":"`+c.want+`"}` {
			t.Errorf("%s: %s, want %s", name, output, c.want)
		}
	}
	_, failed := bench.Run(t, "GET_EVM_ACCOUNT_BALANCE", text(t, object{"jsonRpcUrl": node.URL, "tokenAddress": other, "account": other}), `{}`)
	if failed == nil || failed.Code != component.CodeInvalidInput || failed.Retryable {
		t.Errorf("an account as token: %v", failed)
	}
}

func TestContractsAreReadFromARealNode(t *testing.T) {
	node := evmtest.Start(t)
	token := node.DeployToken(t, 1_000_000)
	bench := componenttest.New(t, modules(t)...)
	read := func(data string, block any) (json.RawMessage, *component.Error) {
		input := object{"jsonRpcUrl": node.URL, "contractAddress": token, "calldata": data}
		if block != nil {
			input["blockTag"] = block
		}
		return bench.Run(t, "READ_EVM_CONTRACT", text(t, input), `{}`)
	}
	for _, block := range []any{nil, "latest", "pending", "1", 1, "0x1"} {
		output, failed := read(calldata(t, "totalSupply"), block)
		if failed != nil || string(output) != `{"result":"0x`+evmtest.Word(1_000_000)+`"}` {
			t.Errorf("at %v: %s, %v", block, output, failed)
		}
	}
	var genesis struct{ Hash string }
	node.Call(t, &genesis, "eth_getBlockByNumber", "0x0", false)
	for _, block := range []any{"earliest", 0, genesis.Hash} { // the token isn't deployed yet
		if output, failed := read(calldata(t, "totalSupply"), block); failed != nil || string(output) != `{"result":"0x"}` {
			t.Errorf("at %v: %s, %v", block, output, failed)
		}
	}
	// The contract sees the caller in from: only the first account has tokens to send.
	transfer := object{"jsonRpcUrl": node.URL, "contractAddress": token, "calldata": calldata(t, "transfer", common.HexToAddress(node.Accounts[3]), big.NewInt(5))}
	for from, want := range map[string]string{"": "", node.Accounts[0]: `{"result":"0x` + evmtest.Word(1) + `"}`, node.Accounts[1]: ""} {
		if delete(transfer, "from"); from != "" {
			transfer["from"] = from
		}
		if output, failed := bench.Run(t, "READ_EVM_CONTRACT", text(t, transfer), `{}`); string(output) != want || (failed == nil) != (want != "") {
			t.Errorf("from %q: %s, %v; want %s", from, output, failed, want)
		}
	}
	if _, failed := read(calldata(t, "totalSupply"), "99999999"); failed == nil || failed.Code != component.CodeUpstream {
		t.Errorf("at a block that is not there: %v", failed)
	}
}

func TestRevertsAreDecoded(t *testing.T) {
	node := evmtest.Start(t)
	token := node.DeployToken(t, 1_000_000)
	bench := componenttest.New(t, modules(t)...)
	someone := common.HexToAddress(node.Accounts[3])
	for name, c := range map[string]struct{ data, message, kind string }{
		"reason": {calldata(t, "transfer", someone, big.NewInt(5)), "execution reverted: ERC20: transfer amount exceeds balance", `"kind":"error","reason":"ERC20: transfer amount exceeds balance"`},
		"panic":  {calldata(t, "decreaseAllowance", someone, big.NewInt(5)), "execution reverted: panic 17, arithmetic underflow or overflow", `"kind":"panic","panicCode":"17"`},
		"custom": {calldata(t, "transferFrom", someone, someone, big.NewInt(5)), "execution reverted with a custom error 0x192b9e4e and 96 bytes; to decode it, set abi to one that contains it, such as error Name(uint256 value)", `"data":"0x192b9e4e`},
		"none":   {"0xdeadbeef", "execution reverted", `"kind":"none"`},
	} {
		_, failed := bench.Run(t, "READ_EVM_CONTRACT", text(t, object{"jsonRpcUrl": node.URL, "contractAddress": token, "calldata": c.data}), `{}`)
		if failed == nil || failed.Code != component.CodeUpstream || failed.Retryable || failed.Message != c.message || !strings.Contains(string(failed.Details), c.kind) {
			t.Errorf("%s: %v %s", name, failed, details(failed))
		}
	}
}

func details(failed *component.Error) string {
	if failed == nil {
		return ""
	}
	return string(failed.Details)
}
