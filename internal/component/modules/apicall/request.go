package apicall

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// targetOf returns the URL with the query parameters added and without the fragment.
func targetOf(apiURL string, query map[string]json.RawMessage) (*url.URL, error) {
	target, err := url.Parse(apiURL)
	if err != nil {
		return nil, invalid("apiUrl is not a valid URL")
	}
	target.Fragment, target.RawFragment = "", ""
	values, err := valuesOf("query", query)
	if err != nil {
		return nil, err
	}
	if len(values) > 0 {
		if target.RawQuery != "" {
			target.RawQuery += "&"
		}
		target.RawQuery += values.Encode()
	}
	return target, nil
}

// valuesOf converts fields to parameters. Arrays repeat their parameter; null is left out.
func valuesOf(field string, members map[string]json.RawMessage) (url.Values, error) {
	values := url.Values{}
	for name, raw := range members {
		items := []json.RawMessage{raw}
		if bytes.HasPrefix(raw, []byte("[")) {
			if err := json.Unmarshal(raw, &items); err != nil {
				return nil, invalid("%s cannot be read", field)
			}
		}
		for _, item := range items {
			text, ok := scalar(item)
			if !ok {
				return nil, invalid("%s: each value must be a string, a number, a boolean or an array of those", field)
			}
			if text != nil {
				values.Add(name, *text)
			}
		}
	}
	return values, nil
}

// scalar returns the content of a JSON string, any other scalar as written, or nil for null. For
// arrays and objects, ok is false.
func scalar(raw json.RawMessage) (text *string, ok bool) {
	switch {
	case len(raw) == 0 || raw[0] == '{' || raw[0] == '[':
		return nil, false
	case string(raw) == "null":
		return nil, true
	case raw[0] == '"':
		text = new(string)
		return text, json.Unmarshal(raw, text) == nil
	}
	return new(string(raw)), true
}

func headerOf(headers map[string]string) (http.Header, error) {
	header := http.Header{}
	for name, value := range headers {
		key := http.CanonicalHeaderKey(name)
		if _, twice := header[key]; twice {
			return nil, invalid("headers: %s is set twice", key)
		}
		header.Set(key, value)
	}
	if header.Get("User-Agent") == "" {
		header.Set("User-Agent", "Weft")
	}
	if header.Get("Accept") == "" {
		header.Set("Accept", "application/json, */*;q=0.5")
	}
	return header, nil
}

// binary is the type of bytes about which nothing else is known.
const binary = "application/octet-stream"

// bodyOf encodes the body according to its encoding, its type and the Content-Type header. If the header is
// missing, bodyOf sets it. boundary is that of forms with files, unless the header has one.
func bodyOf(input input, header http.Header, boundary string) ([]byte, error) {
	body := input.Body
	if len(body) == 0 || string(body) == "null" {
		return nil, nil
	}
	contentType := header.Get("Content-Type")
	otherwise := func(value string) {
		if contentType == "" {
			header.Set("Content-Type", value)
		}
	}
	if input.BodyEncoding == "base64" {
		otherwise(binary)
		return decodedOf(body)
	}
	if body[0] == '"' {
		var text string
		if err := json.Unmarshal(body, &text); err != nil {
			return nil, invalid("body cannot be read")
		}
		otherwise("text/plain; charset=utf-8")
		return []byte(text), nil
	}
	media, parameters, _ := mime.ParseMediaType(contentType)
	switch {
	case strings.EqualFold(media, "application/x-www-form-urlencoded"):
		return formOf(body)
	case strings.EqualFold(media, "multipart/form-data"):
		if parameters["boundary"] == "" {
			header.Set("Content-Type", media+"; boundary="+boundary)
		}
		return multipartOf(body, cmp.Or(parameters["boundary"], boundary))
	}
	otherwise("application/json")
	return body, nil
}

// decodedOf returns the bytes of a body in base64. Line ends in it are ignored.
func decodedOf(body json.RawMessage) ([]byte, error) {
	var text string
	if err := json.Unmarshal(body, &text); err != nil {
		return nil, invalid("body must be a string if bodyEncoding is base64")
	}
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, invalid("body is not standard base64 with padding, which bodyEncoding says")
	}
	return decoded, nil
}

func formOf(body json.RawMessage) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, invalid("body must be an object to be sent as a form")
	}
	values, err := valuesOf("body", members)
	return []byte(values.Encode()), err
}

// open are the headers whose values are never secret.
var open = map[string]bool{
	"accept": true, "accept-charset": true, "accept-datetime": true, "accept-language": true,
	"content-disposition": true, "content-encoding": true, "content-language": true, "content-location": true, "content-md5": true,
	"content-digest": true, "repr-digest": true, "digest": true, "want-digest": true, "content-type": true,
	"cache-control": true, "pragma": true, "date": true, "expires": true, "last-modified": true, "etag": true, "range": true,
	"if-match": true, "if-none-match": true, "if-modified-since": true, "if-unmodified-since": true, "if-range": true,
	"user-agent": true, "from": true, "origin": true, "via": true, "forwarded": true, "x-forwarded-for": true, "x-forwarded-host": true, "x-forwarded-proto": true,
	"prefer": true, "priority": true, "dnt": true, "save-data": true, "upgrade-insecure-requests": true, "max-forwards": true,
	"depth": true, "destination": true, "overwrite": true, "soapaction": true, "x-requested-with": true, "x-http-method-override": true,
	"traceparent": true, "tracestate": true, "request-id": true, "x-request-id": true, "correlation-id": true, "x-correlation-id": true,
	"idempotency-key": true, "x-idempotency-key": true, "x-amz-date": true, "x-amz-target": true, "x-ms-date": true,
}

// Open reports whether a header's value is not secret: common headers that are never secret, and
// version headers. All other headers can contain secrets.
func (*apiCall) Open(name string) bool {
	name = strings.ToLower(name)
	return open[name] || strings.HasSuffix(name, "-version")
}
