package evm

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
	"github.com/weft-automation/weft/internal/platform/egress/egresstest"
)

// A node's result is read whenever its answer is JSON, whatever type it declares. Every other answer
// is an UPSTREAM_ERROR that names no other limit.
func TestEveryAnswerOfANodeIsReadOrNamed(t *testing.T) {
	var current egresstest.Answer
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		current.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	bench := componenttest.New(t, modules(t)...)
	input := text(t, object{"jsonRpcUrl": server.URL, "tokenAddress": zeroAddress, "account": account})
	for _, a := range egresstest.Answers(`{"jsonrpc":"2.0","id":1,"result":"0x7"}`) {
		current, requests = a, 0
		output, failed := bench.Run(t, "GET_EVM_ACCOUNT_BALANCE", input, `{}`)
		read := a.Fault == "" && !a.Charset && a.JSON && a.Status == http.StatusOK
		switch {
		case requests != 1:
			t.Errorf("%s: %d requests", a.Name, requests)
		case read && (failed != nil || !strings.Contains(string(output), `"7"`)):
			t.Errorf("%s: got %s, %v; want the result", a.Name, output, failed)
		case !read && (failed == nil || failed.Code != component.CodeUpstream):
			t.Errorf("%s: got %s, %v; want UPSTREAM_ERROR", a.Name, output, failed)
		case failed != nil && slices.ContainsFunc([]string{"5242880", "65536"}, func(limit string) bool {
			return strings.Contains(failed.Message, limit) != (limit == a.Limit)
		}):
			t.Errorf("%s: got %s; want the limit %q", a.Name, failed.Message, a.Limit)
		}
	}
}
