//go:build linux

package devchain

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/sidecar"
)

// ownerDir makes this test program run a chain in that folder until it is killed.
const ownerDir = "DEVCHAIN_TEST_OWNER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownerDir); dir != "" {
		own(dir)
	}
	goleak.VerifyTestMain(m)
}

func own(dir string) {
	chain, err := Start(context.Background(), Config{Dir: dir})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(chain.Addr())
	<-chain.Done()
	os.Exit(0)
}

func start(t *testing.T, dir string) *Chain {
	t.Helper()
	chain, err := Start(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		select {
		case <-chain.Done():
		default:
			stop(t, chain)
		}
	})
	return chain
}

func stop(t *testing.T, chain *Chain) {
	t.Helper()
	ctx, cancel := waittest.CleanupContext(t)
	defer cancel()
	if err := chain.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// call is one JSON-RPC call.
func call(t *testing.T, addr, method, params string) json.RawMessage {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Post("http://"+addr, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var result struct{ Result, Error json.RawMessage }
	if err := json.NewDecoder(answer.Body).Decode(&result); err != nil || result.Error != nil {
		t.Fatalf("%s: %s, %v", method, result.Error, err)
	}
	return result.Result
}

const (
	payer    = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
	receiver = "0x00000000000000000000000000000000000000aA"
)

// pay sends a transaction and returns its hash, in quotes.
func pay(t *testing.T, addr string) string {
	t.Helper()
	return string(call(t, addr, "eth_sendTransaction", `[{"from":"`+payer+`","to":"`+receiver+`","value":"0x5"}]`))
}

func awaitMined(t *testing.T, addr, hash string) {
	t.Helper()
	waittest.Until(t, "the transaction to be mined", func() bool {
		return string(call(t, addr, "eth_getTransactionReceipt", "["+hash+"]")) != "null"
	})
}

func height(t *testing.T, addr string) (blocks int) {
	t.Helper()
	if _, err := fmt.Sscanf(string(call(t, addr, "eth_blockNumber", "[]")), `"0x%x"`, &blocks); err != nil {
		t.Fatal(err)
	}
	return blocks
}

func TestChainContinuesAfterARestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "chain")
	first := start(t, dir)
	if got := height(t, first.Addr()); got != 0 { // no transactions
		t.Errorf("a new chain has %d blocks", got)
	}
	hash := pay(t, first.Addr())
	awaitMined(t, first.Addr(), hash)
	waittest.Until(t, "the confirmations", func() bool { return height(t, first.Addr()) >= 3 })
	stop(t, first)
	if pids := sidecar.ProcessesIn(dir); len(pids) > 0 {
		t.Fatalf("processes %v are left after Stop", pids)
	}

	second := start(t, dir)
	if second.Addr() != first.Addr() || height(t, second.Addr()) < 3 {
		t.Errorf("the restarted chain listens at %s, want %s, and has %d blocks", second.Addr(), first.Addr(), height(t, second.Addr()))
	}
	awaitMined(t, second.Addr(), hash)
	if got := string(call(t, second.Addr(), "eth_getBalance", `["`+receiver+`","latest"]`)); got != `"0x5"` {
		t.Errorf("the receiver has %s", got)
	}
	stop(t, second)

	// Killed while writing its state, and its port is in use.
	if err := os.WriteFile(second.home.dumped(), []byte(`{"half":`), 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", first.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	third := start(t, dir)
	if third.Addr() == first.Addr() {
		t.Errorf("two programs listen at %s", first.Addr())
	}
	awaitMined(t, third.Addr(), hash)
}

func TestASecondStartOnTheSameFolderIsRefused(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "chain")
	start(t, dir)
	if _, err := Start(t.Context(), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "in use by process") {
		t.Errorf("second start: %v", err)
	}
}

func TestChainThatCannotStartReportsWhy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "state.json"), []byte(`{"of":"another program"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "state.json to start with a new chain") {
		t.Errorf("error %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "state.json")); err != nil {
		t.Fatal(err)
	}
	start(t, dir) // the failure released the folder
}

func TestKilledOwnerLeavesNoNodeAndLosesNoData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), ownerDir+"="+dir)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, host) {
		rest, _ := io.ReadAll(out)
		t.Fatalf("the owner did not start: %s%s (%v)", line, rest, err)
	}
	addr := strings.TrimSpace(line)
	hash := pay(t, addr)
	awaitMined(t, addr, hash)
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
	next := start(t, dir) // immediately: it waits for the old node
	awaitMined(t, next.Addr(), hash)
}

// bare returns the search of a machine without anvil.
func bare(t *testing.T) *search {
	t.Helper()
	return &search{cache: filepath.Join(t.TempDir(), "cache"), log: slog.New(slog.DiscardHandler)}
}

func TestAnvilIsDownloadedIfMissing(t *testing.T) {
	s := bare(t)
	fetched, err := s.find(t.Context())
	if err != nil || !strings.HasPrefix(fetched, s.cache) {
		t.Fatalf("found %q, %v", fetched, err)
	}
	t.Setenv("PATH", "") // the second call needs no npm
	if again, err := s.find(t.Context()); again != fetched || err != nil {
		t.Errorf("found %q, %v", again, err)
	}
}

func TestMissingProgramReportsWhatToDo(t *testing.T) {
	t.Setenv("PATH", "") // no npm either
	_, err := Start(t.Context(), Config{Dir: t.TempDir(), search: bare(t)})
	if err == nil {
		t.Fatal("a chain started from nothing")
	}
	for _, want := range []string{"npm is not installed", "getfoundry.sh", "ANVIL_BIN", "--chain"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}

func TestScriptIsNotAcceptedAsAnvil(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := filepath.Join(dir, "anvil")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho anvil Version: 1.7.1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	s := bare(t)
	s.path, s.editions = []string{dir}, []string{here}
	if found, err := s.find(t.Context()); err != nil || found != filepath.Join(here, "../../tools", editionPath()) {
		t.Errorf("found %q, %v; want the one of the Node tools", found, err)
	}
	s.bin = script
	if _, err := s.find(t.Context()); err == nil || !strings.Contains(err.Error(), "ANVIL_BIN="+script) {
		t.Errorf("error %v", err)
	}
}

func TestTheEditionIsPinnedInOnePlace(t *testing.T) {
	t.Parallel()
	type entry struct{ Version, Integrity string }
	read := func(name string) map[string]entry {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var lock struct{ Packages map[string]entry }
		if err := json.Unmarshal(text, &lock); err != nil {
			t.Fatal(err)
		}
		return lock.Packages
	}
	const name = "node_modules/@foundry-rs/anvil-linux-amd64"
	ours, tools := read("npm/package-lock.json")[name], read("../../tools/package-lock.json")[name]
	if ours.Version != editionVersion || ours != tools || ours.Integrity == "" {
		t.Errorf("pinned: %q in Go, %v here, %v in internal/tools", editionVersion, ours, tools)
	}
}
