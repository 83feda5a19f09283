package evm

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/component"
)

// The messages are those of providers and node programs.
func TestNodeErrorsThatARetryCanResolve(t *testing.T) {
	for _, c := range []struct {
		code    int64
		message string
		status  int
		retry   bool
	}{
		{-32005, "query returned more than 10000 results", 200, false},
		{-32005, "query returned more than 10000 results", 429, false},
		{-32000, "query returned more than 10000 results. Try with this block range [0x1, 0x2].", 200, false},
		{-32602, "Log response size exceeded. You can make eth_getLogs requests with up to a 2K block range", 200, false},
		{-32614, "eth_getLogs is limited to a 10,000 range", 200, false},
		{-32000, "exceed maximum block range: 5000", 200, false},
		{-32000, "block range is too wide", 200, false},
		{-32005, "query exceeds max results 20000, retry with the range 1-2", 200, false},
		{-32005, "logs matched by query exceeds limit of 10000", 200, false},

		{429, "Your app has exceeded its compute units per second capacity", 200, true},
		{429, "", 200, true},
		{-32007, "50/second request limit reached - reduce calls per second or upgrade your account", 200, true},
		{-32016, "over rate limit", 200, true},
		{-32090, "Too many requests, reason: call rate limit exhausted, retry in 10s", 200, true},
		{-32097, "rate limit exceeded", 200, true},
		{-32029, "Too Many Requests, Please apply an OnFinality API key or contact us to receive a higher rate limit", 200, true},
		{-32005, "daily request count exceeded, request rate limited", 200, true},
		{-32016, "The execution failed with exception", 200, false},
		{-32007, "", 200, false},

		{-32603, "internal error", 200, true},
		{-32000, "header not found", 200, true},
		{4444, "Pruned history unavailable", 200, false},
		{4444, "", 503, false},
		{-32000, "pruned history unavailable", 200, false},
		{-32000, "pruned history unavailable: requested 1, earliest available 2", 200, false},
		{-32000, "old data not available due to pruning: requested block 1", 200, false},
		{-32000, "historical state unavailable", 200, false},
		{-32000, "historical state 0x0123abcd is not available", 200, false},
		{-32000, "historical state is not available", 200, false},
		{-32000, "missing trie node 0123abcd (path ) state 0x0123abcd is not available, not found", 200, false},
		{-32000, "missing trie node", 200, false},
		{-32000, "World state unavailable", 200, false},
		{-32002, "No state available for block 0x1", 200, false},
		{-32001, "state at block #1 is pruned", 200, false},
		{-32000, "this request requires an archive node", 200, false},
		{-32002, "project ID does not have access to archive state", 200, false},
		{-32002, "resource unavailable", 200, true},
		{-32000, "archive nodes are overloaded, try again", 200, true},
		{-32098, "service temporarily unavailable", 200, true},
		{-32002, "request timed out", 200, true},
		{-32601, "the method eth_foo does not exist/is not available", 200, false},
		{-32000, "the method is not supported", 200, false},
		{-32000, "nonce too low: next nonce 10, tx nonce 9", 200, false},
		{-32000, "replacement transaction underpriced", 200, false},
		{-32000, "insufficient funds for gas * price + value", 200, true},
		{-32602, "invalid argument 0", 200, false},
		{1, "oops", 503, true},
		{1, "oops", 400, false},
	} {
		if got := (rpcError{Code: c.code, Message: c.message}).temporary(c.status); got != c.retry {
			t.Errorf("%d %q with status %d: %v", c.code, c.message, c.status, got)
		}
	}
}

// One table decides for every module.
func TestRateLimitsAreRetryableForEveryModule(t *testing.T) {
	t.Parallel()
	for module, input := range nodeQueries(t, modules(t)) {
		node := newBreaker(t, module, input)
		_, failed := node.run(t, 0, says(http.StatusOK, `{"jsonrpc":"2.0","id":1,"error":{"code":-32016,"message":"over rate limit"}}`), time.Minute)
		if failed == nil || !failed.Retryable {
			t.Errorf("%s: %v", module, failed)
		}
		_, failed = node.run(t, 0, says(http.StatusOK, `{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"query returned more than 10000 results"}}`), time.Minute)
		if failed == nil || failed.Code != component.CodeUpstream || failed.Retryable {
			t.Errorf("%s: %v", module, failed)
		}
	}
}

// What answers instead of a node is quoted in part, as API_CALL does.
func TestErrorBodyThatIsNotJSONRPCIsQuoted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status            int
		body, class, want string
	}{
		{401, `{"statusCode":401,"error":"Unauthorized","message":"no such key"}`, "status", `127.0.0.1:PORT answered 401 Unauthorized: {"statusCode":401,"error":"Unauthorized","message":"no such key"}`},
		{403, `{"error":{"reason":"the plan has ended"}}`, "status", `127.0.0.1:PORT answered 403 Forbidden: {"error":{"reason":"the plan has ended"}}`},
		{403, `{"error":true,"reason":"the plan has ended"}`, "status", `127.0.0.1:PORT answered 403 Forbidden: {"error":true,"reason":"the plan has ended"}`},
		{404, `<h1>no route</h1>`, "status", `127.0.0.1:PORT answered 404 Not Found: <h1>no route</h1>`},
		{200, `<h1>sign in</h1>`, "malformed", `127.0.0.1:PORT returned a malformed response to eth_chainId. The response starts with: <h1>sign in</h1>`},
		{200, `{"message":"no such key"}`, "malformed", `127.0.0.1:PORT returned a malformed response to eth_chainId: it is not a JSON-RPC 2.0 response to the request. The response starts with: {"message":"no such key"}`},
		{200, `{"error":{"reason":"the plan has ended"}}`, "malformed", `127.0.0.1:PORT returned a malformed response to eth_chainId: it is not a JSON-RPC 2.0 response to the request. The response starts with: {"error":{"reason":"the plan has ended"}}`},
		{200, `{"error":"no such key"}`, "rpc", `127.0.0.1:PORT: no such key (code 0)`},
		{400, `{"error":{"code":-32602,"message":"bad"}}`, "rpc", `127.0.0.1:PORT: bad (code -32602)`},
		{400, `{"jsonrpc":"2.0","id":1,"error":"bad"}`, "rpc", `127.0.0.1:PORT: bad (code 0)`},
	} {
		node := newBreaker(t, "GET_EVM_CHAIN_ID", object{})
		_, failed := node.run(t, 0, says(c.status, c.body), time.Minute)
		want := strings.Replace(c.want, "127.0.0.1:PORT", strings.TrimPrefix(node.URL, "http://"), 1)
		if failed == nil || failed.Message != want || !strings.Contains(details(failed), `"class":"`+c.class+`"`) {
			t.Errorf("%d %s: got %v %s, want %s", c.status, c.body, failed, details(failed), want)
		}
	}
}
