package apicall

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component"
)

func TestBodiesAreDecodedByTheirCharset(t *testing.T) {
	for name, c := range map[string]struct{ contentType, answer, body, encoding string }{
		"JSON in Latin 1": {"application/json; charset=iso-8859-1", "{\"name\":\"caf\xe9\"}", "", "json"},
		"JSON in UTF-16":  {"application/json; charset=utf-16le", "{\x00\"\x00n\x00a\x00m\x00e\x00\"\x00:\x00\"\x00c\x00a\x00f\x00\xe9\x00\"\x00}\x00", "", "json"},
		"text":            {"text/plain; charset=windows-1252", "caf\xe9", "café", "text"},
		"XML":             {"text/xml; charset=iso-8859-1", "<a>caf\xe9</a>", "<a>café</a>", "text"},
		"not guessed":     {"text/plain", "caf\xe9", "Y2Fm6Q==", "base64"},
		"invalid":         {"text/plain; charset=shift_jis", "a\xff", "Yf8=", "base64"},
		"not supported":   {"text/plain; charset=iso-2022-jp", "abc", "YWJj", "base64"},
	} {
		t.Run(name, func(t *testing.T) {
			call := answered(t, func(w http.ResponseWriter) {
				w.Header().Set("Content-Type", c.contentType)
				io.WriteString(w, c.answer)
			})
			output, failed, _ := call("GET", nil)
			if failed != nil || output["bodyEncoding"] != c.encoding || c.body != "" && output["body"] != c.body {
				t.Errorf("%v, %v", output, failed)
			}
			if c.encoding == "json" {
				if output, failed, _ = call("GET", object{"name": "name"}); failed != nil || output["name"] != "café" {
					t.Errorf("%v, %v", output, failed)
				}
			}
		})
	}
}

func TestACharacterThatDoesNotExistIsNeverReplaced(t *testing.T) {
	call := answered(t, func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json; charset=shift_jis")
		io.WriteString(w, "{\"id\":7,\"name\":\"a\xff\"}")
	})
	output, failed, _ := call("POST", object{"id": "id"})
	if failed != nil || output["id"] != 7.0 {
		t.Errorf("%v, %v", output, failed)
	}
	_, failed, _ = call("POST", object{"name": "name"})
	wantUnusable(t, failed, component.CodeUpstream, "/name: a string is not valid UTF-8")
}

func TestAnUnsupportedCharsetIsReportedWithoutItsName(t *testing.T) {
	call := answered(t, func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json; charset=ISO-2022-JP")
		io.WriteString(w, `{"id":7}`)
	})
	_, failed, _ := call("POST", object{"id": "id"})
	wantUnusable(t, failed, component.CodeUpstream, "character set of the response is not supported")
	if strings.Contains(failed.Message, "ISO") || !strings.Contains(string(failed.Details), `"reason":"charset"`) {
		t.Errorf("got %v %s", failed, failed.Details)
	}
}

func TestTheLimitAppliesAfterDecoding(t *testing.T) {
	call := answered(t, func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json; charset=iso-8859-1")
		io.WriteString(w, `{"id":7,"rest":"`+strings.Repeat("\x80", 2<<20)+`"}`)
	})
	_, failed, _ := call("POST", object{"id": "id"})
	wantUnusable(t, failed, component.CodeUpstream, "in UTF-8")
}
