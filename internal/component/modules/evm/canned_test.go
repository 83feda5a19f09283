package evm

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/weft-automation/weft/internal/component"
)

// request is a JSON-RPC request.
type request struct {
	Method string
	Params []json.RawMessage
}

// text returns a string parameter, or "" for another type.
func (r request) text(i int) (text string) {
	if i < len(r.Params) {
		_ = json.Unmarshal(r.Params[i], &text)
	}
	return text
}

var (
	someHash  = "0x" + strings.Repeat("ab", 32)
	blockHash = "0x" + strings.Repeat("cd", 32)
)

const zeroWord = "0000000000000000000000000000000000000000000000000000000000000000"

// canned returns the responses of a working node, for which the example in each module's schema
// succeeds. A module that calls a new method needs an entry here.
func canned(r request) (result string, ok bool) {
	switch r.Method {
	case "eth_chainId", "eth_getBalance":
		return `"0x1"`, true
	case "eth_blockNumber":
		return `"0x121eac5"`, true
	case "eth_getTransactionCount":
		return `"0x7"`, true
	case "eth_gasPrice":
		return `"0x4e3b29200"`, true
	case "eth_maxPriorityFeePerGas":
		return `"0x3b9aca00"`, true
	case "eth_estimateGas":
		return `"0x5208"`, true
	case "eth_getBlockByNumber":
		return cannedBlock(`[]`), true
	case "eth_getTransactionByHash":
		return cannedTransaction(r.text(0), 0), true
	case "eth_getTransactionReceipt":
		return cannedReceipt(r.text(0)), true
	case "eth_getLogs":
		return `[` + cannedLog() + `]`, true
	case "eth_sendRawTransaction":
		return `"` + crypto.Keccak256Hash(common.FromHex(r.text(0))).Hex() + `"`, true
	case "eth_call":
		word := "0x" + zeroWord[:63]
		if strings.Contains(string(r.Params[0]), `"0x`+selectSupports) {
			return `"` + word + `0"`, true
		}
		return `"` + word + `1"`, true
	}
	return "", false
}

func cannedBlock(transactions string) string {
	return `{"number":"0x121eac0","hash":"` + blockHash + `","parentHash":"` + someHash + `","timestamp":"0x65a0c5f3","miner":"` + strings.ToLower(account) + `",
		"gasLimit":"0x1c9c380","gasUsed":"0xe4e1c0","baseFeePerGas":"0x4a817c800","difficulty":"0x0","extraData":"0x","mixHash":"` + someHash + `","stateRoot":"` + someHash + `",
		"transactionsRoot":"` + someHash + `","receiptsRoot":"` + someHash + `","size":"0x220","uncles":[],"withdrawals":[{"index":"0x1","validatorIndex":"0x2","address":"` + strings.ToLower(account) + `","amount":"0xf4240"}],
		"transactions":` + transactions + `}`
}

func cannedTransaction(hash string, index int) string {
	return fmt.Sprintf(`{"hash":%q,"type":"0x2","chainId":"0x1","nonce":"0x7","from":%q,"to":null,"value":"0xde0b6b3a7640000","gas":"0x5208","input":"0x","gasPrice":"0x4e3b29200",
		"maxFeePerGas":"0x98bca5a00","maxPriorityFeePerGas":"0x3b9aca00","accessList":[{"address":%q,"storageKeys":[%q]}],"v":"0x1","r":"0x1b","s":"0x2c","yParity":"0x1",
		"blockHash":%q,"blockNumber":"0x121eac0","transactionIndex":"0x%x"}`, hash, strings.ToLower(account), strings.ToLower(account), someHash, blockHash, index)
}

func cannedReceipt(hash string) string {
	return fmt.Sprintf(`{"transactionHash":%q,"transactionIndex":"0x0","blockHash":%q,"blockNumber":"0x121eac0","from":%q,"to":null,"contractAddress":%q,"type":"0x2","status":"0x1",
		"gasUsed":"0x5208","cumulativeGasUsed":"0x5208","effectiveGasPrice":"0x4e3b29200","logs":[]}`, hash, blockHash, strings.ToLower(account), strings.ToLower(account))
}

// cannedLog is a transfer that matches the example of GET_EVM_LOGS.
func cannedLog() string {
	return `{"address":"0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48","topics":["0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef","0x` + zeroWord[:63] + `1","0x` + zeroWord[:63] + `2"],
		"data":"0x` + zeroWord[:63] + `5","blockNumber":"0x121eac0","blockHash":"` + blockHash + `","transactionHash":"` + someHash + `","transactionIndex":"0x0","logIndex":"0x3","removed":false}`
}

// nodeQueries returns the modules that have a jsonRpcUrl, with their example inputs.
func nodeQueries(t *testing.T, list []component.Module) map[string]object {
	t.Helper()
	inputs := map[string]object{}
	for _, module := range list {
		d := module.Describe()
		var schema struct {
			Properties map[string]json.RawMessage
			Examples   []object
		}
		if err := json.Unmarshal(d.Input, &schema); err != nil {
			t.Fatalf("%s: %v", d.Module, err)
		}
		if schema.Properties["jsonRpcUrl"] == nil {
			continue
		}
		if len(schema.Examples) == 0 {
			t.Fatalf("%s has no example", d.Module)
		}
		inputs[d.Module] = schema.Examples[0]
	}
	if len(inputs) < 14 {
		t.Fatalf("only %d modules ask a node", len(inputs))
	}
	return inputs
}
