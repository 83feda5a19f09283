package hook

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
)

func zipped(t *testing.T, plain string) string {
	t.Helper()
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	if _, err := writer.Write([]byte(plain)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// inputOf returns the input of a run that a delivery starts.
func inputOf(v api.Verification, header http.Header, body []byte) (json.RawMessage, error) {
	return reading{verification: v}.runInput(Delivery{Header: header, Body: body})
}

func nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

func TestADeliveryIsAcceptedIfPartsOfItCannotBeStored(t *testing.T) {
	t.Parallel()
	const isJSON, isText = "application/json", "text/plain"
	long, many := strings.Repeat("n", 1025), "["+strings.Repeat("0,", 100_000)+"0]"
	for name, c := range map[string]struct {
		contentType, body, want string
		replaced                []string
	}{
		"storable":           {isJSON, `{"z": 1, "a": "é"}`, `{"z":1,"a":"é"}`, nil},
		"byte order mark":    {isJSON, "\xef\xbb\xbf{}", `{}`, nil},
		"half an emoji":      {isJSON, `{"z":1,"text":"cut \ud83d","ok":"\ud83d\ude00"}`, `{"z":1,"text":"cut ` + "\uFFFD" + `","ok":"\ud83d\ude00"}`, []string{"/body/text"}},
		"NUL":                {isJSON, `[0,"a\u0000b"]`, "[0,\"a\uFFFDb\"]", []string{"/body/1"}},
		"broken UTF-8":       {isJSON, "{\"a/b\":\"\xff\"}", "{\"a/b\":\"\uFFFD\"}", []string{"/body/a~1b"}},
		"in a name":          {isJSON, `{"a\ud83d":1}`, "{\"a\uFFFD\":1}", []string{"/body"}},
		"duplicate field":    {isJSON, `{"a":1,"b":2,"a":{"c":3}}`, `{"a":{"c":3},"b":2}`, []string{"/body/a"}},
		"long number":        {isJSON, `{"id":7,"n":` + strings.Repeat("9", 90) + `}`, "{\"id\":7,\"n\":\"\uFFFD\"}", []string{"/body/n"}},
		"63 levels":          {isJSON, nested(63), nested(63), nil},
		"65 levels":          {isJSON, nested(65), strings.Repeat("[", 63) + "\"\uFFFD\"" + strings.Repeat("]", 63), []string{"/body" + strings.Repeat("/0", 63)}},
		"a scalar":           {isJSON, `"\ud800"`, "\"\uFFFD\"", []string{"/body"}},
		"too many values":    {isJSON, many, `"` + many + `"`, []string{"/body"}},
		"long name":          {isJSON, `{"` + long + `":1}`, `"{\"` + long + `\":1}"`, []string{"/body"}},
		"text":               {isText, "a\x00\xffb", "\"a\uFFFD\uFFFDb\"", []string{"/body"}},
		"text/json":          {"text/json; charset", `{"a":1}`, `{"a":1}`, nil},
		"JSON in Latin 1":    {"application/json; charset=iso-8859-1", "[\"caf\xe9\"]", `["café"]`, nil},
		"XML in Latin 1":     {"text/xml; charset=iso-8859-1", "<a>caf\xe9</a>", `"<a>café</a>"`, nil},
		"invalid in charset": {"text/plain; charset=shift_jis", "a\xff", "\"a\uFFFD\"", []string{"/body"}},
	} {
		for _, coding := range []string{"", "gzip", "X-GZIP"} {
			header, body := http.Header{"Content-Type": {c.contentType}}, c.body
			if coding != "" {
				header.Set("Content-Encoding", coding)
				body = zipped(t, body)
			}
			raw, err := inputOf(api.Verification{}, header, []byte(body))
			var input struct {
				Body     json.RawMessage
				Replaced []string
			}
			if err != nil || json.Unmarshal(raw, &input) != nil || string(input.Body) != c.want || !slices.Equal(input.Replaced, c.replaced) {
				t.Errorf("%s %s: %.300s, %v; want %.300s with %v", name, coding, raw, err, c.want, c.replaced)
			}
		}
	}
}

func TestABodyThatIsNotWhatItsHeadersSayIsRejected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		contentType, coding, body string
		want                      fault.Code
	}{
		"broken JSON":       {"application/json", "", `{"a":`, fault.InvalidInput},
		"not gzip":          {"application/json", "gzip", `{"a":1,"state":"paid"}`, fault.InvalidInput},
		"cut gzip":          {"application/json", "gzip", zipped(t, `{"a":1}`)[:12], fault.InvalidInput},
		"large gzip":        {"text/plain", "gzip", zipped(t, strings.Repeat("a", maxBody+1)), fault.PayloadTooLarge},
		"large in UTF-8":    {"text/plain; charset=latin1", "", strings.Repeat("\xe9", maxBody), fault.PayloadTooLarge},
		"unsupported label": {"text/plain; charset=iso-2022-jp", "", "a", fault.UnsupportedMediaType},
	} {
		header := http.Header{"Content-Type": {c.contentType}}
		if c.coding != "" {
			header.Set("Content-Encoding", c.coding)
		}
		if raw, err := inputOf(api.Verification{}, header, []byte(c.body)); fault.CodeOf(err) != c.want {
			t.Errorf("%s: %.100s, %v; want %s", name, raw, err, c.want)
		}
	}
}

func TestReplacementsAreListedUpToALimit(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("n", 300)
	raw, err := inputOf(api.Verification{}, http.Header{"Content-Type": {"application/json"}}, []byte(`{"`+name+`":[`+strings.Repeat(`"\u0000",`, 1000)+`0]}`))
	var input struct{ Replaced []string }
	if err != nil || json.Unmarshal(raw, &input) != nil || len(input.Replaced) != maxReplaced || input.Replaced[0] != "/body/0" {
		t.Errorf("%d pointers, %v", len(input.Replaced), err)
	}
}
