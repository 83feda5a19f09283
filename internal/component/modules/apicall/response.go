package apicall

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/upstream"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// Values of bodyEncoding.
const (
	encodingJSON    = "json"
	encodingText    = "text"
	encodingBase64  = "base64"
	encodingEmpty   = "empty"
	encodingOmitted = "omitted"
)

// render returns the output for a response. If the body is too large for an output, the output has
// only the mapped values.
func render(answer upstream.Answer, mapping map[string]string) (component.Result, error) {
	body, encoding, broken := bodyValue(answer)
	headers := headerValue(answer.Header)
	output := map[string]any{"status": answer.Status, "headers": headers, "body": body, "bodyEncoding": encoding}
	size := sizeOf(body)
	if len(mapping) == 0 {
		if size > component.MaxOutput {
			return component.Result{}, component.Permanent(component.CodeOutputTooLarge,
				"the response body has %d bytes; an output can have at most %d. Use outputMapping to select parts of it", size, component.MaxOutput)
		}
		return component.Encode(output)
	}
	if broken != nil {
		return component.Result{}, component.Permanent(component.CodeUpstream, "outputMapping cannot be applied because the response is not valid JSON: %s", broken)
	}
	from := source{status: answer.Status, headers: headers, body: body}
	if raw, ok := body.(json.RawMessage); ok {
		from.parsed = gjson.ParseBytes(raw)
	}
	for name, path := range mapping {
		steps, err := parsePath(path)
		if err != nil {
			return component.Result{}, component.Permanent(component.CodeInvalidInput, "outputMapping %s: %s", name, err)
		}
		output[name] = from.pick(steps)
	}
	if size <= component.MaxOutput {
		if result, err := component.Encode(output); err != nil || len(result.Output) <= component.MaxOutput {
			return result, err
		}
	}
	output["body"], output["bodyEncoding"] = nil, encodingOmitted
	return component.Encode(output)
}

// sizeOf returns the minimum size of a body in an output.
func sizeOf(body any) int {
	switch value := body.(type) {
	case json.RawMessage:
		return len(value)
	case string:
		return len(value)
	}
	return 0
}

// bodyValue returns the body as a value for the output. A JSON body that is invalid is returned as
// text, and problem is the reason.
func bodyValue(answer upstream.Answer) (value any, encoding string, problem error) {
	text := bytes.TrimPrefix(answer.Body, []byte("\xef\xbb\xbf"))
	if len(text) == 0 {
		return nil, encodingEmpty, nil
	}
	if isJSON(answer.Header.Get("Content-Type")) {
		if problem = strictjson.Check(text); problem == nil {
			return json.RawMessage(strictjson.Compact(text)), encodingJSON, nil
		}
	}
	if utf8.Valid(text) && !bytes.ContainsRune(text, 0) {
		return string(text), encodingText, problem
	}
	return base64.StdEncoding.EncodeToString(answer.Body), encodingBase64, problem
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil && media == "" {
		media, _, _ = strings.Cut(contentType, ";")
		media = strings.ToLower(strings.TrimSpace(media))
	}
	return media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json")
}

func headerValue(header http.Header) map[string]any {
	out := make(map[string]any, len(header))
	for name, values := range header {
		joined := strings.ToValidUTF8(strings.Join(values, ", "), "\uFFFD")
		out[strings.ToLower(name)] = strings.ReplaceAll(joined, "\x00", "")
	}
	return out
}
