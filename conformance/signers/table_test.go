package signers_test

import (
	"strconv"
	"strings"
)

// The vectors are generated from this table.

// seed is the secret of the vectors, the bytes 0 to 31. No workspace uses it.
var seed = func() (seed [32]byte) {
	for i := range seed {
		seed[i] = byte(i)
	}
	return seed
}()

// epoch is the time of the vectors, 2026-11-21T10:40:00Z.
const epoch = 1_795_257_600

const id = "0192f3a4-5b6c-7d8e-9f01-23456789abcd"

// requests lists the requests to sign. A timestamp of 0 means epoch.
var requests = []struct {
	name, method, path string
	timestamp          int64
	body               string
	why                string
}{
	{"component", "POST", "/v1/sdk/components", 0, `{"module":"RANDOM_UUID","input":{},"config":{}}`, "The usual case."},
	{"get", "GET", "/v1/sdk/components/executions/" + id, 0, "", "No body: {} is signed, and not sent."},
	{"delete", "DELETE", "/v1/sdk/workflows/" + id, 0, "", "No body: {} is signed, and not sent."},
	{"put", "PUT", "/v1/sdk/workflows/executions/" + id + "/cancellation", 0, `{"reason":"operator"}`, "Another method."},
	{"post without a body", "POST", "/v1/sdk/workflows/" + id, 0, "", "A POST that sends no body, as a trigger may: {} is signed, and not sent."},
	{"post of an empty object", "POST", "/v1/sdk/workflows/" + id, 0, "{}", "The message and the signature of no body."},

	{"query", "GET", "/v1/sdk/components/executions?limit=20", 0, "", "The query is part of the path."},
	{"query of two", "GET", "/v1/sdk/components/executions?limit=100&cursor=eyJhIjoxfQ%3D%3D", 0, "", "Percent-encodings are signed as they are sent."},
	{"query in another order", "GET", "/v1/sdk/components/executions?cursor=eyJhIjoxfQ%3D%3D&limit=100", 0, "", "The query is not sorted."},
	{"query in small hexadecimal digits", "GET", "/v1/sdk/components/executions?cursor=eyJhIjoxfQ%3d%3d", 0, "", "%3d stays %3d."},
	{"query with a plus", "GET", "/v1/sdk/components/executions?nonce=a+b%2Bc%20d", 0, "", "Neither + nor %20 is made the other."},
	{"query beyond ASCII", "GET", "/v1/sdk/components/executions?nonce=%C3%A4%E6%BC%A2%F0%9F%98%80", 0, "", "Encoded as UTF-8, and signed encoded."},
	{"query with a slash", "GET", "/v1/sdk/components/executions?nonce=a/b?c:d@e!$'()*,;=~.-_", 0, "", "What need not be encoded is not."},
	{"query without a value", "GET", "/v1/sdk/components/executions?nonce=&limit=1", 0, "", "An empty value keeps its sign of equality."},
	{"query of a post", "POST", "/v1/sdk/components/executions/" + id + "/replay-callback?force=true", 0, "", "A query, and no body."},

	{"letters beyond ASCII", "POST", "/v1/sdk/components", 0, `{"module":"HASH","input":{"data":"é 漢 😀"},"config":{}}`, "UTF-8, unescaped: what JSON.stringify makes."},
	{"letters beyond ASCII, escaped", "POST", "/v1/sdk/components", 0, `{"module":"HASH","input":{"data":"\u00e9 \u6f22 \ud83d\ude00"},"config":{}}`, "The same value as json.dumps of Python writes it: other bytes, another signature."},
	{"escapes in capitals", "POST", "/v1/sdk/components", 0, `{"a":"\u00E9"}`, "Escapes are not made uniform."},
	{"letters that are composed", "POST", "/v1/sdk/components", 0, "{\"a\":\"e\u0301\"}", "Nothing is normalized: e and U+0301 stay two."},
	{"line separators", "POST", "/v1/sdk/components", 0, "{\"a\":\"\u2028\u2029\"}", "U+2028 and U+2029 stand as they are."},
	{"byte order mark in a string", "POST", "/v1/sdk/components", 0, "{\"a\":\"\ufeffb\"}", "U+FEFF in a string stays."},
	{"right to left", "POST", "/v1/sdk/components", 0, `{"مرحبا":"שלום"}`, "Keys beyond ASCII."},

	{"escapes", "POST", "/v1/sdk/components", 0, `{"a":"\"\\\b\f\n\r\t\u0001"}`, "The short escapes, and one of a control character."},
	{"escaped slash", "POST", "/v1/sdk/components", 0, `{"a":"\/"}`, "As PHP writes it; \\/ stays."},
	{"slash", "POST", "/v1/sdk/components", 0, `{"a":"/"}`, "As most write it."},
	{"HTML", "POST", "/v1/sdk/components", 0, `{"a":"<b>&'</b>"}`, "As they are."},
	{"HTML, escaped", "POST", "/v1/sdk/components", 0, `{"a":"\u003cb\u003e\u0026'\u003c/b\u003e"}`, "As encoding/json of Go writes it."},
	{"a bar in the body", "POST", "/v1/sdk/components", 0, `{"a":"|GET|/|0|{}"}`, "The body comes last, so a bar in it moves no border."},
	{"blanks in strings", "POST", "/v1/sdk/components", 0, `{"a  b":"  c \" d  "}`, "Blanks in strings are not between tokens."},

	{"floats", "POST", "/v1/sdk/components", 0, `{"a":1.0,"b":0.1,"c":-0.5,"d":100.50}`, "1.0 stays 1.0, and 100.50 its zero."},
	{"exponents", "POST", "/v1/sdk/components", 0, `{"a":1e3,"b":1E+21,"c":0.1e-7,"d":1e-7}`, "Exponents stay as they are written."},
	{"large integers", "POST", "/v1/sdk/components", 0, `{"a":9007199254740993,"b":18446744073709551616}`, "Beyond 2^53: a parser of doubles would write other digits."},
	{"minus zero", "POST", "/v1/sdk/components", 0, `{"a":-0,"b":-0.0}`, "The sign stays."},

	{"order of keys", "POST", "/v1/sdk/components", 0, `{"b":1,"a":2,"10":3,"9":4}`, "Keys are not sorted."},
	{"nested and empty", "POST", "/v1/sdk/components", 0, `{"a":[],"b":{},"c":[[1,2,{"d":null}],true,false]}`, "Every kind of value."},
	{"white space", "POST", "/v1/sdk/components", 0, "{\n  \"a\": [1, 2],\r\n\t\"b\": \" c \"\n}", "Signed as it is sent. The signature over the compact form is taken just as well."},
	{"line end", "POST", "/v1/sdk/components", 0, "{\"a\":1}\n", "A line end that is sent is signed."},

	{"timestamp of 9 digits", "GET", "/v1/sdk/components", 999_999_999, "", "As many digits as it takes, without leading zeros."},
	{"timestamp beyond 32 bits", "GET", "/v1/sdk/components", 4_294_967_296, "", "Seconds are not cut to 32 bits."},
	{"long body", "POST", "/v1/sdk/components", 0, `{"a":"` + strings.Repeat("0123456789abcdef", 128) + `"}`, "2 KiB: longer than one block of any hash."},
}

// altered lists signatures that must be rejected. Each is a changed signature of the request
// "component".
var altered = []struct {
	name   string
	change func(signature []byte, text string) string
	reason string
}{
	{"URL-safe alphabet", func(_ []byte, text string) string {
		return strings.NewReplacer("+", "-", "/", "_").Replace(text)
	}, "malformed_signature"},
	{"no padding", func(_ []byte, text string) string { return strings.TrimRight(text, "=") }, "malformed_signature"},
	{"hexadecimal digits", func(sig []byte, _ string) string { return hexOf(sig) }, "malformed_signature"},
	{"a line end", func(_ []byte, text string) string { return text[:64] + "\n" + text[64:] }, "malformed_signature"},
	{"63 bytes", func(sig []byte, _ string) string { return base64Of(sig[:63]) }, "malformed_signature"},
	{"one bit", func(sig []byte, _ string) string {
		sig[0] ^= 1
		return base64Of(sig)
	}, "invalid_credentials"},
	{"S not reduced", func(sig []byte, _ string) string { return base64Of(unreduced(sig)) }, "invalid_credentials"},
	{"all zero", func([]byte, string) string { return base64Of(make([]byte, 64)) }, "invalid_credentials"},
}

// misread lists messages that a faulty signer builds for a request. Their signatures must be
// rejected.
var misread = []struct{ name, request, message string }{
	{"path without query", "query", "GET|/v1/sdk/components/executions|1795257600|{}"},
	{"empty body as nothing", "query", "GET|/v1/sdk/components/executions?limit=20|1795257600|"},
	{"method in small letters", "query", "get|/v1/sdk/components/executions?limit=20|1795257600|{}"},
	{"timestamp in milliseconds", "query", "GET|/v1/sdk/components/executions?limit=20|1795257600000|{}"},
	{"blanks around the bars", "query", "GET | /v1/sdk/components/executions?limit=20 | 1795257600 | {}"},
	{"the body serialized again", "letters beyond ASCII", `POST|/v1/sdk/components|1795257600|{"module": "HASH", "input": {"data": "\u00e9 \u6f22 \ud83d\ude00"}, "config": {}}`},
	{"the body with its keys sorted", "letters beyond ASCII", `POST|/v1/sdk/components|1795257600|{"config":{},"input":{"data":"é 漢 😀"},"module":"HASH"}`},
}

// window lists timestamps, as seconds ahead of the server's clock or as a string, with the
// reason for which they are rejected, or "" if they are accepted.
var window = []struct {
	name, timestamp, reason string
}{
	{"31 seconds old", second(-31), "timestamp_expired"},
	{"30 seconds old", second(-30), ""},
	{"one second old", second(-1), ""},
	{"now", second(0), ""},
	{"one second ahead", second(1), "timestamp_in_future"},
	{"in milliseconds", second(0) + "000", "timestamp_in_future"},
	{"with a fraction", second(0) + ".0", "malformed_timestamp"},
	{"with a sign", "+" + second(0), "malformed_timestamp"},
	{"with a leading zero", "0" + second(0), "malformed_timestamp"},
	{"as RFC 3339", "2026-11-21T10:40:00Z", "malformed_timestamp"},
}

func second(delta int64) string { return strconv.FormatInt(epoch+delta, 10) }
