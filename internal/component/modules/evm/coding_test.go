package evm

import (
	"compress/gzip"
	"io"
	"net/http"
	"testing"

	"github.com/weft-automation/weft/internal/component"
)

func TestNodesMayCompressTheirAnswers(t *testing.T) {
	answer := func(coding string, status int) (string, *component.Error) {
		output, failed := balanceFrom(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", coding)
			w.WriteHeader(status)
			packed := gzip.NewWriter(w)
			io.WriteString(packed, `{"jsonrpc":"2.0","id":1,"result":"0x7"}`)
			packed.Close()
		})
		return string(output), failed
	}
	if output, failed := answer("gzip", 200); failed != nil || output != `{"balance":"7"}` {
		t.Errorf("gzip: %s, %v", output, failed)
	}
	if _, failed := answer("br", 200); failed == nil || failed.Retryable || details(failed) != `{"class":"malformed","reason":"content_encoding","sent":"answered","status":200}` {
		t.Errorf("br: %v", failed)
	}
	if _, failed := answer("br", 429); failed == nil || !failed.Retryable || details(failed) != `{"class":"status","sent":"answered","upstreamCode":429}` {
		t.Errorf("429 in br: %v %s", failed, details(failed))
	}
}
