package conformance

import (
	"math/big"
	"os/exec"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component/modules/evm/evmtest"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// The service must accept a signer in another language that was written only from the contract
// (testdata/client.mjs).
func TestAU01ASignerInAnotherLanguageIsServed(t *testing.T) {
	behind := target(t)
	if !behind.Near {
		t.Log("a deployment elsewhere cannot reach this machine's chain")
		return
	}
	node := evmtest.Start(t, "--no-mining")
	tokenAddress := deploy(t, node)
	holder := node.Accounts[0]
	var balance string
	node.Call(t, &balance, "eth_getBalance", node.Accounts[9], "latest")
	native, ok := new(big.Int).SetString(strings.TrimPrefix(balance, "0x"), 16)
	if !ok {
		t.Fatalf("eth_getBalance: %s", balance)
	}
	give(t, node, tokenAddress, holder, node.Accounts[9], 4711)

	ctx := waittest.Context(t)
	command := exec.CommandContext(ctx, "node", "testdata/client.mjs")
	command.Env = append(command.Environ(),
		"WEFT_URL="+behind.BaseURL, "WEFT_KEY="+behind.APIKey, "WEFT_SECRET="+behind.APISecret,
		"CHAIN_URL="+node.URL, "ACCOUNT="+node.Accounts[9], "TOKEN="+tokenAddress,
		"NATIVE_BALANCE="+native.String(), "TOKEN_BALANCE=4711")
	output, err := command.CombinedOutput()
	t.Logf("%s", output)
	if err != nil {
		t.Fatalf("node: %v", err)
	}
	if got := strings.Count(string(output), "ok "); got != 7 {
		t.Errorf("%d proofs, want 7", got)
	}
}

// deploy deploys the token on a chain that mines on demand.
func deploy(t *testing.T, node *evmtest.Node) string {
	t.Helper()
	token := evmtest.Token(t)
	return mined(t, node, map[string]string{
		"from": node.Accounts[0], "data": token.Bytecode + evmtest.Word(1_000_000), "gas": "0x200000",
	})
}

func give(t *testing.T, node *evmtest.Node, token, from, to string, amount uint64) {
	t.Helper()
	const transfer = "0xa9059cbb"
	mined(t, node, map[string]string{
		"from": from, "to": token, "data": transfer + evmtest.AddressWord(to) + evmtest.Word(amount), "gas": "0x100000",
	})
}

// mined sends a transaction and mines it. It returns the address of the contract, if the
// transaction created one.
func mined(t *testing.T, node *evmtest.Node, fields map[string]string) string {
	t.Helper()
	hash := node.Send(t, fields)
	node.Mine(t)
	var receipt struct {
		Status          string `json:"status"`
		ContractAddress string `json:"contractAddress"`
	}
	node.Call(t, &receipt, "eth_getTransactionReceipt", hash)
	if receipt.Status != "0x1" {
		t.Fatalf("transaction %s: status %q", hash, receipt.Status)
	}
	return receipt.ContractAddress
}
