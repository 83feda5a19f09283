// Package evmtest provides tests with a real EVM node (anvil) and real contracts to deploy on the
// node: an ERC-20 token, and a registry of names with its resolvers.
//
// Only tests import it, and it doesn't depend on the rest of the service. A node listens on
// loopback only and stops with its test. If anvil is missing, the test fails; it is never skipped.
package evmtest

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// Node is a running anvil, with ten unlocked accounts of 10,000 coins each.
type Node struct {
	URL      string
	Accounts []string
}

// Contract is a compiled contract. testdata/Token.json describes how it was compiled.
type Contract struct {
	ABI      json.RawMessage `json:"abi"`
	Bytecode string          `json:"bytecode"`
}

//go:embed testdata/Token.json
var token []byte

// Token returns the ERC-20 token of testdata/Token.sol. Its constructor has one argument, the
// supply, which the creator receives.
func Token(t testing.TB) Contract {
	t.Helper()
	var contract Contract
	if err := json.Unmarshal(token, &contract); err != nil {
		t.Fatal(err)
	}
	return contract
}

//go:embed testdata/Names.json
var names []byte

// DeployNames deploys a contract of testdata/Names.sol, a registry of names or a resolver, and
// returns its address. The node must mine each transaction immediately.
func (n *Node) DeployNames(t testing.TB, contract string) string {
	t.Helper()
	var file struct{ Contracts map[string]Contract }
	if err := json.Unmarshal(names, &file); err != nil || file.Contracts[contract].Bytecode == "" {
		t.Fatalf("unknown contract %s: %v", contract, err)
	}
	receipt := n.Mined(t, n.Send(t, map[string]string{"from": n.Accounts[0], "data": file.Contracts[contract].Bytecode}))
	if receipt.Status != "0x1" {
		t.Fatalf("%s was not deployed: %+v", contract, receipt)
	}
	return receipt.ContractAddress
}

// Start runs anvil on a free loopback port until the test ends. It passes the arguments to anvil.
// Without arguments, anvil mines each transaction immediately.
func Start(t testing.TB, arguments ...string) *Node {
	t.Helper()
	command := exec.Command(find(t), append([]string{"--host", "127.0.0.1", "--port", "0"}, arguments...)...)
	command.SysProcAttr = bound()
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	command.Stderr = &stderr
	if err := command.Start(); err != nil {
		t.Fatalf("start anvil: %v", err)
	}
	address, drained := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(drained)
		listen(output, address)
	}()
	t.Cleanup(func() {
		command.Process.Kill()
		<-drained
		command.Wait()
	})
	node := &Node{URL: waittest.Receive(t, "anvil listens", address)}
	if node.URL == "" {
		<-drained
		command.Wait()
		t.Fatalf("anvil exited immediately: %s", stderr.String())
	}
	node.Call(t, &node.Accounts, "eth_accounts")
	return node
}

// listen sends the address in anvil's output, or "" if anvil exits first. It drains the rest of the
// output.
func listen(output io.Reader, address chan<- string) {
	lines, sent := bufio.NewScanner(output), false
	for lines.Scan() {
		if at, ok := strings.CutPrefix(lines.Text(), "Listening on "); ok && !sent {
			address <- "http://" + strings.TrimSpace(at)
			sent = true
		}
	}
	if !sent {
		address <- ""
	}
}

// find returns the path of anvil: $ANVIL_BIN, or the version pinned in internal/tools.
func find(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("ANVIL_BIN"); path != "" {
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("ANVIL_BIN: %v", err)
		}
		return path
	}
	architecture := map[string]string{"amd64": "amd64", "arm64": "arm64"}[runtime.GOARCH]
	inside := filepath.Join("internal", "tools", "node_modules", "@foundry-rs", "anvil-"+runtime.GOOS+"-"+architecture, "bin", "anvil")
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			break
		}
		if folder == filepath.Dir(folder) {
			t.Fatal("no go.mod above the working folder")
		}
		folder = filepath.Dir(folder)
	}
	path := filepath.Join(folder, inside)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the EVM node of the tests is missing (%s): run `make tools`, or set ANVIL_BIN to an anvil 1.7", inside)
	}
	return path
}

// Call invokes a JSON-RPC method and decodes its result into out, which can be nil.
func (n *Node) Call(t testing.TB, out any, method string, params ...any) {
	t.Helper()
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Until(waittest.Deadline(t))}
	response, err := client.Post(n.URL, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	defer response.Body.Close()
	var answer struct {
		Result json.RawMessage
		Error  json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Error != nil {
		t.Fatalf("%s: %s %v", method, answer.Error, err)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(answer.Result, out); err != nil {
		t.Fatalf("%s: %s: %v", method, answer.Result, err)
	}
}

// Send sends a transaction from an unlocked account and returns its hash. The fields are those of
// eth_sendTransaction.
func (n *Node) Send(t testing.TB, fields map[string]string) string {
	t.Helper()
	var hash string
	n.Call(t, &hash, "eth_sendTransaction", fields)
	return hash
}

// Receipt has the fields of a receipt that tests use.
type Receipt struct {
	ContractAddress string `json:"contractAddress"`
	Status          string `json:"status"`
}

// Mined waits until the transaction is mined and returns its receipt. Even a node that mines
// immediately responds before the receipt is available.
func (n *Node) Mined(t testing.TB, hash string) Receipt {
	t.Helper()
	var receipt *Receipt
	waittest.Until(t, "transaction "+hash+" is mined", func() bool {
		n.Call(t, &receipt, "eth_getTransactionReceipt", hash)
		return receipt != nil
	})
	return *receipt
}

// Mine mines one block.
func (n *Node) Mine(t testing.TB) {
	t.Helper()
	n.Call(t, nil, "evm_mine")
}

// DeployToken deploys the token from the first account, which receives the whole supply, and
// returns its address. The node must mine each transaction immediately.
func (n *Node) DeployToken(t testing.TB, supply uint64) string {
	t.Helper()
	hash := n.Send(t, map[string]string{"from": n.Accounts[0], "data": Token(t).Bytecode + Word(supply)})
	receipt := n.Mined(t, hash)
	if receipt.Status != "0x1" {
		t.Fatalf("the token was not deployed: %+v", receipt)
	}
	return receipt.ContractAddress
}

// Word returns a number as one word of calldata, 64 digits.
func Word(number uint64) string { return fmt.Sprintf("%064x", number) }

// AddressWord returns an address as one word of calldata, 64 digits.
func AddressWord(address string) string {
	return strings.Repeat("0", 24) + strings.ToLower(strings.TrimPrefix(address, "0x"))
}
