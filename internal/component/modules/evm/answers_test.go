package evm

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
)

func decoded(t *testing.T, output json.RawMessage) (read object) {
	t.Helper()
	if len(output) == 0 {
		return nil
	}
	if err := json.Unmarshal(output, &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// replaceOnce returns a valid response with one substring replaced.
func replaceOnce(good, from, to string) string {
	if !strings.Contains(good, from) {
		panic("there is no " + from + " in " + good)
	}
	return `"result":` + strings.Replace(good, from, to, 1)
}

// TestResponseToAnotherRequestIsRejected uses nodes that return well-formed responses to a
// different request.
func TestResponseToAnotherRequestIsRejected(t *testing.T) {
	t.Parallel()
	other := "0x" + strings.Repeat("ef", 32)
	log, block, whole := `[`+cannedLog()+`]`, cannedBlock(`[]`), cannedBlock(`[`+cannedTransaction(someHash, 0)+`]`)
	byHash := object{"transactionHash": someHash}
	someLogs := object{"address": "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "fromBlock": "19000000", "toBlock": "19000010", "topics": []any{"0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef", nil}}
	logsOf := func(changes object) object {
		input := object{}
		for name, value := range someLogs {
			input[name] = value
		}
		for name, value := range changes {
			input[name] = value
		}
		return input
	}
	bench := componenttest.New(t, modules(t)...)
	for _, c := range []struct {
		module, method, answer string
		input                  object
		words                  string
	}{
		{"GET_EVM_TRANSACTION", "eth_getTransactionByHash", replaceOnce(cannedTransaction(someHash, 0), someHash, other), byHash, "the transaction is not the requested one"},
		{"GET_EVM_TRANSACTION", "eth_getTransactionByHash", replaceOnce(cannedTransaction(someHash, 0), `"`+blockHash+`"`, `null`), byHash, "has only one of blockHash and blockNumber"},
		{"GET_EVM_TRANSACTION", "eth_getTransactionByHash", replaceOnce(cannedTransaction(someHash, 0), `"gas":`, `"gsa":`), byHash, "a transaction has no gas"},
		{"GET_EVM_TRANSACTION", "eth_getTransactionByHash", replaceOnce(cannedTransaction(someHash, 0), `"storageKeys"`, `"keys"`), byHash, "an entry of an access list has no storageKeys"},
		{"GET_EVM_TRANSACTION_RECEIPT", "eth_getTransactionReceipt", replaceOnce(cannedReceipt(someHash), someHash, other), byHash, "the receipt is for another transaction"},
		{"GET_EVM_TRANSACTION_RECEIPT", "eth_getTransactionReceipt", replaceOnce(cannedReceipt(someHash), blockHash, "0x"+zeroWord), byHash, "has no block hash"},
		{"GET_EVM_TRANSACTION_RECEIPT", "eth_getTransactionReceipt", replaceOnce(cannedReceipt(someHash), `"status":"0x1"`, `"status":"0x2"`), byHash, "no status of 0 or 1"},
		{"GET_EVM_TRANSACTION_RECEIPT", "eth_getTransactionReceipt", replaceOnce(cannedReceipt(someHash), `"logs":[]`, `"logs":null`), byHash, "the receipt has no logs"},
		{"WAIT_FOR_EVM_TRANSACTION", "eth_getTransactionReceipt", replaceOnce(cannedReceipt(someHash), `"status":"0x1"`, `"root":"`+someHash+`"`), byHash, "no status of 0 or 1"},
		{"GET_EVM_BLOCK", "eth_getBlockByNumber", replaceOnce(block, `0x121eac0`, `0x121eac1`), object{"blockTag": 19000000}, "the block is not the requested one"},
		{"GET_EVM_BLOCK", "eth_getBlockByNumber", resultOf(block), object{"blockTag": "earliest"}, "the block is not the requested one"},
		{"GET_EVM_BLOCK", "eth_getBlockByHash", replaceOnce(block, blockHash, other), object{"blockTag": blockHash}, "the block is not the requested one"},
		{"GET_EVM_BLOCK", "eth_getBlockByNumber", replaceOnce(block, `"`+blockHash+`"`, `null`), object{}, "no number or no hash"},
		{"GET_EVM_BLOCK", "eth_getBlockByNumber", replaceOnce(block, `"timestamp"`, `"time"`), object{}, "the block has no timestamp"},
		{"GET_EVM_BLOCK", "eth_getBlockByNumber", replaceOnce(block, `0x65a0c5f3`, `0x3fffffffffff`), object{}, "beyond the year 9999"},
		{"GET_EVM_BLOCK", "eth_getBlockByNumber", replaceOnce(whole, `"blockHash":"`+blockHash, `"blockHash":"`+other), object{"wholeTransactions": true}, "claims to be in another place"},
		{"GET_EVM_BLOCK", "eth_getBlockByNumber", replaceOnce(whole, `"transactionIndex":"0x0"`, `"transactionIndex":"0x1"`), object{"wholeTransactions": true}, "claims to be in another place"},
		{"GET_EVM_BLOCK", "eth_getBlockByNumber", resultOf(whole), object{}, "malformed"},
		{"GET_EVM_BLOCK", "eth_getBlockByNumber", resultOf(cannedBlock(`["` + someHash + `"]`)), object{"wholeTransactions": true}, "a transaction is not an object"},
		{"GET_EVM_LOGS", "eth_getLogs", replaceOnce(log, `0xa0b8`, `0xa0b9`), someLogs, "from another contract"},
		{"GET_EVM_LOGS", "eth_getLogs", replaceOnce(log, `0xddf2`, `0xddf3`), someLogs, "doesn't match the topics"},
		{"GET_EVM_LOGS", "eth_getLogs", resultOf(log), logsOf(object{"topics": []any{nil, nil, nil, someHash}}), "doesn't match the topics"},
		{"GET_EVM_LOGS", "eth_getLogs", replaceOnce(log, `0x121eac0`, `0x121eabf`), someLogs, "before fromBlock"},
		{"GET_EVM_LOGS", "eth_getLogs", replaceOnce(log, `0x121eac0`, `0x121eacb`), someLogs, "after toBlock"},
		{"GET_EVM_LOGS", "eth_getLogs", replaceOnce(log, `"removed":false`, `"removed":true`), someLogs, "removed"},
		{"GET_EVM_LOGS", "eth_getLogs", replaceOnce(log, `"topics":[`, `"topics":["`+someHash+`","`+someHash+`",`), object{"fromBlock": 0}, "more than 4 topics"},
		{"GET_EVM_LOGS", "eth_getLogs", replaceOnce(log, blockHash, other), object{"blockHash": blockHash}, "from another block"},
		{"GET_EVM_LOGS", "eth_getLogs", replaceOnce(log, `"logIndex"`, `"index"`), someLogs, "a log has no logIndex"},
		{"GET_EVM_LOGS", "eth_getLogs", resultOf(`null`), someLogs, "the list of logs is null"},
	} {
		input := object{"jsonRpcUrl": nodeWith(t, map[string]string{c.method: c.answer})}
		for name, value := range c.input {
			input[name] = value
		}
		output, failed := bench.Run(t, c.module, text(t, input), `{}`)
		if failed == nil || failed.Code != component.CodeUpstream || failed.Retryable == (c.module == waitModule) || !strings.Contains(failed.Message, c.words) {
			t.Errorf("%s, %s: %.200s, %v", c.module, c.words, output, failed)
		}
	}
}

func TestTooManyLogsReportTheirNumber(t *testing.T) {
	t.Parallel()
	logs := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = strings.Replace(cannedLog(), `"logIndex":"0x3"`, fmt.Sprintf(`"logIndex":"0x%x"`, n-i), 1)
		}
		return resultOf(`[` + strings.Join(list, ",") + `]`)
	}
	bench := componenttest.New(t, modules(t)...)
	input := object{"fromBlock": 0, "jsonRpcUrl": nodeWith(t, map[string]string{"eth_getLogs": logs(maxLogs + 1)})}
	_, failed := bench.Run(t, "GET_EVM_LOGS", text(t, input), `{}`)
	if failed == nil || failed.Code != component.CodeOutputTooLarge || failed.Retryable || details(failed) != `{"found":1001,"limit":1000}` {
		t.Errorf("one too many: %v %s", failed, details(failed))
	}
	input["jsonRpcUrl"] = nodeWith(t, map[string]string{"eth_getLogs": logs(maxLogs)})
	output, failed := bench.Run(t, "GET_EVM_LOGS", text(t, input), `{}`)
	if failed != nil {
		t.Fatalf("as many as may be: %v", failed)
	}
	list := decoded(t, output)["logs"].([]any)
	if len(list) != maxLogs || at(t, list, 0, "logIndex") != 1.0 || at(t, list, maxLogs-1, "logIndex") != 1000.0 {
		t.Errorf("%d logs from %v to %v", len(list), at(t, list, 0, "logIndex"), at(t, list, len(list)-1, "logIndex"))
	}
}

// Some nodes return only logs that have a topic if the filter matches any topic in that
// position. Other nodes also return logs without such a topic. Both are valid.
func TestLogMayOmitUnconstrainedTopic(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, modules(t)...)
	input := object{"fromBlock": 0, "topics": []any{nil, nil, nil, nil}, "jsonRpcUrl": nodeWith(t, map[string]string{"eth_getLogs": resultOf(`[` + cannedLog() + `]`)})}
	output, failed := bench.Run(t, "GET_EVM_LOGS", text(t, input), `{}`)
	if read := decoded(t, output); failed != nil || read["count"] != 1.0 {
		t.Errorf("%s, %v", output, failed)
	}
}

// A receipt from before the Byzantium fork has a state root instead of a status.
func TestReceiptBeforeByzantiumHasNoStatus(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, modules(t)...)
	old := replaceOnce(cannedReceipt(someHash), `"status":"0x1"`, `"root":"`+someHash+`"`)
	output, failed := bench.Run(t, "GET_EVM_TRANSACTION_RECEIPT", text(t, object{"transactionHash": someHash, "jsonRpcUrl": nodeWith(t, map[string]string{"eth_getTransactionReceipt": old})}), `{}`)
	if read := decoded(t, output); failed != nil || read["mined"] != true || read["status"] != nil || at(t, read, "receipt", "status") != nil {
		t.Errorf("%s, %v", output, failed)
	}
}

func TestInvalidNodeQuerySendsNothing(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, modules(t)...)
	tooLarge := "115792089237316195423570985008687907853269984665640564039457584007913129639936"
	for module, inputs := range map[string][]object{
		"GET_EVM_CHAIN_ID":            {{"jsonRpcUrl": "ftp://127.0.0.1"}, {"jsonRpcUrl": nil}},
		"GET_EVM_GAS_PRICE":           {{"jsonRpcUrl": "127.0.0.1"}},
		"GET_EVM_NONCE":               {{}, {"account": "vitalik.eth"}, {"account": account, "blockTag": "newest"}, {"account": account, "blockTag": -1}, {"account": strings.Replace(account, "d", "D", 1)}},
		"GET_EVM_TRANSACTION":         {{}, {"transactionHash": "0x12"}, {"transactionHash": someHash[2:]}},
		"GET_EVM_TRANSACTION_RECEIPT": {{}, {"transactionHash": account}},
		"GET_EVM_BLOCK":               {{"blockTag": "newest"}, {"blockTag": 1.5}, {"blockTag": "-1"}, {"wholeTransactions": "yes"}},
		"GET_EVM_LOGS": {{"address": "0x12"}, {"address": []string{}}, {"address": []string{account, "0x12"}}, {"topics": []any{"0x12"}}, {"topics": []any{nil, nil, nil, nil, nil}}, {"topics": []any{[]string{}}},
			{"blockHash": someHash, "fromBlock": 1}, {"blockHash": "0x12"}, {"fromBlock": "pending"}, {"toBlock": someHash}, {"fromBlock": 5, "toBlock": 4}, {"fromBlock": "0x5", "toBlock": "earliest"}, {"abi": "function"}, {"abi": 7}},
		"ESTIMATE_EVM_GAS": {{"from": account}, {"to": account}, {"from": account, "to": account, "value": "-1"}, {"from": account, "to": account, "value": "1e18"}, {"from": account, "to": account, "value": tooLarge},
			{"from": account, "to": account, "value": 1.5}, {"from": account, "to": account, "value": 1 << 53}, {"from": account, "to": account, "data": "0x1"}, {"from": account, "to": "", "data": "0x12"}, {"from": account, "to": account, "blockTag": "newest"}, {"from": account, "to": account, "abi": []string{"nonsense"}}},
		"BUILD_EVM_TRANSACTION": {{"from": account}, {"from": account, "value": "1", "data": "0x00"}, {"to": account}, {"from": account, "data": "0x"}, {"from": account, "to": account, "nonce": "18446744073709551616"}, {"from": account, "to": account, "nonce": "01"},
			{"from": account, "to": account, "gasLimit": "-5"}, {"from": account, "to": account, "maxFeePerGas": tooLarge}, {"from": account, "to": account, "gasPrice": "1", "maxPriorityFeePerGas": "1"}, {"from": account, "to": account, "chainId": "mainnet"}},
		"BROADCAST_EVM_TRANSACTION": {{}, {"signedTransaction": "0x"}, {"signedTransaction": "0x0102"}, {"signedTransaction": eip155[2:]}, {"signedTransaction": "0x" + strings.Repeat("00", 262_144)}},
		"RESOLVE_ENS_NAME": {{}, {"name": ""}, {"name": "."}, {"name": "a..eth"}, {"name": "a b.eth"}, {"name": "bitc\u03bfin.eth"}, {"name": "a_b.eth"}, {"name": strings.Repeat("a.", 32) + "eth"},
			{"name": strings.Repeat("日", 86) + ".eth"}, {"name": "vitalik.eth", "registryAddress": "0x12"}},
		"READ_EVM_CONTRACT": {{"contractAddress": account, "calldata": "0x", "abi": []string{"nonsense"}}},
	} {
		for _, input := range inputs {
			if _, given := input["jsonRpcUrl"]; !given {
				input["jsonRpcUrl"] = "http://127.0.0.1:9"
			}
			if output, failed := bench.Run(t, module, text(t, input), `{}`); failed == nil || failed.Code != component.CodeInvalidInput || failed.Retryable {
				t.Errorf("%s %.300v: %s, %v", module, input, output, failed)
			}
		}
	}
}

// The following fuzz targets check three rules: the decoders don't panic, every accepted input can
// be encoded, and the encoded output matches the schema.
func fuzzAnswer(f *testing.F, module string, seeds []string, decode func(data []byte) (output any, ok bool)) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	fits := fitting(f, module)
	f.Fuzz(func(t *testing.T, data []byte) {
		if output, ok := decode(data); ok {
			fits(t, data, output)
		}
	})
}

// fitting returns a check of outputs against the schema of their module.
func fitting(f *testing.F, module string) func(t *testing.T, data []byte, output any) {
	f.Helper()
	for _, m := range Modules(nil) {
		d := m.Describe()
		if d.Module != module {
			continue
		}
		schema := componenttest.Compile(f, d.Output)
		return func(t *testing.T, data []byte, output any) {
			t.Helper()
			result, err := component.Encode(output)
			if err != nil {
				t.Fatalf("%s cannot be written: %v", data, err)
			}
			var read any
			if err := json.Unmarshal(result.Output, &read); err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(read); err != nil {
				t.Errorf("%s gives %s: %v", data, result.Output, err)
			}
		}
	}
	f.Fatalf("there is no %s", module)
	return nil
}

func FuzzLogsAnswer(f *testing.F) {
	contract, err := parseABI(json.RawMessage(`["event Transfer(address indexed from, address indexed to, uint256 value)","event Note(string,bytes[]) anonymous"]`))
	if err != nil {
		f.Fatal(err)
	}
	fuzzAnswer(f, "GET_EVM_LOGS", []string{`[` + cannedLog() + `]`, `[]`}, func(data []byte) (any, bool) {
		var logs *[]chainLog
		if json.Unmarshal(data, &logs) != nil || logs == nil {
			return nil, false
		}
		for i := range *logs {
			if (logFilter{from: "0x0", to: "latest"}).check(&(*logs)[i]) != nil {
				return nil, false
			}
			(*logs)[i].decode(contract)
		}
		return map[string]any{"logs": *logs, "count": len(*logs)}, true
	})
}

func FuzzBlockAnswer(f *testing.F) {
	fuzzAnswer(f, "GET_EVM_BLOCK", []string{cannedBlock(`[]`), cannedBlock(`[` + cannedTransaction(someHash, 0) + `]`), cannedBlock(`["` + someHash + `"]`)}, func(data []byte) (any, bool) {
		for _, whole := range []bool{true, false} {
			output := blockOutput{Found: true, Transactions: []rpcTransaction{}}
			if json.Unmarshal(data, &output.Block) == nil && output.Block != nil && output.Block.check("latest") == nil && output.list(whole, true) == nil {
				return output, true
			}
		}
		return nil, false
	})
}

func FuzzTransactionAnswer(f *testing.F) {
	seven := strings.Replace(cannedTransaction(someHash, 0), `"v":`, `"authorizationList":[{"chainId":"0x1","address":"`+account+`","nonce":"0x1","yParity":"0x0","r":"0x1","s":"0x2"}],"blobVersionedHashes":["`+someHash+`"],"v":`, 1)
	fuzzAnswer(f, "GET_EVM_TRANSACTION", []string{cannedTransaction(someHash, 0), seven}, func(data []byte) (any, bool) {
		var tx *rpcTransaction
		ok := json.Unmarshal(data, &tx) == nil && tx != nil
		return map[string]any{"found": true, "mined": true, "transaction": tx}, ok
	})
}

func FuzzReceiptAnswer(f *testing.F) {
	withLog := strings.Replace(cannedReceipt(someHash), `"logs":[]`, `"logs":[`+cannedLog()+`]`, 1)
	fuzzAnswer(f, "GET_EVM_TRANSACTION_RECEIPT", []string{cannedReceipt(someHash), withLog}, func(data []byte) (any, bool) {
		var r *receipt
		if json.Unmarshal(data, &r) != nil || r == nil || r.check(common.HexToHash(someHash)) != nil {
			return nil, false
		}
		return map[string]any{"mined": true, "receipt": r, "status": r.status(), "blockNumber": r.BlockNumber}, true
	})
}

// FuzzENSAnswer decodes arbitrary responses of resolvers.
func FuzzENSAnswer(f *testing.F) {
	f.Add(common.FromHex("0x" + zeroWord[:62] + "20" + zeroWord[:62] + "20" + zeroWord[:24] + account[2:]))
	f.Add(common.FromHex("0x" + zeroWord[:62] + "20" + zeroWord))
	f.Add(common.FromHex("0x" + zeroWord[:24] + account[2:]))
	f.Fuzz(func(t *testing.T, data []byte) {
		n := &node{host: "node.example"}
		inner, err := wildcardAnswer(data)
		if err == nil && len(inner) > len(data) {
			t.Errorf("%x gave %x", data, inner)
		}
		for _, answer := range [][]byte{data, inner} {
			found, err := n.address(answer)
			if err == nil && common.BytesToAddress(answer[12:32]) != found {
				t.Errorf("%x was read as %s", answer, found)
			}
		}
	})
}

// FuzzTransactionsToSend parses arbitrary transactions from callers.
func FuzzTransactionsToSend(f *testing.F) {
	f.Add(common.FromHex(eip155))
	f.Add(common.FromHex("0x02f00107843b9aca0085098bca5a0082520894d8da6bf26964af9d7eed9e03e53415d37aa96045880de0b6b3a764000080c0"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, list, err := transactionItems(raw); err == nil {
			size := 0
			for _, item := range list {
				size += len(item)
			}
			if size > len(raw) {
				t.Errorf("%x has items of %d bytes", raw, size)
			}
		}
		_, _ = signedHash(raw)
	})
}
