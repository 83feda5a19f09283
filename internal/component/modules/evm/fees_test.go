package evm

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component"
)

// script is a node with a fixed result for each method.
type script map[string]string

func (s script) RoundTrip(r *http.Request) (*http.Response, error) {
	var asked request
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return nil, err
	}
	result, ok := s[asked.Method]
	if !ok {
		result, _ = canned(asked)
	}
	body := io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"result":` + result + `}`))
	return &http.Response{StatusCode: http.StatusOK, Body: body, Header: http.Header{}, Request: r}, nil
}

// FuzzFees runs GET_EVM_GAS_PRICE and BUILD_EVM_TRANSACTION with an arbitrary block, gas price, tip
// and estimate, one per line. The result can be encoded and signed, or it is a clean error.
func FuzzFees(f *testing.F) {
	legacy := strings.Replace(cannedBlock(`[]`), `"baseFeePerGas":"0x4a817c800",`, "", 1)
	oneLine := func(text string) string { return strings.ReplaceAll(text, "\n", "") }
	largest := `"0x` + strings.Repeat("f", 64) + `"`
	seeds := []string{
		oneLine(cannedBlock(`[]`)) + "\n" + `"0x4e3b29200"` + "\n" + `"0x3b9aca00"` + "\n" + `"0x5209"`, oneLine(legacy) + "\n" + `"0x1"`, "null",
		`{"number":"0x1","gasLimit":` + largest + `,"baseFeePerGas":` + largest + "}\n" + largest + "\n" + largest + "\n" + `"0x7fffffffffffffff"`,
		`{"number":"0x0","gasLimit":"0x0","baseFeePerGas":null}` + "\n" + `"0x0"`, `{"number":"0x1"}`, `{"number":"0x1","gasLimit":"0x1","baseFeePerGas":{}}`,
	}
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	does, err := parseMessage(account, account, "1", "0x1234")
	if err != nil {
		f.Fatal(err)
	}
	fits := fitting(f, "GET_EVM_GAS_PRICE")
	f.Fuzz(func(t *testing.T, data []byte) {
		answers := script{}
		lines := strings.Split(string(data), "\n")
		for i, method := range []string{"eth_getBlockByNumber", "eth_gasPrice", "eth_maxPriorityFeePerGas", "eth_estimateGas"} {
			if i < len(lines) {
				answers[method] = lines[i]
			}
		}
		n := &node{client: &http.Client{Transport: answers}, url: "http://node.example", host: "node.example"}
		built, err := n.complete(t.Context(), does, overrides{})
		own(t, data, err)
		if err == nil && built.check() == nil {
			if raw, err := built.unsigned(); err != nil || len(raw) == 0 {
				t.Errorf("%s: what was built cannot be signed: %v", data, err)
			}
			if _, err := component.Encode(built.object()); err != nil {
				t.Errorf("%s: what was built cannot be written: %v", data, err)
			}
		}
		latest, err := n.latest(t.Context())
		if own(t, data, err); err != nil {
			return
		}
		suggested, err := n.fees(t.Context(), latest)
		if own(t, data, err); err == nil {
			fits(t, data, suggested)
		}
	})
}

// own fails the test unless an error is caused by the node's response.
func own(t *testing.T, data []byte, err error) {
	t.Helper()
	if _, ok := errors.AsType[*component.Error](err); err != nil && !ok {
		t.Errorf("%s: an error of type %T: %v", data, err, err)
	}
}
