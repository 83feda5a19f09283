package apicall

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/platform/egress/egresstest"
)

// TestEveryAnswerIsReadOrNamed sends a POST to servers that answer in every way. The value that the
// mapping selects is read whenever the body is JSON. No failure is a null, names another limit, or
// causes a second request.
func TestEveryAnswerIsReadOrNamed(t *testing.T) {
	var current egresstest.Answer
	call := answered(t, func(w http.ResponseWriter) { current.ServeHTTP(w, nil) })
	count := 0
	for _, a := range egresstest.Answers(`{"id":7,"name":"caf` + "\u00e9" + `"}`) {
		current = a
		for _, mapping := range []object{nil, {"id": "id", "name": "name"}} {
			count++
			output, failed, requests := call("POST", mapping)
			if requests != 1 {
				t.Errorf("%s: %d requests", a.Name, requests)
			}
			if problem := problemOf(a, mapping != nil, output, failed); problem != "" {
				t.Errorf("%s, mapping %v: %s: got %.300v, %v %s", a.Name, mapping != nil, problem, output, failed, details(failed))
			}
		}
	}
	t.Logf("%d calls", count)
}

func details(failed *component.Error) string {
	if failed == nil {
		return ""
	}
	return string(failed.Details)
}

// problemOf returns what is wrong with the result of a POST, or "".
func problemOf(a egresstest.Answer, mapped bool, output object, failed *component.Error) string {
	unread := a.Fault != "" || mapped && (a.Charset || !a.JSON)
	switch {
	case a.Cut:
		if failed == nil || failed.Code != component.CodeUnreadable || failed.Retryable || failed.Sent() != "unknown" {
			return "want UPSTREAM_UNREADABLE, because half of a response doesn't say what happened"
		}
		return ""
	case a.Status == http.StatusServiceUnavailable:
		if failed == nil || !failed.Retryable || !strings.Contains(details(failed), `"upstreamCode":503`) {
			return "want a retryable failure with the status"
		}
		return ""
	case unread != (failed != nil):
		return "read although it can't be, or failed although it can be read"
	case failed != nil:
		return problemOfError(a, failed)
	case mapped && (output["id"] != 7.0 || output["name"] != "caf\u00e9"):
		return "want the selected values"
	case output["body"] == nil && a.Text != "" && len(a.Text) < component.MaxOutput:
		return "the body is lost"
	case output["body"] == nil && !mapped && output["bodyEncoding"] != encodingEmpty:
		return "an empty body without its encoding"
	case output["bodyEncoding"] == encodingText && output["body"] != a.Text:
		return "another text"
	}
	if body, ok := output["body"].(object); output["bodyEncoding"] == encodingJSON && (!ok || body["name"] != "caf\u00e9") {
		return "another document"
	}
	return ""
}

func problemOfError(a egresstest.Answer, failed *component.Error) string {
	var shown struct{ Status int }
	switch {
	case failed.Code != component.CodeUpstream || failed.Retryable:
		return "want a permanent UPSTREAM_ERROR"
	case json.Unmarshal(failed.Details, &shown) != nil || shown.Status != a.Status && a.Fault != "headers too large": // net/http drops the status
		return "want details.status"
	}
	for _, limit := range []string{"5242880", "65536", "1048576"} {
		if strings.Contains(failed.Message, limit) != (limit == a.Limit) {
			return "want the limit " + a.Limit
		}
	}
	return ""
}
