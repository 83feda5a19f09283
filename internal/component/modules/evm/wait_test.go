package evm

import (
	"encoding/json"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
	"github.com/weft-automation/weft/internal/component/modules/evm/evmtest"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

const waitModule = "WAIT_FOR_EVM_TRANSACTION"

// waiter polls one transaction as the engine does.
type waiter struct {
	bench *componenttest.Bench
	call  component.Call
}

func newWaiter(t *testing.T, input object) *waiter {
	t.Helper()
	w := &waiter{bench: componenttest.New(t, modules(t)...)}
	w.call = component.Call{ExecutionID: uuid.Must(uuid.NewV7()), Attempt: 1, Input: json.RawMessage(text(t, input)), Config: json.RawMessage(`{}`)}
	if err := w.bench.Registry.Check(waitModule, w.call.Input, w.call.Config); err != nil {
		t.Fatal(err)
	}
	return w
}

// poll runs one poll and keeps the state for the next one.
func (w *waiter) poll(t *testing.T) (component.Result, *component.Error) {
	t.Helper()
	result, failed := w.bench.Look(t, waitModule, w.call)
	if result.Wait != nil {
		if result.Wait.After > component.MaxWait || strings.Contains(string(result.Wait.State), "http") {
			t.Errorf("wait %s with state %s", result.Wait.After, result.Wait.State)
		}
		w.call.State = result.Wait.State
	}
	return result, failed
}

func (w *waiter) mustWait(t *testing.T, why string) {
	t.Helper()
	if result, failed := w.poll(t); failed != nil || result.Wait == nil {
		t.Fatalf("%s: got %s, %v; want a wait", why, result.Output, failed)
	}
}

func (w *waiter) finish(t *testing.T) waitOutput {
	t.Helper()
	result, failed := w.poll(t)
	if failed != nil || result.Wait != nil {
		t.Fatalf("got %+v, %v; want an output", result.Wait, failed)
	}
	var out waitOutput
	if err := json.Unmarshal(result.Output, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

type waitOutput struct {
	Status        string
	BlockNumber   string
	Confirmations int
	Receipt       struct {
		TransactionHash, From, To, GasUsed string
		Status                             int
		Logs                               []struct{ Address, Data string }
	}
}

func pay(node *evmtest.Node, extra map[string]string) map[string]string {
	fields := map[string]string{"from": node.Accounts[0], "to": node.Accounts[1], "value": "0x1", "gas": "0x5208"}
	for name, value := range extra {
		fields[name] = value
	}
	return fields
}

func TestWaitFinishesWhenTransactionIsMined(t *testing.T) {
	node := evmtest.Start(t, "--no-mining")
	hash := node.Send(t, pay(node, nil))
	w := newWaiter(t, object{"jsonRpcUrl": node.URL, "transactionHash": hash, "confirmations": 3})
	w.mustWait(t, "pending")
	w.mustWait(t, "still pending")
	node.Mine(t)
	w.mustWait(t, "one confirmation")
	node.Mine(t)
	w.mustWait(t, "two confirmations")
	node.Mine(t)
	out := w.finish(t)
	if out.Status != "success" || out.BlockNumber != "1" || out.Confirmations != 3 || out.Receipt.TransactionHash != hash ||
		out.Receipt.From != common.HexToAddress(node.Accounts[0]).Hex() || out.Receipt.GasUsed != "21000" || out.Receipt.Status != 1 {
		t.Errorf("got %+v", out)
	}
}

func TestWaitContinuesForUnknownTransaction(t *testing.T) {
	node := evmtest.Start(t)
	// The first payment has the same hash on every new node.
	hash := evmtest.Start(t).Send(t, pay(node, map[string]string{"nonce": "0x0", "gasPrice": "0x77359400"}))
	w := newWaiter(t, object{"jsonRpcUrl": node.URL, "transactionHash": hash})
	w.mustWait(t, "unknown")
	if sent := node.Send(t, pay(node, map[string]string{"nonce": "0x0", "gasPrice": "0x77359400"})); sent != hash {
		t.Fatalf("the hash is %s, not %s", sent, hash)
	}
	node.Mine(t)
	if out := w.finish(t); out.Status != "success" {
		t.Errorf("got %+v", out)
	}
}

func TestRevertedTransactionIsAResult(t *testing.T) {
	node := evmtest.Start(t)
	token := node.DeployToken(t, 5)
	hash := node.Send(t, map[string]string{"from": node.Accounts[0], "to": token, "gas": "0x30d40",
		"data": calldata(t, "transfer", common.HexToAddress(node.Accounts[1]), big.NewInt(6))})
	node.Mine(t)
	w := newWaiter(t, object{"jsonRpcUrl": node.URL, "transactionHash": hash})
	if out := w.finish(t); out.Status != "reverted" || out.Receipt.Status != 0 || len(out.Receipt.Logs) != 0 {
		t.Errorf("got %+v", out)
	}
}

func TestTheReceiptHoldsTheLogs(t *testing.T) {
	node := evmtest.Start(t)
	token := node.DeployToken(t, 5)
	hash := node.Send(t, map[string]string{"from": node.Accounts[0], "to": token,
		"data": calldata(t, "transfer", common.HexToAddress(node.Accounts[1]), big.NewInt(2))})
	node.Mine(t)
	out := newWaiter(t, object{"jsonRpcUrl": node.URL, "transactionHash": hash}).finish(t)
	if len(out.Receipt.Logs) != 1 || out.Receipt.Logs[0].Address != common.HexToAddress(token).Hex() || out.Receipt.Logs[0].Data != "0x"+evmtest.Word(2) {
		t.Errorf("got %+v", out)
	}
}

// untilError polls until the wait fails.
func (w *waiter) untilError(t *testing.T) *component.Error {
	t.Helper()
	for over := waittest.Context(t); over.Err() == nil; {
		if result, failed := w.poll(t); failed != nil {
			return failed
		} else if result.Wait == nil {
			t.Fatalf("got %s, want an error", result.Output)
		}
	}
	t.Fatal("the wait does not end")
	return nil
}

func TestReplacedTransactionFailsTheWait(t *testing.T) {
	node := evmtest.Start(t, "--no-mining")
	hash := node.Send(t, pay(node, map[string]string{"nonce": "0x0", "gasPrice": "0x77359400"}))
	w := newWaiter(t, object{"jsonRpcUrl": node.URL, "transactionHash": hash})
	w.mustWait(t, "pending")
	by := node.Send(t, pay(node, map[string]string{"nonce": "0x0", "gasPrice": "0xee6b2800", "value": "0x2"}))
	node.Mine(t)
	failed := w.untilError(t)
	want := `{"from":"` + common.HexToAddress(node.Accounts[0]).Hex() + `","nonce":"0","replacedBy":"` + by + `"}`
	if failed.Code != "TRANSACTION_REPLACED" || failed.Retryable || string(failed.Details) != want {
		t.Errorf("got %v %s, want details %s", failed, failed.Details, want)
	}
}

func TestDroppedTransactionFailsTheWait(t *testing.T) {
	node := evmtest.Start(t, "--no-mining")
	hash := node.Send(t, pay(node, nil))
	w := newWaiter(t, object{"jsonRpcUrl": node.URL, "transactionHash": hash})
	w.mustWait(t, "pending")
	node.Call(t, nil, "anvil_dropTransaction", hash)
	if failed := w.untilError(t); failed.Code != "TRANSACTION_DROPPED" || failed.Retryable {
		t.Errorf("got %v", failed)
	}
}

func TestReorganisationResetsConfirmations(t *testing.T) {
	node := evmtest.Start(t, "--no-mining")
	fixed := map[string]string{"nonce": "0x0", "gasPrice": "0x77359400"} // a repeated transaction then has the same hash
	hash := node.Send(t, pay(node, fixed))
	w := newWaiter(t, object{"jsonRpcUrl": node.URL, "transactionHash": hash, "confirmations": 2})
	var snapshot string
	node.Call(t, &snapshot, "evm_snapshot")
	node.Mine(t)
	w.mustWait(t, "one confirmation")
	node.Call(t, nil, "evm_revert", snapshot)
	w.mustWait(t, "the block is gone")
	node.Send(t, pay(node, fixed))
	node.Mine(t)
	node.Mine(t)
	if result, failed := w.poll(t); failed != nil || result.Wait != nil {
		t.Errorf("mined again: %+v, %v", result.Wait, failed)
	}
}

func TestWaitFailsAtItsTimeout(t *testing.T) {
	node := evmtest.Start(t, "--no-mining")
	hash := node.Send(t, pay(node, nil))
	for _, c := range []struct{ hash, words string }{{hash, "it is pending"}, {"0x" + strings.Repeat("ab", 32), "the node never knew it"}} {
		w := newWaiter(t, object{"jsonRpcUrl": node.URL, "transactionHash": c.hash, "timeoutMs": 100})
		if failed := w.untilError(t); failed.Code != component.CodeTimeout || !failed.Retryable || !strings.Contains(failed.Message, c.words) {
			t.Errorf("got %v, want TIMEOUT: %s", failed, c.words)
		}
	}
}

// TestOutageOfTheNodeDoesNotFailTheWait uses a node that is down for more polls than fit in 20
// seconds, in several ways, and is up again.
func TestOutageOfTheNodeDoesNotFailTheWait(t *testing.T) {
	for name, broken := range map[string]string{
		"bad gateway":      `502`,
		"QuickNode":        `{"jsonrpc":"2.0","id":1,"error":{"code":-32007,"message":"50/second request limit reached"}}`,
		"a page of 200":    `<html>we will be back</html>`,
		"too many (plain)": `429`,
	} {
		t.Run(name, func(t *testing.T) {
			var left atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if left.Add(-1) < 0 {
					answer(w, r, func(method string) string {
						if method == "eth_blockNumber" {
							return `"0x5"`
						}
						return `null`
					})
				} else if status, err := strconv.Atoi(broken); err == nil {
					w.WriteHeader(status)
				} else {
					_, _ = io.WriteString(w, broken)
				}
			}))
			t.Cleanup(server.Close)
			w := newWaiter(t, object{"jsonRpcUrl": server.URL, "transactionHash": "0x" + strings.Repeat("ab", 32)})
			left.Store(30)
			for range 30 {
				w.mustWait(t, "the node is down")
			}
			w.mustWait(t, "the node is back")
			w = newWaiter(t, object{"jsonRpcUrl": server.URL, "transactionHash": "0x" + strings.Repeat("ab", 32), "timeoutMs": 1})
			left.Store(1 << 40)
			if failed := w.untilError(t); failed.Code != component.CodeTimeout || !failed.Retryable || !strings.Contains(failed.Message, "the last request to the node failed: 127.0.0.1") || details(failed) == "" {
				t.Errorf("at the timeout: %v %s", failed, details(failed))
			}
		})
	}
}

// A failure that no retry can resolve ends the wait at once.
func TestPermanentErrorOfTheNodeFailsTheWait(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }))
	t.Cleanup(server.Close)
	w := newWaiter(t, object{"jsonRpcUrl": server.URL, "transactionHash": "0x" + strings.Repeat("ab", 32)})
	if _, failed := w.poll(t); failed == nil || failed.Code != component.CodeUpstream || failed.Retryable {
		t.Errorf("got %v", failed)
	}
}

func TestPausesGrowToTheirLimit(t *testing.T) {
	m := &waitForTransaction{now: time.Now}
	state := waitState{Since: time.Now()}
	var pauses []time.Duration
	for range 6 {
		result, err := m.pause(state, time.Hour, nil)
		if err != nil {
			t.Fatal(err)
		}
		pauses = append(pauses, result.Wait.After)
		if err := json.Unmarshal(result.Wait.State, &state); err != nil {
			t.Fatal(err)
		}
	}
	want := []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second}
	for i := range want {
		if pauses[i] != want[i] {
			t.Fatalf("pauses %v, want %v", pauses, want)
		}
	}
}
