package evmtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// Request is a JSON-RPC request to a mock node.
type Request struct {
	Method  string
	Params  []json.RawMessage
	Earlier int // requests that the node received before
	Again   int // of them, those with the same method
}

// Kind is how one kind of node answers, which differs from the answers of a complete node. Play
// returns the status and the body. Both are zero if this kind of node answers as a complete node.
type Kind struct {
	Name string
	Play func(asked Request, complete string) (status int, body string)
}

// Mock starts a node of a kind. complete returns the result of a complete node.
func Mock(t testing.TB, kind Kind, complete func(method string, params []json.RawMessage) (result string, ok bool)) (url string) {
	t.Helper()
	var mutex sync.Mutex
	counts, all := map[string]int{}, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked Request
		if body, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(body, &asked) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mutex.Lock()
		asked.Earlier, asked.Again = all, counts[asked.Method]
		all++
		counts[asked.Method]++
		mutex.Unlock()
		result, ok := complete(asked.Method, asked.Params)
		if !ok {
			_, _ = io.WriteString(w, failure(-32601, "the method "+asked.Method+" does not exist/is not available"))
			return
		}
		status, body := kind.Play(asked, result)
		if body == "" && status == 0 {
			status, body = http.StatusOK, success(result)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func success(result string) string { return `{"jsonrpc":"2.0","id":1,"result":` + result + `}` }

func failure(code int, message string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":%q}}`, code, message)
}

// refuses returns an answer for one method.
func refuses(method, body string) func(Request, string) (int, string) {
	return func(asked Request, _ string) (int, string) {
		if asked.Method != method {
			return 0, ""
		}
		return http.StatusOK, body
	}
}

// limits returns a node that rejects the first call of each method because of its rate limit.
func limits(status, code int, message string) func(Request, string) (int, string) {
	return func(asked Request, _ string) (int, string) {
		if asked.Again > 0 {
			return 0, ""
		}
		return status, failure(code, message)
	}
}

// rewrites returns a node whose results have another form.
func rewrites(pattern, replacement string) func(Request, string) (int, string) {
	form := regexp.MustCompile(pattern)
	return func(_ Request, result string) (int, string) {
		return http.StatusOK, success(form.ReplaceAllString(result, replacement))
	}
}

const (
	suggest = "eth_maxPriorityFeePerGas"

	// Outage is how many requests a node rejects that is down for 20 seconds: a wait polls less often.
	Outage = 40
)

// Kinds are the kinds of nodes, by what sets their answers apart.
var Kinds = []Kind{
	{"complete", func(Request, string) (int, string) { return 0, "" }},

	{"lacks tips", refuses(suggest, failure(-32601, "Method not found"))},
	{"lacks tips, in other words", refuses(suggest, failure(-32000, "unsupported"))},
	{"crashes for tips", refuses(suggest, failure(-32603, "method handler crashed"))},

	{"limit 429", limits(http.StatusOK, 429, "Your app has exceeded its compute units per second capacity")},
	{"limit -32007", limits(http.StatusTooManyRequests, -32007, "50/second request limit reached")},
	{"limit -32016", limits(http.StatusOK, -32016, "over rate limit")},
	{"limit -32090", limits(http.StatusOK, -32090, "Too many requests, reason: call rate limit exhausted")},
	{"limit -32097", limits(http.StatusOK, -32097, "rate limit exceeded")},
	{"limit as a string", func(asked Request, _ string) (int, string) {
		if asked.Again > 0 {
			return 0, ""
		}
		return http.StatusOK, `{"jsonrpc":"2.0","id":1,"error":"Too Many Requests"}`
	}},

	{"limits results", refuses("eth_getLogs", failure(-32005, "query returned more than 10000 results"))},
	{"empty roots", rewrites(`"(stateRoot|receiptsRoot|mixHash|effectiveGasPrice|cumulativeGasUsed)":"0x[0-9a-f]+"`, `"$1":"0x"`)},
	{"no gas limit", rewrites(`"(gasLimit|difficulty|size)":"0x[0-9a-f]+",`, ``)},
	{"string ids", func(_ Request, result string) (int, string) {
		return http.StatusOK, strings.Replace(success(result), `"id":1`, `"id":"1"`, 1)
	}},
	{"no base fee", rewrites(`"baseFeePerGas":"0x[0-9a-f]+",`, ``)},
	{"a null error", func(_ Request, result string) (int, string) {
		return http.StatusOK, `{"jsonrpc":"2.0","id":1,"error":null,"result":` + result + `}`
	}},
	{"estimates at no block", func(asked Request, _ string) (int, string) {
		if asked.Method != "eth_estimateGas" || len(asked.Params) == 1 {
			return 0, ""
		}
		return http.StatusOK, failure(-32602, "too many arguments, want at most 1")
	}},
	{"outage", func(asked Request, _ string) (int, string) {
		if asked.Earlier >= Outage {
			return 0, ""
		}
		return http.StatusBadGateway, "<html>502 Bad Gateway</html>"
	}},
}
