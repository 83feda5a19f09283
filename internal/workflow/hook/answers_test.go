package hook

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/content"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/egress/egresstest"
)

// Every delivery is read, or rejected with an error that the sender can fix. No body becomes null
// unless it is empty.
func TestEveryBodyIsReadOrRejected(t *testing.T) {
	t.Parallel()
	for _, a := range egresstest.Answers(`{"id":7,"name":"caf` + "\u00e9" + `"}`) {
		if a.Cut || a.Fault == "br" || a.Limit == "65536" {
			continue // the server rejects these requests before the hook
		}
		input, err := inputOf(api.Verification{}, a.Header, a.Body)
		isJSON := content.IsJSON(a.Header.Get("Content-Type"))
		code := fault.Code("")
		switch {
		case a.Charset && a.Fault == "":
			code = fault.UnsupportedMediaType
		case len(a.Body) > maxBody || len(a.Text) > maxBody:
			code = fault.PayloadTooLarge
		case a.Fault != "", isJSON && a.Text != "" && !a.JSON:
			code = fault.InvalidInput
		}
		if (err != nil) != (code != "") || err != nil && fault.CodeOf(err) != code {
			t.Errorf("%s: %v; want %q", a.Name, err, code)
		}
		if err != nil || code != "" {
			continue
		}
		var got struct {
			Body     any
			Replaced []string
		}
		if err := json.Unmarshal(input, &got); err != nil {
			t.Fatal(err)
		}
		object, isObject := got.Body.(map[string]any)
		odd := strings.Contains(a.Text, `"odd"`)
		switch {
		case a.Text == "":
			if got.Body != nil {
				t.Errorf("%s: got %s", a.Name, input)
			}
		case isJSON, a.JSON && content.Media(a.Header.Get("Content-Type")) != "text/plain":
			if !isObject || object["name"] != "caf\u00e9" || odd != (len(got.Replaced) > 0) {
				t.Errorf("%s: got %s; want the document", a.Name, input)
			}
		case got.Body != a.Text || got.Replaced != nil:
			t.Errorf("%s: got %s; want the text", a.Name, input)
		}
	}
}
