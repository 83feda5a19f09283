package apicall

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
	"github.com/weft-automation/weft/internal/platform/egress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// loopback returns a guard that allows loopback, like `--allow-network`.
func loopback(t *testing.T) *egress.Guard {
	guard := egress.New(egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(guard.Close)
	return guard
}

// serve starts an upstream server and returns a bench that can connect to it.
func serve(t *testing.T, handler http.HandlerFunc) (*componenttest.Bench, string) {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return componenttest.New(t, Modules(loopback(t))...), server.URL
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

type object = map[string]any

func run(t *testing.T, bench *componenttest.Bench, input, config object) (object, *component.Error) {
	t.Helper()
	output, failed := bench.Run(t, "API_CALL", text(t, input), text(t, config))
	var members object
	if failed == nil {
		if err := json.Unmarshal(output, &members); err != nil {
			t.Fatal(err)
		}
	}
	return members, failed
}

func TestRequestMatchesTheCall(t *testing.T) {
	var got *http.Request
	var body []byte
	bench, address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	})
	for name, c := range map[string]struct {
		method, path string
		input        object
		wantURI      string
		wantBody     string
		wantHeader   map[string]string
	}{
		"get": {"GET", "/a?x=1", object{"query": object{"q": "a b&c", "n": 1.5, "t": true, "list": []any{"1", 2}, "none": nil}},
			"/a?x=1&list=1&list=2&n=1.5&q=a+b%26c&t=true", "", map[string]string{"Content-Type": "", "User-Agent": "Weft", "Idempotency-Key": ""}},
		"json": {"POST", "/b#part", object{"body": object{"big": json.Number("12345678901234567890.10")}},
			"/b", `{"big":12345678901234567890.10}`, map[string]string{"Content-Type": "application/json"}},
		"array": {"PUT", "/", object{"body": []any{}}, "/", `[]`, map[string]string{"Content-Type": "application/json", "Idempotency-Key": ""}},
		"text":  {"POST", "/", object{"body": "hi <you>"}, "/", `hi <you>`, map[string]string{"Content-Type": "text/plain; charset=utf-8"}},
		"own content type": {"PATCH", "/", object{"body": "<a/>", "headers": object{"content-type": "text/xml", "User-Agent": "mine"}},
			"/", `<a/>`, map[string]string{"Content-Type": "text/xml", "User-Agent": "mine"}},
		"form": {"POST", "/", object{"body": object{"a": "1 2", "b": []any{true, 3}}, "headers": object{"Content-Type": "application/x-www-form-urlencoded"}},
			"/", `a=1+2&b=true&b=3`, map[string]string{"Content-Type": "application/x-www-form-urlencoded"}},
		"own key": {"POST", "/", object{"headers": object{"idempotency-key": "k1"}}, "/", "", map[string]string{"Idempotency-Key": "k1"}},
		"delete":  {"DELETE", "/x", object{"body": nil}, "/x", "", map[string]string{"Content-Type": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, failed := run(t, bench, c.input, object{"apiUrl": address + c.path, "method": c.method}); failed != nil {
				t.Fatal(failed)
			}
			if got.Method != c.method || got.RequestURI != c.wantURI || string(body) != c.wantBody {
				t.Errorf("got %s %s %q, want %s %s %q", got.Method, got.RequestURI, body, c.method, c.wantURI, c.wantBody)
			}
			for name, want := range c.wantHeader {
				if value := got.Header.Get(name); value != want {
					t.Errorf("%s: %q, want %q", name, value, want)
				}
			}
		})
	}
}

func TestPostsCarryTheEffectKeyAsIdempotencyKey(t *testing.T) {
	var key string
	bench, address := serve(t, func(_ http.ResponseWriter, r *http.Request) { key = r.Header.Get("Idempotency-Key") })
	id := uuid.Must(uuid.NewV7())
	call := component.Call{EffectKey: id, Input: json.RawMessage(`{"headers":{}}`), Config: json.RawMessage(text(t, object{"apiUrl": address, "method": "POST"}))}
	if _, failed := bench.Look(t, "API_CALL", call); failed != nil || key != id.String() {
		t.Errorf("key %q, %v; want %s", key, failed, id)
	}
}

func TestBodyIsDecodedByContentType(t *testing.T) {
	var contentType, answer string
	bench, address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Add("X-Many", "1")
		w.Header().Add("X-Many", "2")
		io.WriteString(w, answer)
	})
	for name, c := range map[string]struct{ contentType, answer, body, encoding string }{
		"json":             {"application/json; charset=utf-8", `{"b":1e2, "a":[1.10]}`, `{"b":1e2,"a":[1.10]}`, "json"},
		"json suffix":      {"application/problem+json", `7`, `7`, "json"},
		"byte order mark":  {"application/json", "\xef\xbb\xbf[]", `[]`, "json"},
		"text":             {"text/html", `<p>&amp;</p>`, `"<p>&amp;</p>"`, "text"},
		"json as text":     {"text/plain", `{"a":1}`, `"{\"a\":1}"`, "text"},
		"binary":           {"image/png", "\x89PNG\x00\xff", `"iVBORwD/"`, "base64"},
		"text with NUL":    {"text/plain", "a\x00b", `"YQBi"`, "base64"},
		"empty":            {"application/json", "", `null`, "empty"},
		"broken json":      {"application/json", `{"a":`, `"{\"a\":"`, "text"},
		"duplicate keys":   {"application/json", `{"a":1,"a":2}`, `"{\"a\":1,\"a\":2}"`, "text"},
		"NUL in json":      {"application/json", `"\u0000"`, `"\"\\u0000\""`, "text"},
		"lone surrogate":   {"application/json", `"\ud800"`, `"\"\\ud800\""`, "text"},
		"number too large": {"application/json", `1e999999`, `"1e999999"`, "text"},
		"nested too deep":  {"application/json", strings.Repeat("[", 65) + strings.Repeat("]", 65), `"` + strings.Repeat("[", 65) + strings.Repeat("]", 65) + `"`, "text"},
	} {
		t.Run(name, func(t *testing.T) {
			contentType, answer = c.contentType, c.answer
			output, failed := bench.Run(t, "API_CALL", `{"headers":{}}`, text(t, object{"apiUrl": address, "method": "GET"}))
			if failed != nil {
				t.Fatal(failed)
			}
			var got struct {
				Status       int
				Headers      map[string]string
				Body         json.RawMessage
				BodyEncoding string
			}
			if err := json.Unmarshal(output, &got); err != nil {
				t.Fatal(err)
			}
			if string(got.Body) != c.body || got.BodyEncoding != c.encoding || got.Status != 200 || got.Headers["x-many"] != "1, 2" {
				t.Errorf("got %s", output)
			}
		})
	}
}

// Decoding must not write into the bytes that it gets: they are the call's.
func TestExpectStatusIsDecodedWithoutChangingTheConfig(t *testing.T) {
	const written = `{"expectStatus":["2xx",404]}`
	raw := json.RawMessage(written)
	if c, err := component.Decode[config](raw); err != nil || !slices.Equal(c.ExpectStatus, statuses{"2xx", "404"}) || string(raw) != written {
		t.Errorf("%v, %v; the config is now %s", c.ExpectStatus, err, raw)
	}
}

func TestStatusIsSuccessOrFailure(t *testing.T) {
	status := 200
	bench, address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
		if status != 204 && status != 304 {
			io.WriteString(w, "the reason")
		}
	})
	for _, c := range []struct {
		status    int
		expect    any
		fails     bool
		retryable bool
	}{
		{200, nil, false, false}, {204, nil, false, false}, {304, nil, false, false}, {400, nil, true, false}, {401, nil, true, false}, {404, nil, true, false}, {410, nil, true, false}, {600, nil, true, false},
		{408, nil, true, true}, {425, nil, true, true}, {429, nil, true, true}, {500, nil, true, true}, {503, nil, true, true}, {599, nil, true, true},
		{200, 200, false, false}, {201, 200, true, false}, {404, []any{200, 404}, false, false}, {404, 200, true, false}, {503, 503, false, false}, {500, 503, true, true}, {429, []any{200}, true, true},
		{200, 200.0, false, false}, {404, []any{"2xx", 404}, false, false}, {201, []any{"2xx", 404}, false, false}, {302, "2xx", true, false}, {418, "4xx", false, false}, {429, "4xx", false, false},
		{503, []any{"2xx", "4xx"}, true, true}, {500, "any", false, false}, {404, "404", false, false}, {200, "404", true, false},
	} {
		status = c.status
		config := object{"apiUrl": address, "method": "GET"}
		if c.expect != nil {
			config["expectStatus"] = c.expect
		}
		output, failed := run(t, bench, object{}, config)
		if !c.fails {
			if failed != nil || output["status"] != float64(c.status) {
				t.Errorf("%d, expected %v: %v, %v", c.status, c.expect, output, failed)
			}
			continue
		}
		if failed == nil || failed.Code != component.CodeUpstream || failed.Retryable != c.retryable {
			t.Errorf("%d, expected %v: %v, %v; want UPSTREAM_ERROR, retryable %v", c.status, c.expect, output, failed, c.retryable)
			continue
		}
		want := fmt.Sprintf(`{"class":"status","retryAfter":"7","sent":"answered","upstreamCode":%d,"upstreamMessage":"the reason"}`, c.status)
		if string(failed.Details) != want {
			t.Errorf("details %s, want %s", failed.Details, want)
		}
	}
}

func TestOutputMappingPicksValues(t *testing.T) {
	bench, address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"data":{"items":[{"id":"a","n":12345678901234567890.10},{"id":"b"}]},"odd.name":true,"status":"inner","$ref":"r","nil":null}`)
	})
	paths := map[string]string{
		"first": "data.items.0.id", "second": "$.data.items[1].id", "exact": "data.items.0.n", "odd": `["odd.name"]`, "inner": "status",
		"type": "headers.content-type", "viaBody": "body.data.items.1.id", "ref": "$ref", "nothing": "data.none.deeper", "beyond": "data.items.2", "nil": "nil", "whole": "$.data.items[1]",
	}
	output, failed := bench.Run(t, "API_CALL", `{"headers":{}}`, text(t, object{"apiUrl": address, "method": "GET", "outputMapping": paths}))
	if failed != nil {
		t.Fatal(failed)
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal(output, &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"first": `"a"`, "second": `"b"`, "exact": `12345678901234567890.10`, "odd": `true`, "inner": `"inner"`, "type": `"application/json"`,
		"viaBody": `"b"`, "ref": `"r"`, "nothing": `null`, "beyond": `null`, "nil": `null`, "whole": `{"id":"b"}`, "status": `200`,
	} {
		if string(got[name]) != want {
			t.Errorf("%s = %s, want %s", name, got[name], want)
		}
	}
}

func TestLargeAnswers(t *testing.T) {
	var sent atomic.Int64
	bench, address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		size, _ := strconv.Atoi(r.URL.Query().Get("size"))
		io.WriteString(w, `{"wanted":"here","rest":"`)
		for part := strings.Repeat("a", 1<<16); size > 0; size -= len(part) {
			if _, err := io.WriteString(w, part); err != nil {
				return
			}
			sent.Add(int64(len(part)))
		}
		io.WriteString(w, `"}`)
	})
	config := object{"apiUrl": address + "?size=2097152", "method": "GET"}
	if _, failed := run(t, bench, object{}, config); failed == nil || failed.Code != component.CodeOutputTooLarge {
		t.Errorf("2 MiB: %v, want OUTPUT_TOO_LARGE", failed)
	}
	config["outputMapping"] = object{"wanted": "wanted"}
	output, failed := run(t, bench, object{}, config)
	if failed != nil || output["wanted"] != "here" || output["body"] != nil || output["bodyEncoding"] != "omitted" {
		t.Errorf("2 MiB with a mapping: %v", failed)
	}
	sent.Store(0)
	config["apiUrl"] = address + "?size=104857600"
	if _, failed := run(t, bench, object{}, config); failed == nil || failed.Code != component.CodeUpstream || failed.Retryable || !strings.Contains(string(failed.Details), `"too_large"`) {
		t.Errorf("100 MiB: %v, want UPSTREAM_ERROR too_large", failed)
	}
	if sent.Load() > 50<<20 {
		t.Errorf("%d bytes were sent before the connection was cut", sent.Load())
	}
}

func TestInvalidCallIsRejected(t *testing.T) {
	bench := componenttest.New(t, Modules(loopback(t))...)
	good := object{"apiUrl": "http://127.0.0.1:1/", "method": "GET"}
	for _, c := range []struct{ input, config any }{
		{object{"headers": object{"Host": "x"}}, good}, {object{"headers": object{"content-LENGTH": "1"}}, good}, {object{"headers": object{"Proxy-Authorization": "x"}}, good},
		{object{"headers": object{"a b": "x"}}, good}, {object{"headers": object{"A": "x\r\nB: y"}}, good}, {object{"headers": object{"A": "\u0000"}}, good},
		{object{"headers": object{"A": 1}}, good}, {object{"headers": object{"A": "1", "a": "2"}}, good},
		{object{"headers": object{}, "query": object{"a": object{}}}, good}, {object{"headers": object{}, "query": object{"a": []any{[]any{}}}}, good},
		{object{"headers": object{"Content-Type": "application/x-www-form-urlencoded"}, "body": []any{}}, good},
		{object{"headers": object{}}, object{"method": "GET"}}, {object{"headers": object{}}, object{"apiUrl": "ftp://x/", "method": "GET"}},
		{object{"headers": object{}}, object{"apiUrl": "/relative", "method": "GET"}}, {object{"headers": object{}}, object{"apiUrl": "http://127.0.0.1/", "method": "get"}},
		{object{"headers": object{}}, object{"apiUrl": "http://127.0.0.1/", "method": "GET", "timeoutMs": 0}}, {object{"headers": object{}}, object{"apiUrl": "http://127.0.0.1/", "method": "GET", "expectStatus": 99}},
		{object{"headers": object{}}, object{"apiUrl": "http://127.0.0.1/", "method": "GET", "outputMapping": object{"status": "x"}}},
		{object{"headers": object{}}, object{"apiUrl": "http://127.0.0.1/", "method": "GET", "outputMapping": object{"a": "x..y"}}},
	} {
		if output, failed := bench.Run(t, "API_CALL", text(t, c.input), text(t, c.config)); failed == nil || failed.Code != component.CodeInvalidInput || failed.Retryable {
			t.Errorf("%v %v: %s, %v", c.input, c.config, output, failed)
		}
	}
}

func TestTheRepeatRuleDependsOnTheCall(t *testing.T) {
	entry, _ := componenttest.New(t, Modules(loopback(t))...).Registry.Lookup("API_CALL")
	for _, c := range []struct {
		method, headers string
		want            component.Repeat
	}{
		{"GET", `{}`, component.RepeatIdempotent}, {"PUT", `{}`, component.RepeatIdempotent}, {"DELETE", `{}`, component.RepeatIdempotent},
		{"POST", `{}`, component.RepeatUnsafe}, {"PATCH", `{}`, component.RepeatUnsafe}, {"POST", `{"idempotency-KEY":"k"}`, component.RepeatIdempotent},
		{"PATCH", `{"Idempotency-Key":"k"}`, component.RepeatIdempotent}, {"POST", `{"Idempotency-Key":" "}`, component.RepeatUnsafe}, {"POST", `7`, component.RepeatUnsafe},
	} {
		call := component.Call{Input: json.RawMessage(`{"headers":` + c.headers + `}`), Config: json.RawMessage(`{"apiUrl":"https://example.com","method":"` + c.method + `"}`)}
		if got := entry.RepeatFor(call); got != c.want {
			t.Errorf("%s with headers %s is %s, want %s", c.method, c.headers, got, c.want)
		}
	}
}
