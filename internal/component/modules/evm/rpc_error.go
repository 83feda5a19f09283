package evm

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/upstream"
	"github.com/weft-automation/weft/internal/platform/egress"
)

const codePruned = 4444 // the node has deleted the requested history (EIP-4444)

// rpcError is an error of JSON-RPC 2.0.
type rpcError struct {
	Code    int64
	Message string
	Data    json.RawMessage

	object bool // it is an object, as JSON-RPC requires
}

// empty reports whether the error has nothing by which it could be the error of a node.
func (e rpcError) empty() bool { return e.Code == 0 && e.Message == "" && len(e.Data) == 0 }

// UnmarshalJSON accepts what proxies in front of nodes write as an error: an object, also with a
// code that is a string, or only a string.
func (e *rpcError) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &e.Message) == nil {
		return nil
	}
	var read struct{ Code, Message, Data json.RawMessage }
	if json.Unmarshal(data, &read) != nil {
		e.Message = string(data)
		return nil
	}
	e.object = true
	e.Code, _ = strconv.ParseInt(strings.Trim(string(read.Code), `"`), 10, 64)
	if json.Unmarshal(read.Message, &e.Message) != nil {
		e.Message = string(read.Message)
	}
	e.Data = read.Data
	return nil
}

// failure converts a JSON-RPC error. It decodes the data of a revert.
func (n *node) failure(e rpcError, answer upstream.Answer) error {
	if data, ok := revertData(e); ok {
		return n.revertedBy(e, data)
	}
	failed := component.Permanent(component.CodeUpstream, "%s: %s (code %d)", n.host, e.Message, e.Code)
	failed.Retryable = e.temporary(answer.Status)
	failed.RetryAfter = egress.RetryAfter(answer.Header, time.Now())
	return failed.With(upstream.Details{
		Class: classRPC, Sent: egress.SentAnswered, UpstreamCode: e.Code, UpstreamMessage: component.Cut(e.Message, 4<<10), RetryAfter: answer.Header.Get("Retry-After"),
	})
}

// verdicts say which errors are worth a retry, for every method. The first match wins. Words come
// before codes, because nodes use the same code for different errors: -32005 is a rate limit at one
// provider, and a query for too many logs at another.
var verdicts = []struct {
	words *regexp.Regexp // in the message; nil: any
	codes []int64        // nil: any
	retry bool
}{
	// The request selects too much. The same request never succeeds.
	{words: regexp.MustCompile(`(?i)more than [0-9,]+ (results|logs|events)|exceeds? (the )?(max(imum)? results|limit of [0-9,]+)|response size|(block|log|eth_getlogs)s? range|[0-9,k]+ blocks? range|limited to an? [0-9,]+|too many (results|blocks|logs|topics)|reduc\w+ (your|the) (block )?range`)},
	// The transaction can't become valid.
	{words: regexp.MustCompile(`(?i)nonce too low|intrinsic gas too low|invalid sender|exceeds block gas limit|replacement transaction underpriced|oversized data|method not (found|available|supported)|not (implemented|supported)|does not exist/is not available`)},
	// The node has deleted the history or state. No words of an outage count, because "unavailable" is usual.
	{words: regexp.MustCompile(`(?i)\bprun(ed|ing)\b|missing trie node|(history|historical \w+|world state) (is )?(unavailable|not available)|no state available|state \S+ is not available|\barchive (node|data|state|access|request)s? (is |are )?(required|not )|(access to|requires?)( an)? archive`)},
	// A rate limit, under whatever code.
	{words: regexp.MustCompile(`(?i)rate[- ]?limit|too many requests|requests? (count|limit|rate)|requests? per (second|minute|day)|/(second|sec|s|minute|min) |over (the )?limit|limit (exceeded|reached)|throttl|quota|compute units|capacity`), retry: true},
	// An outage.
	{words: regexp.MustCompile(`(?i)unavailable|try again|timed? ?out|overload|no (available|healthy) |bad gateway`), retry: true},
	{codes: []int64{codePruned}},
	// Internal errors, unavailable resources and limits of JSON-RPC and EIP-1474, the generic
	// -32000, and the status 429 as a code.
	{codes: []int64{-32603, -32000, -32001, -32002, -32005, http.StatusTooManyRequests}, retry: true},
}

// temporary reports whether the error of a response with this status can be retried.
func (e rpcError) temporary(status int) bool {
	for _, v := range verdicts {
		if (v.words == nil || v.words.MatchString(e.Message)) && (v.codes == nil || slices.Contains(v.codes, e.Code)) {
			return v.retry
		}
	}
	return status != http.StatusOK && upstream.Temporary(status)
}

// revertData returns the data of a revert from any of the places where nodes put it. It returns
// false if the error is not a revert.
func revertData(e rpcError) (data []byte, ok bool) {
	var text string
	if json.Unmarshal(e.Data, &text) != nil {
		var nested struct {
			Data   string `json:"data"`
			Result string `json:"result"`
		}
		_ = json.Unmarshal(e.Data, &nested) // data in another form has no revert
		text = nested.Data + nested.Result
	}
	data, err := parseBytes(strings.TrimPrefix(text, "Reverted "))
	const reverted = 3 // error code of a revert
	if err == nil && (e.Code == reverted || len(data) >= 4 || strings.Contains(strings.ToLower(e.Message), "revert")) {
		return data, true
	}
	return nil, e.Code == reverted || strings.HasPrefix(strings.ToLower(e.Message), "execution reverted")
}

// rpcErrorOf returns the code and the message of an error that a node returned, including reverts.
// It returns false for any other error.
func rpcErrorOf(err error) (code int64, message string, ok bool) {
	failed, ok := errors.AsType[*component.Error](err)
	if !ok {
		return 0, "", false
	}
	var details struct {
		Class           string `json:"class"`
		UpstreamCode    int64  `json:"upstreamCode"`
		UpstreamMessage string `json:"upstreamMessage"`
	}
	ok = json.Unmarshal(failed.Details, &details) == nil && (details.Class == classRPC || details.Class == classRevert)
	return details.UpstreamCode, details.UpstreamMessage, ok
}
