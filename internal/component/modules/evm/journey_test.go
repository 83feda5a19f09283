package evm

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
	"github.com/weft-automation/weft/internal/component/modules/evm/evmtest"
)

// keys are the private keys of anvil's first accounts (of the mnemonic "test test test test test
// test test test test test test junk").
var keys = []string{
	"0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
	"0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
}

// chain runs modules with a real node.
type chain struct {
	*evmtest.Node
	bench *componenttest.Bench
}

func newChain(t *testing.T, arguments ...string) *chain {
	t.Helper()
	return &chain{evmtest.Start(t, arguments...), componenttest.New(t, modules(t)...)}
}

// try runs a module. It adds the node's URL to the input if the module has one.
func (c *chain) try(t *testing.T, module string, input object) (object, *component.Error) {
	t.Helper()
	if strings.Contains(string(mustLookup(t, c.bench, module).Input), `"jsonRpcUrl"`) {
		input["jsonRpcUrl"] = c.URL
	}
	config := object{}
	if name, ok := input["functionName"]; ok && !strings.Contains(string(mustLookup(t, c.bench, module).Input), `"functionName"`) {
		delete(input, "functionName")
		config["functionName"] = name
	}
	output, failed := c.bench.Run(t, module, text(t, input), text(t, config))
	var read object
	if failed == nil {
		if err := json.Unmarshal(output, &read); err != nil {
			t.Fatal(err)
		}
	}
	return read, failed
}

func (c *chain) run(t *testing.T, module string, input object) object {
	t.Helper()
	output, failed := c.try(t, module, input)
	if failed != nil {
		t.Fatalf("%s: %v %s", module, failed, details(failed))
	}
	return output
}

// send builds, signs and broadcasts a transaction from the first account and returns its hash.
func (c *chain) send(t *testing.T, input object) string {
	t.Helper()
	signed := c.sign(t, input)
	sent := c.run(t, "BROADCAST_EVM_TRANSACTION", object{"signedTransaction": signed["signedTransaction"]})
	if sent["transactionHash"] != signed["transactionHash"] || sent["alreadyKnown"] != false {
		t.Fatalf("signed %v, sent %v", signed, sent)
	}
	return sent["transactionHash"].(string)
}

func (c *chain) sign(t *testing.T, input object) object {
	t.Helper()
	input["from"] = c.Accounts[0]
	built := c.run(t, "BUILD_EVM_TRANSACTION", input)
	return c.run(t, "SIGN_EVM_TRANSACTION", object{"transaction": built["transaction"], "privateKey": keys[0]})
}

func at(t *testing.T, value any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch step := step.(type) {
		case string:
			value = value.(object)[step]
		case int:
			value = value.([]any)[step]
		}
	}
	return value
}

func TestContractIsDeployedCalledAndDecodedByModulesAlone(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	abi := json.RawMessage(evmtest.Token(t).ABI)
	other := c.Accounts[1]

	hash := c.send(t, object{"data": evmtest.Token(t).Bytecode + evmtest.Word(1_000_000)})
	mined := c.run(t, "WAIT_FOR_EVM_TRANSACTION", object{"transactionHash": hash})
	if mined["status"] != "success" {
		t.Fatalf("the deployment: %v", mined)
	}
	token := at(t, mined, "receipt", "contractAddress").(string)

	transfer := c.run(t, "BUILD_EVM_CALLDATA", object{"abi": abi, "functionName": "transfer", "arguments": []any{other, "1234"}})
	hash = c.send(t, object{"to": token, "data": transfer["calldata"]})
	mined = c.run(t, "WAIT_FOR_EVM_TRANSACTION", object{"transactionHash": hash})
	if mined["status"] != "success" || mined["blockNumber"] != "2" {
		t.Fatalf("the transfer: %v", mined)
	}

	query := c.run(t, "BUILD_EVM_CALLDATA", object{"abi": abi, "functionName": "balanceOf", "arguments": []any{other}})
	answer := c.run(t, "READ_EVM_CONTRACT", object{"contractAddress": token, "calldata": query["calldata"]})
	decoded := c.run(t, "DECODE_EVM_FUNCTION_RESULT", object{"abi": abi, "functionName": "balanceOf", "encodedResult": answer["result"]})
	if decoded["0"] != "1234" {
		t.Errorf("the balance is %v", decoded)
	}

	logs := c.run(t, "GET_EVM_LOGS", object{"address": token, "fromBlock": "2", "toBlock": "latest", "abi": abi})
	if logs["count"] != 1.0 || at(t, logs, "logs", 0, "eventName") != "Transfer" || at(t, logs, "logs", 0, "transactionHash") != hash {
		t.Fatalf("the logs: %v", logs)
	}
	if got, want := text(t, at(t, logs, "logs", 0, "values")), text(t, object{"from": c.Accounts[0], "to": other, "value": "1234"}); !strings.EqualFold(got, want) {
		t.Errorf("the log's values are %s, want %s", got, want)
	}

	// The same log from the receipt, decoded by the module that doesn't query a node.
	log := at(t, mined, "receipt", "logs", 0).(object)
	event := c.run(t, "DECODE_EVM_LOG", object{"abi": abi, "eventName": "Transfer", "topics": log["topics"], "data": log["data"]})
	if event["eventName"] != "Transfer" || event["signature"] != "Transfer(address,address,uint256)" ||
		text(t, event["values"]) != text(t, at(t, logs, "logs", 0, "values")) || text(t, event["arguments"]) != text(t, at(t, logs, "logs", 0, "arguments")) {
		t.Errorf("the log of the receipt is %v", event)
	}
	if _, failed := c.try(t, "DECODE_EVM_LOG", object{"abi": abi, "eventName": "Mint", "topics": log["topics"], "data": log["data"]}); failed == nil ||
		!strings.HasPrefix(failed.Message, `eventName: the abi has no event "Mint"; it has `) || !strings.Contains(failed.Message, "Transfer(address,address,uint256)") {
		t.Errorf("with the name of no event: %v", failed)
	}

	receipt := c.run(t, "GET_EVM_TRANSACTION_RECEIPT", object{"transactionHash": hash})
	if receipt["mined"] != true || receipt["status"] != "success" || text(t, receipt["receipt"]) != text(t, mined["receipt"]) {
		t.Errorf("the receipt is %v, and that of the wait %v", receipt, mined)
	}
	transaction := c.run(t, "GET_EVM_TRANSACTION", object{"transactionHash": hash})
	if transaction["found"] != true || transaction["mined"] != true || !strings.EqualFold(at(t, transaction, "transaction", "from").(string), c.Accounts[0]) ||
		at(t, transaction, "transaction", "input") != transfer["calldata"] || at(t, transaction, "transaction", "nonce") != "1" {
		t.Errorf("the transaction is %v", transaction)
	}
	block := c.run(t, "GET_EVM_BLOCK", object{"blockTag": 2, "wholeTransactions": true})
	if at(t, block, "block", "transactions", 0) != hash || text(t, at(t, block, "transactions", 0)) != text(t, transaction["transaction"]) {
		t.Errorf("the block is %v", block)
	}
	if next := c.run(t, "GET_EVM_NONCE", object{"account": c.Accounts[0]}); next["nonce"] != "2" {
		t.Errorf("the nonce is %v", next)
	}
}

func TestRevertWithCustomErrorReportsItsName(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	token := c.DeployToken(t, 1000)
	abi := json.RawMessage(evmtest.Token(t).ABI)
	data := calldata(t, "transferFrom", common.HexToAddress(c.Accounts[1]), common.HexToAddress(c.Accounts[2]), big.NewInt(5))
	for module, input := range map[string]object{
		"READ_EVM_CONTRACT":     {"contractAddress": token, "calldata": data},
		"ESTIMATE_EVM_GAS":      {"from": c.Accounts[0], "to": token, "data": data},
		"BUILD_EVM_TRANSACTION": {"from": c.Accounts[0], "to": token, "data": data},
	} {
		_, failed := c.try(t, module, input)
		if failed == nil || failed.Code != component.CodeUpstream || failed.Retryable || !strings.Contains(failed.Message, "0x192b9e4e") {
			t.Errorf("%s without an abi: %v", module, failed)
		}
		input["abi"] = []string{"error InsufficientAllowance(uint8)", "error Other()"}
		if _, failed = c.try(t, module, input); failed == nil || !strings.HasSuffix(failed.Message, "with a custom error 0x192b9e4e and 96 bytes; the abi has no error of this selector that fits the data") {
			t.Errorf("%s with an abi of others: %v", module, failed)
		}
		input["abi"] = abi
		_, failed = c.try(t, module, input)
		if failed == nil || !strings.Contains(failed.Message, "InsufficientAllowance(") || !strings.Contains(details(failed), `"needed":"5"`) {
			t.Errorf("%s with an abi: %v %s", module, failed, details(failed))
		}
	}
}

func TestTransactionSentRepeatedlyIsBroadcastOnce(t *testing.T) {
	t.Parallel()
	c := newChain(t, "--no-mining")
	signed := c.sign(t, object{"to": c.Accounts[1], "value": "1"})
	input := func() object { return object{"signedTransaction": signed["signedTransaction"]} }
	if first := c.run(t, "BROADCAST_EVM_TRANSACTION", input()); first["alreadyKnown"] != false || first["transactionHash"] != signed["transactionHash"] {
		t.Errorf("at first: %v", first)
	}
	if again := c.run(t, "BROADCAST_EVM_TRANSACTION", input()); again["alreadyKnown"] != true || again["transactionHash"] != signed["transactionHash"] {
		t.Errorf("while it waits: %v", again)
	}
	c.Mine(t)
	if mined := c.run(t, "BROADCAST_EVM_TRANSACTION", input()); mined["alreadyKnown"] != true || mined["transactionHash"] != signed["transactionHash"] {
		t.Errorf("when it is mined: %v", mined)
	}
	// A different transaction with the used nonce is rejected with a clear error.
	other := c.sign(t, object{"to": c.Accounts[1], "value": "2", "nonce": "0"})
	if output, failed := c.try(t, "BROADCAST_EVM_TRANSACTION", object{"signedTransaction": other["signedTransaction"]}); failed == nil || !strings.Contains(failed.Message, "nonce too low") {
		t.Errorf("another with its nonce: %v, %v", output, failed)
	}
}

func TestReplacementTransactionIsBuiltAndReported(t *testing.T) {
	t.Parallel()
	c := newChain(t, "--no-mining")
	first := c.send(t, object{"to": c.Accounts[1], "value": "1"})
	if next := c.run(t, "GET_EVM_NONCE", object{"account": c.Accounts[0]}); next["nonce"] != "1" {
		t.Errorf("with one that waits the nonce is %v", next)
	}
	if next := c.run(t, "GET_EVM_NONCE", object{"account": c.Accounts[0], "blockTag": "latest"}); next["nonce"] != "0" {
		t.Errorf("without the one that waits the nonce is %v", next)
	}
	if pending := c.run(t, "GET_EVM_TRANSACTION", object{"transactionHash": first}); pending["found"] != true || pending["mined"] != false || at(t, pending, "transaction", "blockHash") != nil {
		t.Errorf("the one that waits is %v", pending)
	}
	if receipt := c.run(t, "GET_EVM_TRANSACTION_RECEIPT", object{"transactionHash": first}); receipt["mined"] != false || receipt["receipt"] != nil || receipt["status"] != nil || receipt["blockNumber"] != nil {
		t.Errorf("the receipt of one that waits is %v", receipt)
	}
	w := newWaiter(t, object{"jsonRpcUrl": c.URL, "transactionHash": first})
	w.mustWait(t, "pending")
	second := c.send(t, object{"to": c.Accounts[1], "value": "2", "nonce": "0", "maxFeePerGas": "90000000000", "maxPriorityFeePerGas": "9000000000"})
	c.Mine(t)
	if failed := w.untilError(t); failed.Code != codeReplaced || !strings.Contains(details(failed), second) {
		t.Errorf("the first: %v %s", failed, details(failed))
	}
	dropped := c.send(t, object{"to": c.Accounts[1], "value": "3"})
	w = newWaiter(t, object{"jsonRpcUrl": c.URL, "transactionHash": dropped})
	w.mustWait(t, "pending")
	c.Call(t, nil, "anvil_dropTransaction", dropped)
	if failed := w.untilError(t); failed.Code != codeDropped {
		t.Errorf("the dropped one: %v", failed)
	}
	if gone := c.run(t, "GET_EVM_TRANSACTION", object{"transactionHash": dropped}); gone["found"] != false || gone["transaction"] != nil {
		t.Errorf("the dropped one is %v", gone)
	}
}

func TestChainWithoutBaseFeeAcceptsLegacyTransactions(t *testing.T) {
	t.Parallel()
	c := newChain(t, "--hardfork", "berlin")
	price := c.run(t, "GET_EVM_GAS_PRICE", object{})
	if price["type"] != "legacy" || price["baseFeePerGas"] != nil || price["maxFeePerGas"] != nil || price["maxPriorityFeePerGas"] != nil {
		t.Errorf("the prices are %v", price)
	}
	built := c.run(t, "BUILD_EVM_TRANSACTION", object{"from": c.Accounts[0], "to": c.Accounts[1], "value": "7"})
	if at(t, built, "transaction", "type") != "legacy" || at(t, built, "transaction", "gasPrice") != price["gasPrice"] {
		t.Errorf("it built %v", built)
	}
	hash := c.send(t, object{"to": c.Accounts[1], "value": "7"})
	if mined := c.run(t, "WAIT_FOR_EVM_TRANSACTION", object{"transactionHash": hash}); mined["status"] != "success" || at(t, mined, "receipt", "type") != 0.0 {
		t.Errorf("it became %v", mined)
	}
	_, failed := c.try(t, "BUILD_EVM_TRANSACTION", object{"from": c.Accounts[0], "to": c.Accounts[1], "maxFeePerGas": "1"})
	if failed == nil || failed.Code != component.CodeInvalidInput || !strings.Contains(failed.Message, "no base fee") {
		t.Errorf("with maxFeePerGas: %v", failed)
	}
}

func TestFeesGasAndChainAreReadFromARealNode(t *testing.T) {
	t.Parallel()
	c := newChain(t, "--chain-id", "1337", "--block-base-fee-per-gas", "7000000000")
	if id := c.run(t, "GET_EVM_CHAIN_ID", object{}); id["chainId"] != "1337" {
		t.Errorf("the chain is %v", id)
	}
	price := c.run(t, "GET_EVM_GAS_PRICE", object{})
	tip, _ := new(big.Int).SetString(price["maxPriorityFeePerGas"].(string), 10)
	want := new(big.Int).Add(big.NewInt(14_000_000_000), tip)
	if price["type"] != "eip1559" || price["baseFeePerGas"] != "7000000000" || price["maxFeePerGas"] != want.String() {
		t.Errorf("the prices are %v", price)
	}
	if gas := c.run(t, "ESTIMATE_EVM_GAS", object{"from": c.Accounts[0], "to": c.Accounts[1], "value": "1"}); gas["gas"] != "21000" {
		t.Errorf("a payment uses %v", gas)
	}
	token := c.DeployToken(t, 10)
	data := calldata(t, "transfer", common.HexToAddress(c.Accounts[1]), big.NewInt(1))
	gas := c.run(t, "ESTIMATE_EVM_GAS", object{"from": c.Accounts[0], "to": token, "data": data})
	built := c.run(t, "BUILD_EVM_TRANSACTION", object{"from": c.Accounts[0], "to": token, "data": data, "chainId": "1337"})
	estimate, _ := new(big.Int).SetString(gas["gas"].(string), 10)
	if limit := at(t, built, "transaction", "gasLimit"); limit != new(big.Int).Add(estimate, new(big.Int).Div(estimate, big.NewInt(5))).String() {
		t.Errorf("the limit is %v by an estimate of %s", limit, estimate)
	}
	_, failed := c.try(t, "BUILD_EVM_TRANSACTION", object{"from": c.Accounts[0], "to": token, "data": data, "chainId": "1"})
	if failed == nil || failed.Code != component.CodeInvalidInput || !strings.Contains(failed.Message, "1337") {
		t.Errorf("for another chain: %v", failed)
	}
	if _, failed := c.try(t, "ESTIMATE_EVM_GAS", object{"from": c.Accounts[0], "to": token, "data": calldata(t, "transfer", common.HexToAddress(c.Accounts[1]), big.NewInt(11))}); failed == nil || !strings.Contains(failed.Message, "exceeds balance") {
		t.Errorf("one that reverts: %v", failed)
	}
}

func TestBlocksAreReadByTagNumberAndHash(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	c.Mine(t)
	c.Mine(t)
	second := c.run(t, "GET_EVM_BLOCK", object{})
	hash := at(t, second, "block", "hash").(string)
	for _, tag := range []any{"2", 2, json.RawMessage("2.0"), json.RawMessage("2e0"), "0x2", hash, "0x" + strings.ToUpper(hash[2:])} {
		if got := c.run(t, "GET_EVM_BLOCK", object{"blockTag": tag}); text(t, got) != text(t, second) {
			t.Errorf("at %v: %v, want %v", tag, got, second)
		}
	}
	seconds := at(t, second, "block", "timestamp").(string)
	if when, err := time.Parse(time.RFC3339, at(t, second, "block", "time").(string)); err != nil || big.NewInt(when.Unix()).String() != seconds {
		t.Errorf("the time is %v: %v", at(t, second, "block", "time"), err)
	}
	if first := c.run(t, "GET_EVM_BLOCK", object{"blockTag": "earliest"}); at(t, first, "block", "number") != "0" || at(t, first, "block", "transactions") == nil {
		t.Errorf("the first block is %v", first)
	}
	if pending := c.run(t, "GET_EVM_BLOCK", object{"blockTag": "pending", "wholeTransactions": true}); pending["found"] != true {
		t.Errorf("the pending block is %v", pending)
	}
	for _, tag := range []any{"99999", someHash} {
		if none := c.run(t, "GET_EVM_BLOCK", object{"blockTag": tag}); none["found"] != false || none["block"] != nil || len(none["transactions"].([]any)) != 0 {
			t.Errorf("at %v: %v", tag, none)
		}
	}
}

func TestLogsAreFoundByContractTopicsAndBlocks(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	token, other := c.DeployToken(t, 100), c.DeployToken(t, 100)
	c.Mined(t, c.Send(t, map[string]string{"from": c.Accounts[0], "to": token, "data": calldata(t, "transfer", common.HexToAddress(c.Accounts[1]), big.NewInt(1))}))
	c.Mined(t, c.Send(t, map[string]string{"from": c.Accounts[0], "to": other, "data": calldata(t, "approve", common.HexToAddress(c.Accounts[2]), big.NewInt(2))}))
	signature := "0x" + common.Bytes2Hex(tokenABI(t).Events["Transfer"].ID.Bytes())
	approval := tokenABI(t).Events["Approval"].ID.Hex()
	to := "0x" + evmtest.AddressWord(c.Accounts[1])
	var third struct{ Hash string }
	c.Call(t, &third, "eth_getBlockByNumber", "0x3", false)
	for name, q := range map[string]struct {
		input object
		want  []string // blocks
	}{
		"all":                   {object{"fromBlock": "earliest"}, []string{"1", "2", "3", "4"}},
		"the latest":            {object{}, []string{"4"}},
		"one contract":          {object{"fromBlock": 0, "address": token}, []string{"1", "3"}},
		"both contracts":        {object{"fromBlock": 0, "address": []string{token, other}}, []string{"1", "2", "3", "4"}},
		"one event":             {object{"fromBlock": 0, "topics": []any{approval}}, []string{"4"}},
		"one of two events":     {object{"fromBlock": 0, "address": other, "topics": []any{[]string{approval, signature}}}, []string{"2", "4"}},
		"to somebody":           {object{"fromBlock": 0, "topics": []any{signature, nil, to}}, []string{"3"}},
		"some blocks":           {object{"fromBlock": "2", "toBlock": "0x3"}, []string{"2", "3"}},
		"one block":             {object{"blockHash": third.Hash}, []string{"3"}},
		"none":                  {object{"fromBlock": 0, "address": c.Accounts[5]}, nil},
		"with an abi of others": {object{"fromBlock": 4, "abi": []string{"event Other(uint256)"}}, []string{"4"}},
	} {
		output := c.run(t, "GET_EVM_LOGS", q.input)
		var blocks []string
		for _, log := range output["logs"].([]any) {
			blocks = append(blocks, log.(object)["blockNumber"].(string))
			if log.(object)["eventName"] != nil || log.(object)["values"] != nil {
				t.Errorf("%s: decoded as %v", name, log)
			}
		}
		if !slices.Equal(blocks, q.want) {
			t.Errorf("%s: blocks %v, want %v", name, blocks, q.want)
		}
	}
}
