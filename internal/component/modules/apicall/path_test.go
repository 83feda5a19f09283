package apicall

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/upstream"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

func TestPathsAreDotted(t *testing.T) {
	for text, want := range map[string][]string{
		"a": {"a"}, "a.b": {"a", "b"}, "a.0.b": {"a", "0", "b"}, "a[0].b": {"a", "0", "b"}, "$": nil, "$.a": {"a"}, "$[1]": {"1"}, "[0][1]": {"0", "1"},
		`a["x.y"].z`: {"a", "x.y", "z"}, `['it is']`: {"it is"}, "$id": {"$id"}, ".a": {"a"}, "a-b.ü": {"a-b", "ü"}, `[""]`: {""},
	} {
		if got, err := parsePath(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q = %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", ".", "$.", "a.", "a..b", "a[", "a[x]", "a[-1]", "a[0", `a["x]`, "a[0]b", "[]"} {
		if got, err := parsePath(text); err == nil {
			t.Errorf("%q was read as %q", text, got)
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, seed := range []string{"a.b.0", `$["x"][0]`, "$", "a..", "[", `['`} {
		f.Add(seed, []byte(`{"a":{"b":[1,{"x":null}]}}`))
		f.Add(seed, []byte(` { "\u0061" : {"b" : [ "é\ud83d\ude42\"" , 1.50e3 ]}, "":[[0]] } `))
	}
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		steps, err := parsePath(path)
		if err != nil {
			return
		}
		if len(steps) > maxSteps {
			t.Errorf("%d steps", len(steps))
		}
		if strictjson.Check(body) != nil {
			return
		}
		want := walk(decode(t, body), steps)
		got := lookup(gjson.ParseBytes(body), steps)
		if want == nil && (!got.Exists() || got.Type == gjson.Null) {
			return
		}
		if !reflect.DeepEqual(decode(t, []byte(got.Raw)), want) {
			t.Errorf("%q: got %q, want %v", steps, got.Raw, want)
		}
	})
}

func decode(t *testing.T, text []byte) (value any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		t.Errorf("decode %q: %v", text, err)
	}
	return value
}

// walk is like lookup for a decoded value.
func walk(value any, steps []string) any {
	for _, step := range steps {
		switch node := value.(type) {
		case map[string]any:
			value = node[step]
		case []any:
			index, err := strconv.ParseUint(step, 10, 31)
			if err != nil || index >= uint64(len(node)) {
				return nil
			}
			value = node[index]
		default:
			return nil
		}
	}
	return value
}

// FuzzAnswer decodes an arbitrary body with an arbitrary content type. The result is an output that
// can be stored, or a clean error.
func FuzzAnswer(f *testing.F) {
	f.Add("application/json", []byte(`{"a":[1,"\u0000"]}`), "a.0")
	f.Add("text/plain", []byte("\xff\x00"), "")
	f.Add("x;;=", []byte(`"`), "$")
	f.Fuzz(func(t *testing.T, contentType string, body []byte, path string) {
		mapping := map[string]string{}
		if path != "" {
			mapping["m"] = path
		}
		result, err := render(upstream.Answer{Status: 200, Header: http.Header{"Content-Type": {contentType}}, Body: body}, mapping)
		if err != nil {
			if _, ok := err.(*component.Error); !ok {
				t.Errorf("error of type %T: %v", err, err)
			}
			return
		}
		if err := strictjson.Check(result.Output); err != nil {
			t.Errorf("output %q cannot be stored: %v", result.Output, err)
		}
	})
}
