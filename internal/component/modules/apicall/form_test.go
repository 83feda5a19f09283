package apicall

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component"
)

// answered starts an upstream that gives one answer, and returns a function that makes one call and
// counts the requests.
func answered(t *testing.T, answer func(http.ResponseWriter)) (call func(method string, mapping object) (object, *component.Error, int)) {
	requests := 0
	bench, address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		requests++
		answer(w)
	})
	return func(method string, mapping object) (object, *component.Error, int) {
		config := object{"apiUrl": address, "method": method, "expectStatus": []any{"2xx", "3xx", "4xx"}}
		if mapping != nil {
			config["outputMapping"] = mapping
		}
		requests = 0
		output, failed := run(t, bench, object{}, config)
		return output, failed, requests
	}
}

// wantUnusable checks that an answered call failed for good, and that its error says the status.
func wantUnusable(t *testing.T, failed *component.Error, code, part string) {
	t.Helper()
	var details struct{ Status int }
	if failed == nil || json.Unmarshal(failed.Details, &details) != nil || failed.Code != code || failed.Retryable || details.Status != 200 || !strings.Contains(failed.Message, part) {
		t.Errorf("got %v; want a permanent %s with the status and %q", failed, code, part)
	}
}

// unstorable are JSON values that RFC 8259 allows and Weft can't store.
var unstorable = map[string]struct{ value, reason string }{
	"half an emoji":       {`"cut \ud83d"`, "lone surrogate"},
	"NUL":                 {`"a\u0000b"`, "U+0000"},
	"broken UTF-8":        {"\"a\xffb\"", "UTF-8"},
	"duplicate name":      {`{"a":1,"a":2}`, "twice"},
	"number of 90 digits": {strings.Repeat("9", 90), "64 characters"},
	"huge exponent":       {`1e999999`, "too large"},
	"64 levels":           {strings.Repeat("[", 64) + strings.Repeat("]", 64), "deeper"},
	"100,001 values":      {"[" + strings.Repeat("0,", 100_000) + "0]", "100000 values"},
	"long name":           {`{"` + strings.Repeat("n", 1025) + `":1}`, "1024"},
}

func TestOnlySelectedValuesMustBeStorable(t *testing.T) {
	for name, c := range unstorable {
		t.Run(name, func(t *testing.T) {
			call := answered(t, func(w http.ResponseWriter) {
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, "\xef\xbb\xbf{\"data\":{\"id\":7,\"odd\":"+c.value+"}}")
			})
			for _, method := range []string{"GET", "POST", "PATCH"} {
				output, failed, requests := call(method, object{"id": "data.id"})
				if failed != nil || output["id"] != 7.0 || requests != 1 {
					t.Errorf("%s: id %v, %v, %d requests", method, output["id"], failed, requests)
				}
				for _, path := range []string{"data.odd", "data", "$"} {
					_, failed, _ = call(method, object{"id": "data.id", "odd": path})
					wantUnusable(t, failed, component.CodeUpstream, "/odd")
					if failed != nil && !strings.Contains(failed.Message, c.reason) {
						t.Errorf("%s does not say %q", failed.Message, c.reason)
					}
				}
				output, failed, _ = call(method, nil)
				if failed != nil || output["bodyEncoding"] == "json" {
					t.Errorf("%s without a mapping: %v as %v", method, failed, output["bodyEncoding"])
				}
			}
		})
	}
}

func TestTheLastOfTwoFieldsIsSelected(t *testing.T) {
	call := answered(t, func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":1,"id":{"n":2},"list":[1,2]}`)
	})
	output, failed, _ := call("GET", object{"n": "id.n", "first": "list.0"})
	if failed != nil || output["n"] != 2.0 || output["first"] != 1.0 {
		t.Errorf("%v, %v", output, failed)
	}
}

func TestAnAnsweredPOSTIsNotRepeatedBecauseOfItsAnswer(t *testing.T) {
	declare := func(w http.ResponseWriter, size int) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(size))
		w.WriteHeader(http.StatusOK)
	}
	for name, c := range map[string]struct {
		answer    func(http.ResponseWriter)
		code      string
		retryable bool // for methods other than POST and PATCH
	}{
		"not JSON": {func(w http.ResponseWriter) { io.WriteString(w, `{"id":`) }, component.CodeUpstream, false},
		"cut off": {func(w http.ResponseWriter) {
			declare(w, 100)
			io.WriteString(w, `{"id":7}`)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, component.CodeUnreadable, true},
		"declared too large": {func(w http.ResponseWriter) { declare(w, 6<<20); io.WriteString(w, "[") }, component.CodeUpstream, false},
		"too large": {func(w http.ResponseWriter) {
			for range 6 {
				io.WriteString(w, strings.Repeat(" ", 1<<20))
			}
		}, component.CodeUpstream, false},
		"another coding": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "br")
			io.WriteString(w, "\x0b\x02")
		}, component.CodeUpstream, false},
		"not gzip": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, `{"id":7,"state":"paid"}`)
		}, component.CodeUpstream, false},
		"selection too large": {func(w http.ResponseWriter) { io.WriteString(w, `{"id":"`+strings.Repeat("a", 1<<20)+`"}`) }, component.CodeOutputTooLarge, false},
	} {
		t.Run(name, func(t *testing.T) {
			call := answered(t, c.answer)
			for _, method := range []string{"POST", "PATCH", "PUT", "GET"} {
				_, failed, requests := call(method, object{"id": "id"})
				if requests != 1 {
					t.Errorf("%s: %d requests", method, requests)
				}
				if method == "PUT" || method == "GET" {
					if failed == nil || failed.Retryable != c.retryable {
						t.Errorf("%s: %v; want retryable %v", method, failed, c.retryable)
					}
					continue
				}
				wantUnusable(t, failed, c.code, "")
			}
		})
	}
}

func TestGzipAnswersAreDecoded(t *testing.T) {
	call := answered(t, func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(w)
		io.WriteString(packed, `{"id":7}`)
		packed.Close()
	})
	output, failed, _ := call("POST", object{"id": "id"})
	if failed != nil || output["id"] != 7.0 || output["bodyEncoding"] != "json" {
		t.Errorf("%v, %v", output, failed)
	}
}

// The status of a response counts, even if its body can't be read. But half of a response doesn't allow
// to send a POST again.
func TestABrokenBodyDoesNotHideTheStatus(t *testing.T) {
	call := answered(t, func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "100")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusServiceUnavailable)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	if _, failed, _ := call("GET", nil); failed == nil || !failed.Retryable || !strings.Contains(string(failed.Details), `"sent":"unknown","upstreamCode":503`) {
		t.Errorf("got %v", failed)
	}
	if _, failed, _ := call("POST", nil); failed == nil || failed.Code != component.CodeUnreadable || failed.Retryable || !strings.Contains(string(failed.Details), `"status":503`) {
		t.Errorf("got %v", failed)
	}
}
