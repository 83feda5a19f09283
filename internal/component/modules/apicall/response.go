package apicall

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/upstream"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/egress"
)

// Values of bodyEncoding.
const (
	encodingJSON    = "json"
	encodingText    = "text"
	encodingBase64  = "base64"
	encodingEmpty   = "empty"
	encodingOmitted = "omitted"
)

// render returns the output for a response. The selected values must be storable, but not what
// stands next to them in the response. With a mapping, a body that can't be stored is omitted.
func render(answer upstream.Answer, mapping map[string]string) (component.Result, error) {
	text := bytes.TrimPrefix(answer.Body, []byte("\xef\xbb\xbf"))
	headers := headerValue(answer.Header)
	output := map[string]any{"status": answer.Status, "headers": headers, "body": nil, "bodyEncoding": encodingOmitted}
	var selected component.Result
	if len(mapping) > 0 {
		from := newSource(answer, headers, text)
		for _, name := range slices.Sorted(maps.Keys(mapping)) {
			value, err := from.pick(mapping[name])
			if err != nil {
				return component.Result{}, unusable(answer, "outputMapping %s cannot be applied: %s", name, err)
			}
			output[name] = value
		}
		var err error
		if selected, err = encode(answer, output); err != nil {
			return component.Result{}, err
		}
	}
	var failed error
	for _, form := range bodyForms(answer, text) {
		output["body"], output["bodyEncoding"] = form.value, form.encoding
		if size := form.size(); size > component.MaxOutput {
			failed = tooLarge(answer, size)
			break
		}
		result, err := encode(answer, output)
		if err == nil {
			return result, nil
		}
		failed = err
	}
	if len(mapping) > 0 {
		return selected, nil
	}
	return component.Result{}, failed
}

// encode returns an output that can be stored. Otherwise its error names the field that can't.
func encode(answer upstream.Answer, output map[string]any) (component.Result, error) {
	result, err := component.Encode(output)
	if err != nil {
		return component.Result{}, err
	}
	if size := len(result.Output); size > component.MaxOutput {
		return component.Result{}, tooLarge(answer, size)
	}
	if err := strictjson.Check(result.Output); err != nil {
		return component.Result{}, unusable(answer, "the output cannot be stored: %s", err)
	}
	return result, nil
}

// unusable returns the error for a response that arrived but has a form that the call can't use.
// It isn't retryable, because the server has processed the request.
func unusable(answer upstream.Answer, format string, args ...any) *component.Error {
	return component.Permanent(component.CodeUpstream, format, args...).With(upstream.Details{Class: "malformed", Status: answer.Status})
}

func tooLarge(answer upstream.Answer, size int) *component.Error {
	return component.Permanent(component.CodeOutputTooLarge,
		"the output would have %d bytes or more; an output can have at most %d. Use outputMapping to select smaller parts of the response", size, component.MaxOutput).
		With(upstream.Details{Class: egress.ClassTooLarge, Status: answer.Status})
}

// bodyForm is one way to put a body into an output.
type bodyForm struct {
	value    any
	encoding string
}

// size returns the minimum size of the form in an output.
func (f bodyForm) size() int {
	switch value := f.value.(type) {
	case json.RawMessage:
		return len(strictjson.Compact(value))
	case string:
		return len(value)
	}
	return 0
}

// bodyForms returns the forms of a body, the best one first. JSON that can't be stored is returned
// as text.
func bodyForms(answer upstream.Answer, text []byte) (forms []bodyForm) {
	if len(text) == 0 {
		return []bodyForm{{nil, encodingEmpty}}
	}
	if isJSON(answer.Header.Get("Content-Type")) && json.Valid(text) {
		forms = append(forms, bodyForm{json.RawMessage(text), encodingJSON})
	}
	return append(forms, textForm(answer, text))
}

// textForm returns the body as a string.
func textForm(answer upstream.Answer, text []byte) bodyForm {
	if utf8.Valid(text) && !bytes.ContainsRune(text, 0) {
		return bodyForm{string(text), encodingText}
	}
	return bodyForm{base64.StdEncoding.EncodeToString(answer.Body), encodingBase64}
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
