package evm

import (
	"net/http"
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
		{-32000, "missing trie node", 200, true},
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
