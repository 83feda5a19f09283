package hook

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// multipartBody returns a multipart form of these parts, each with its headers.
func multipartBody(parts ...string) string {
	var body strings.Builder
	for _, part := range parts {
		body.WriteString("--b\r\n" + part + "\r\n")
	}
	return body.String() + "--b--\r\n"
}

func part(disposition, value string) string {
	return "Content-Disposition: form-data; " + disposition + "\r\n\r\n" + value
}

func TestAFormBecomesAnObject(t *testing.T) {
	t.Parallel()
	const form, multi = "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"
	payload := api.Verification{FormField: new("payload")}
	for name, c := range map[string]struct {
		verification            api.Verification
		contentType, body, want string
		replaced                []string
	}{
		"fields":                  {api.Verification{}, form, "b=1&a=%20x+y&c", `{"b":"1","a":" x y","c":""}`, nil},
		"a repeated name":         {api.Verification{}, form, "a=1&b=2&a=3&a=", `{"a":["1","3",""],"b":"2"}`, nil},
		"names as they are":       {api.Verification{}, form, "a[]=1&a[b]=2&%C3%A4.b=3", `{"a[]":"1","a[b]":"2","ä.b":"3"}`, nil},
		"empty pairs":             {api.Verification{}, form, "&&a=1&", `{"a":"1"}`, nil},
		"an equals sign":          {api.Verification{}, form, "a=b=c&=d", `{"a":"b=c","":"d"}`, nil},
		"a broken escape":         {api.Verification{}, form, "a=100%&b=%zz%4", `{"a":"100%","b":"%zz%4"}`, nil},
		"in upper case":           {api.Verification{}, "Application/X-WWW-Form-Urlencoded; charset=UTF-8", "a=%C3%a9", `{"a":"é"}`, nil},
		"in Latin 1":              {api.Verification{}, form + "; charset=iso-8859-1", "caf%E9=\xe9", `{"café":"é"}`, nil},
		"in Shift JIS":            {api.Verification{}, form + "; charset=shift_jis", "a=%93%fa", `{"a":"日"}`, nil},
		"not storable":            {api.Verification{}, form, "a=%00&b=%ff&c%00=1", "{\"a\":\"\uFFFD\",\"b\":\"\uFFFD\",\"c\uFFFD\":\"1\"}", []string{"/body/a", "/body/b", "/body/c\uFFFD"}},
		"multipart":               {api.Verification{}, multi, multipartBody(part(`name="a"`, "1\r\n2"), part(`name="b"`, ""), part(`name="a"`, "3")), `{"a":["1\r\n2","3"],"b":""}`, nil},
		"multipart, no fields":    {api.Verification{}, multi, "--b--", `{}`, nil},
		"multipart, no file":      {api.Verification{}, multi, multipartBody(part(`name="f"; filename=""`, ""), part(`name="a"`, "1")), `{"f":null,"a":"1"}`, nil},
		"multipart in Latin 1":    {api.Verification{}, multi + "; charset=latin1", multipartBody(part(`name="a"`, "\xe9")), `{"a":"é"}`, nil},
		"a part in Latin 1":       {api.Verification{}, multi, multipartBody("Content-Type: text/plain; charset=latin1\r\n" + part(`name="a"`, "\xe9")), `{"a":"é"}`, nil},
		"a part of JSON":          {api.Verification{}, multi, multipartBody("Content-Type: application/json\r\n" + part(`name="a"`, `{"b":1}`)), `{"a":"{\"b\":1}"}`, nil},
		"JSON in a form":          {api.Verification{}, form, `{"a": [1]}`, `{"a":[1]}`, nil},
		"a payload":               {payload, form, "payload=%7B%22z%22%3A1%2C%22a%22%3A%22%2B%22%7D", `{"z":1,"a":"+"}`, nil},
		"a payload, multipart":    {payload, multi, multipartBody(part(`name="payload"`, `{"a":1}`)), `{"a":1}`, nil},
		"a payload, not storable": {payload, form, `payload={"a":"\ud83d"}`, "{\"a\":\"\uFFFD\"}", []string{"/body/a"}},
		"with another field":      {payload, form, `payload={}&a=1`, `{"payload":"{}","a":"1"}`, nil},
		"two payloads":            {payload, form, `payload={}&payload={}`, `{"payload":["{}","{}"]}`, nil},
		"no payload":              {payload, form, `command=%2Fweft`, `{"command":"/weft"}`, nil},
		"another name":            {api.Verification{}, form, `payload={}`, `{"payload":"{}"}`, nil},
		"1,000 fields":            {api.Verification{}, form, strings.Repeat("a=1&", 1000), `{"a":[` + strings.Repeat(`"1",`, 999) + `"1"]}`, nil},
	} {
		raw, err := inputOf(c.verification, http.Header{"Content-Type": {c.contentType}}, []byte(c.body))
		var got struct {
			Body     json.RawMessage
			Replaced []string
		}
		if err != nil || json.Unmarshal(raw, &got) != nil || string(got.Body) != c.want || !slices.Equal(got.Replaced, c.replaced) {
			t.Errorf("%s: %.300s, %v; want %.300s with %v", name, raw, err, c.want, c.replaced)
		}
	}
}

func TestAFormThatCannotBeReadIsRejectedByName(t *testing.T) {
	t.Parallel()
	const form, multi = "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"
	for name, c := range map[string]struct {
		contentType, body string
		code              fault.Code
		pointer, message  string
	}{
		"1,001 fields":                    {form, strings.Repeat("a=1&", 1001), fault.InvalidInput, "/body", "1000"},
		"1,001 parts":                     {multi, multipartBody(slices.Repeat([]string{part(`name="a"`, "1")}, 1001)...), fault.InvalidInput, "/body", "1000"},
		"a file":                          {multi, multipartBody(part(`name="a"`, "1"), part(`name="scan/1"; filename="x.pdf"`, "%PDF")), fault.InvalidInput, "/body/scan~11", "file"},
		"a file without a name":           {multi, multipartBody(part(`name="scan"; filename=""`, "%PDF")), fault.InvalidInput, "/body/scan", "file"},
		"a file with an encoded name":     {multi, multipartBody(part(`name="scan"; filename*=UTF-8''x.pdf`, "%PDF")), fault.InvalidInput, "/body/scan", "file"},
		"a part without a name":           {multi, multipartBody(part(`x="a"`, "1")), fault.InvalidInput, "/body", "name"},
		"no boundary":                     {"multipart/form-data", multipartBody(part(`name="a"`, "1")), fault.InvalidInput, "/body", "boundary"},
		"cut in a part":                   {multi, "--b\r\n" + part(`name="a"`, "1"), fault.InvalidInput, "/body", "complete"},
		"cut after a part":                {multi, "--b\r\n" + part(`name="a"`, "1") + "\r\n--b\r\n", fault.InvalidInput, "/body", "complete"},
		"no part":                         {multi, "a=1", fault.InvalidInput, "/body", "complete"},
		"a payload that is not JSON":      {form, "payload=%7Bx", fault.InvalidInput, "/body/payload", "JSON"},
		"an empty payload":                {form, "payload=", fault.InvalidInput, "/body/payload", "JSON"},
		"a payload without a file":        {multi, multipartBody(part(`name="payload"; filename=""`, "")), fault.InvalidInput, "/body/payload", "JSON"},
		"a long name":                     {form, strings.Repeat("n", 1025) + "=1", fault.InvalidInput, "", "longer"},
		"an unknown charset":              {form + "; charset=klingon", "a=1", fault.UnsupportedMediaType, "", "klingon"},
		"an unknown charset of a part":    {multi, multipartBody("Content-Type: text/plain; charset=klingon\r\n" + part(`name="a"`, "1")), fault.UnsupportedMediaType, "", "klingon"},
		"an unknown charset of text":      {"text/plain; charset=klingon", "a", fault.UnsupportedMediaType, "", "klingon"},
		"an unsupported charset":          {form + "; charset=iso-2022-jp", "a=1", fault.UnsupportedMediaType, "", "iso-2022-jp"},
		"an unsupported charset, escaped": {form + "; charset=hz-gb-2312", "a=%7E", fault.UnsupportedMediaType, "", "hz-gb-2312"},
	} {
		raw, err := inputOf(api.Verification{FormField: new("payload")}, http.Header{"Content-Type": {c.contentType}}, []byte(c.body))
		refused, _ := errors.AsType[*fault.Error](err)
		if refused == nil || refused.Code != c.code {
			t.Errorf("%s: %.200s, %v", name, raw, err)
			continue
		}
		text := refused.Message
		for _, detail := range refused.Details {
			if text += detail.Message; c.pointer != "" && detail.Pointer != c.pointer {
				t.Errorf("%s: the pointer is %s, want %s", name, detail.Pointer, c.pointer)
			}
		}
		if !strings.Contains(text, c.message) {
			t.Errorf("%s: %q does not contain %q", name, text, c.message)
		}
	}
}

// A body is JSON by its bytes if it is an object or an array, whatever its type says.
func TestAnObjectIsJSONWhateverItsType(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ contentType, body, want string }{
		{"", ` {"a":1}`, `{"a":1}`}, {"application/octet-stream", `[1]`, `[1]`}, {"text/html; charset=latin1", "[\"\xe9\"]", `["é"]`},
		{"text/plain", `{"a":1}`, `"{\"a\":1}"`}, {"text/plain; charset=utf-8", `[1]`, `"[1]"`},
		{"", `1`, `"1"`}, {"", `"a"`, `"\"a\""`}, {"", `{"a":`, `"{\"a\":"`}, {"", `a=1`, `"a=1"`}, {"application/x-yaml", "[1", `"[1"`},
	} {
		header := http.Header{}
		if c.contentType != "" {
			header.Set("Content-Type", c.contentType)
		}
		raw, err := inputOf(api.Verification{}, header, []byte(c.body))
		var got struct{ Body json.RawMessage }
		if err != nil || json.Unmarshal(raw, &got) != nil || string(got.Body) != c.want {
			t.Errorf("%s %s: %s, %v; want %s", c.contentType, c.body, raw, err, c.want)
		}
	}
}

func TestARunSeesTheQueryWithoutSecrets(t *testing.T) {
	t.Parallel()
	r := reading{secrets: []string{"correct-horse", "verify-me"}}
	for query, want := range map[string]string{
		"":                    `"query":{}`,
		"shop=berlin&n=1":     `"query":{"n":"1","shop":"berlin"}`,
		"a=1&a=2&b=":          `"query":{"a":["1","2"],"b":""}`,
		"hub.mode=x&hub=1":    `"query":{"hub":"1"}`,
		"key=correct-horse":   `"query":{}`,
		"k=verify-me&k=other": `"query":{"k":"other"}`,
		"a%00=%ff":            `"query":{"a` + "\uFFFD\":\"\uFFFD\"},\"replaced\":[\"/query/a\uFFFD\"]",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := r.runInput(Delivery{Query: values, Header: http.Header{"X-Key": {"correct-horse"}}})
		if err != nil || string(raw) != `{"body":null,"headers":{},`+want+`}` {
			t.Errorf("%s: %s, %v", query, raw, err)
		}
	}
}

func TestAHookListsMoreHeadersButNoCredentials(t *testing.T) {
	t.Parallel()
	v := api.Verification{Header: "X-Proof"}
	r := reading{verification: v, headers: []string{"x-gitlab-token", "X-Proof"}}
	raw, err := r.runInput(Delivery{Header: http.Header{"X-Gitlab-Token": {"a"}, "X-Secret-Id": {"b"}, "X-Proof": {"c"}}})
	if err != nil || string(raw) != `{"body":null,"headers":{"x-gitlab-token":"a"},"query":{}}` {
		t.Errorf("%s, %v", raw, err)
	}
	if err := checkHeaders([]string{"X-Gitlab-Token", "X-Event"}, v); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"Authorization", "proxy-authorization", "Cookie", "Set-Cookie", "X-Hub-Signature-256", "X-Shopify-Hmac-Sha256", "x-proof"} {
		refused, _ := errors.AsType[*fault.Error](checkHeaders([]string{"X-Event", name}, v))
		if refused == nil || refused.Details[0].Pointer != "/headers/1" {
			t.Errorf("%s: %v", name, refused)
		}
	}
}

// FuzzForm checks that a form produces an input, or an error of the sender.
func FuzzForm(f *testing.F) {
	f.Add("application/x-www-form-urlencoded", []byte("a=%ff&b+c=%"))
	f.Add("multipart/form-data; boundary=b", []byte(multipartBody(part(`name="a"`, "1"))))
	f.Add("multipart/form-data; boundary=b; charset=utf-16", []byte("--b\r\nContent-Disposition: form-data; name=a\r\n\r\n\xff--b--"))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		raw, err := inputOf(api.Verification{FormField: new("a")}, http.Header{"Content-Type": {contentType}}, body)
		if err != nil && fault.CodeOf(err) == fault.Internal || err == nil && !json.Valid(raw) {
			t.Errorf("%s, %v", raw, err)
		}
	})
}
