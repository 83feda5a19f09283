package evm

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
	"github.com/weft-automation/weft/internal/platform/egress/egresstest"
)

// A JSON-RPC call is safe to repeat, so a response that can't be read is an outage. The error says how far
// the request got and what was wrong.
func TestFailuresOfANodeReportWhatWasSentAndWhatWasWrong(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		class, reason, sent string
		retryable           bool
	}{
		"nothing":              {"connection", "unanswered", "unknown", true},
		"half a status line":   {"connection", "not_http", "unknown", true},
		"cut headers":          {"connection", "cut_off", "unknown", true},
		"a header, no colon":   {"connection", "header", "unknown", true},
		"two lengths":          {"connection", "content_length", "unknown", true},
		"103, then the end":    {"connection", "cut_off", "unknown", true},
		"a cut body":           {"connection", "cut_off", "unknown", true},
		"a cut body, 503":      {"status", "", "unknown", true},
		"a broken chunk":       {"connection", "chunk", "unknown", true},
		"an unknown coding":    {"malformed", "content_encoding", "answered", false},
		"not gzip":             {"malformed", "gzip", "answered", false},
		"complete, 503":        {"status", "", "answered", true},
		"a bad location":       {"malformed", "location", "answered", true},
		"a redirect to itself": {"redirect", "", "answered", false},
	} {
		peer := egresstest.Answering(t, func(*http.Request) (string, bool) { return egresstest.Broken[name], false })
		failed := balanceAt(t, peer.URL)
		if failed == nil || failed.Code != component.CodeUpstream || failed.Retryable != want.retryable || strings.Contains(failed.Message, "canary") {
			t.Errorf("%s: %v", name, failed)
			continue
		}
		var shown struct{ Class, Reason, Sent string }
		if err := json.Unmarshal(failed.Details, &shown); err != nil || shown.Class != want.class || shown.Reason != want.reason || shown.Sent != want.sent {
			t.Errorf("%s: %s, want %+v", name, failed.Details, want)
		}
	}
	for name, c := range map[string]struct {
		text, reason string
		retryable    bool
	}{
		"closed":     {"", "handshake_closed", true},
		"plain HTTP": {"HTTP/1.1 400 canary\r\n\r\n", "plain_http", false},
	} {
		failed := balanceAt(t, egresstest.Greeting(t, c.text).URL)
		if failed == nil || failed.Retryable != c.retryable || failed.Sent() != "no" || !strings.Contains(string(failed.Details), `"`+c.reason+`"`) {
			t.Errorf("%s: %v", name, failed)
		}
	}
}

func balanceAt(t *testing.T, url string) *component.Error {
	t.Helper()
	_, failed := componenttest.New(t, modules(t)...).Run(t, "GET_EVM_ACCOUNT_BALANCE",
		text(t, object{"jsonRpcUrl": url, "tokenAddress": zeroAddress, "account": account}), `{}`)
	return failed
}

// A node that closes connections during the handshake, such as a restarting gateway, doesn't end a wait.
func TestAHandshakeThatTheNodeClosesDoesNotFailTheWait(t *testing.T) {
	t.Parallel()
	for name, record := range map[string]string{"closed": "", "internal_error": egresstest.Alert(80)} {
		w := newWaiter(t, object{"jsonRpcUrl": egresstest.Greeting(t, record).URL, "transactionHash": "0x" + strings.Repeat("ab", 32)})
		for range 3 {
			w.mustWait(t, name)
		}
	}
}
