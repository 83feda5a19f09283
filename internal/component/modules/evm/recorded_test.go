package evm

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
)

// recording has the requests of viem and ethers to a node, its responses, and the outputs of the
// libraries. The script next to the file created it.
type recording struct {
	Name, Module string
	Input        object
	Output       object // nil if there was no output
	Revert       *struct {
		Name      string
		Arguments []string
	}
	Code, ReplacedBy  string
	Before, Exchanges []recorded
}

type recorded struct {
	Method string
	Params []any
	Result any
	Error  json.RawMessage
}

func recordings(t *testing.T) []recording {
	t.Helper()
	data, err := os.ReadFile("testdata/recorded.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []recording }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	return file.Cases
}

// question normalizes a request, because libraries encode the same request differently.
func question(t *testing.T, method string, params []any) string {
	t.Helper()
	params = slices.Clone(params)
	if len(params) > 1 && params[len(params)-1] == "latest" {
		params = params[:len(params)-1]
	}
	if len(params) > 0 && (method == "eth_call" || method == "eth_estimateGas") {
		asked, _ := params[0].(object)
		message := object{}
		for to, names := range map[string][]string{"to": {"to"}, "from": {"from"}, "value": {"value"}, "data": {"data", "input"}} {
			for _, name := range names {
				if value, ok := asked[name]; ok && !slices.Contains([]any{nil, zeroAddress, "0x0", "0x"}, value) {
					message[to] = value
				}
			}
		}
		params[0] = message
	}
	return key(t, method, params)
}

// replay starts a node that responds to these requests only.
func replay(t *testing.T, known func() []recorded) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked recorded
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &asked); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		want := question(t, asked.Method, asked.Params)
		for _, one := range known() {
			switch {
			case question(t, one.Method, one.Params) != want:
			case one.Error != nil:
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"error":%s}`, one.Error)
				return
			default:
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":%s}`, text(t, one.Result))
				return
			}
		}
		t.Errorf("neither viem nor ethers asked %s", want)
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"nobody asked this"}}`)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// For the same responses of a node, a module returns the same output as other implementations.
func TestResponsesDecodeAsInOtherImplementations(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, modules(t)...)
	for _, c := range recordings(t) {
		if c.ReplacedBy != "" {
			continue
		}
		input := maps.Clone(c.Input)
		input["jsonRpcUrl"] = replay(t, func() []recorded { return c.Exchanges })
		output, failed := bench.Run(t, c.Module, text(t, input), `{}`)
		what := c.Module + ", " + c.Name
		switch {
		case c.Output != nil:
			if failed != nil {
				t.Errorf("%s: %v", what, failed)
				continue
			}
			holds(t, what, c.Output, decoded(t, output))
		case c.Revert != nil:
			said := details(failed)
			for _, part := range c.Revert.Arguments {
				if !strings.Contains(strings.ToLower(said), strings.ToLower(part)) {
					t.Errorf("%s: %s does not say %s", what, said, part)
				}
			}
			kind := map[string]string{"Error": `"kind":"error"`, "Panic": `"kind":"panic"`}[c.Revert.Name]
			if kind == "" {
				kind = `"kind":"custom","name":"` + c.Revert.Name + `"`
			}
			if failed == nil || failed.Code != component.CodeUpstream || failed.Retryable || !strings.Contains(said, kind) {
				t.Errorf("%s: %v %s, want %s", what, failed, said, kind)
			}
		default:
			if failed == nil || failed.Code != c.Code {
				t.Errorf("%s: %s, %v; want %s", what, output, failed, c.Code)
			}
		}
	}
}

// holds fails the test unless an output has these fields. Of lists it compares only the length.
func holds(t *testing.T, what string, want, got object) {
	t.Helper()
	for name, value := range want {
		switch value := value.(type) {
		case object:
			inner, _ := got[name].(object)
			holds(t, what+"."+name, value, inner)
			continue
		case float64:
			if list, ok := got[name].([]any); ok {
				got[name] = float64(len(list))
			}
		}
		if got[name] != value {
			t.Errorf("%s.%s is %v, want %v", what, name, got[name], value)
		}
	}
}

func TestReplacementIsReportedAsInOtherImplementations(t *testing.T) {
	t.Parallel()
	found := 0
	for _, c := range recordings(t) {
		if c.ReplacedBy == "" {
			continue
		}
		found++
		var replaced atomic.Bool
		input := maps.Clone(c.Input)
		input["jsonRpcUrl"] = replay(t, func() []recorded {
			if replaced.Load() {
				return c.Exchanges
			}
			return c.Before
		})
		w := newWaiter(t, input)
		w.mustWait(t, "while it waits")
		replaced.Store(true)
		if failed := w.untilError(t); failed.Code != c.Code || !strings.Contains(details(failed), c.ReplacedBy) {
			t.Errorf("%s: %v %s, want %s by %s", c.Name, failed, details(failed), c.Code, c.ReplacedBy)
		}
	}
	if found == 0 {
		t.Error("there is no replacement case")
	}
}
