package apicall

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/upstream"
	"github.com/weft-automation/weft/internal/kit/content"
	"github.com/weft-automation/weft/internal/kit/fault"
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
	body := newBody(answer)
	if len(body.text) > upstream.MaxAnswer {
		return component.Result{}, unread(answer, mapping, component.Permanent(component.CodeUpstream, "the response has more than %d bytes in UTF-8", upstream.MaxAnswer).
			With(upstream.Details{Class: egress.ClassTooLarge, Sent: answer.Sent, Status: answer.Status}))
	}
	headers := headerValue(answer.Header)
	output := map[string]any{"status": answer.Status, "headers": headers, "setCookies": cookies(answer.Header), "body": nil, "bodyEncoding": encodingOmitted}
	var selected component.Result
	if len(mapping) > 0 {
		values, err := selection(answer, newSource(answer.Status, headers, body), mapping)
		if err == nil {
			maps.Copy(output, values)
			selected, err = encode(answer, output)
		}
		if err != nil {
			return component.Result{}, withSelected(err, values)
		}
	}
	var failed error
	for _, form := range body.forms() {
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

// selection returns the values that the mapping selects and an output can hold. If there are others,
// the error is that of the first one.
func selection(answer upstream.Answer, from source, mapping map[string]string) (values map[string]any, first error) {
	values = make(map[string]any, len(mapping))
	for _, name := range slices.Sorted(maps.Keys(mapping)) {
		value, err := from.pick(mapping[name])
		if err != nil {
			reason := egress.ReasonMapping
			if err == upstream.ErrCharset {
				reason = egress.ReasonCharset
			}
			err = unusable(answer, reason, "outputMapping %s cannot be applied: %s", name, err)
		} else if _, err = encode(answer, map[string]any{name: value}); err == nil {
			values[name] = value
		}
		if first == nil {
			first = err
		}
	}
	return values, first
}

// maxKept is the maximum size of the details with the selected values: half of what details can have,
// because redacting a secret may lengthen them.
const maxKept = 8 << 10

// withSelected adds selected values to the details of an error, so that the ID of a payment isn't lost
// because the value next to it can't be stored. It leaves out values that details would alter.
func withSelected(err error, values map[string]any) error {
	var details map[string]any
	failed, ok := errors.AsType[*component.Error](err)
	if !ok || json.Unmarshal(failed.Details, &details) != nil {
		return err
	}
	kept := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		kept[name] = values[name]
		details["selected"] = kept
		if data, err := json.Marshal(details); err != nil || len(data) > maxKept || !component.FitDetails(data) {
			delete(kept, name)
		}
	}
	if len(kept) == 0 {
		return err
	}
	return failed.With(details)
}

// unread adds what the mapping selects from the status and the headers to the error of a response
// whose body can't be read.
func unread(answer upstream.Answer, mapping map[string]string, err error) error {
	if answer.Status == 0 || len(mapping) == 0 {
		return err
	}
	values, _ := selection(answer, newSource(answer.Status, headerValue(answer.Header), body{json: true, unknown: err}), mapping)
	return withSelected(err, values)
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
		return component.Result{}, unusable(answer, egress.ReasonStorage, "the output cannot be stored: %s", faultOf(err))
	}
	return result, nil
}

// faultOf returns the fault and the field of the output that has it. What is below the field is not
// named: those are the names that the server chose.
func faultOf(err error) string {
	failed, ok := errors.AsType[*fault.Error](err)
	if !ok || len(failed.Details) == 0 {
		return "it has an invalid value"
	}
	first := failed.Details[0]
	field, _, _ := strings.Cut(strings.TrimPrefix(first.Pointer, "/"), "/")
	if field == "" {
		return first.Message
	}
	return "/" + field + ": " + first.Message
}

// unusable returns the error for a response that arrived but has a form that the call can't use.
// It isn't retryable, because the server has processed the request.
func unusable(answer upstream.Answer, reason, format string, args ...any) *component.Error {
	return component.Permanent(component.CodeUpstream, format, args...).
		With(upstream.Details{Class: egress.ClassMalformed, Reason: reason, Sent: answer.Sent, Status: answer.Status})
}

func tooLarge(answer upstream.Answer, size int) *component.Error {
	return component.Permanent(component.CodeOutputTooLarge,
		"the output would have %d bytes or more; an output can have at most %d. Use outputMapping to select smaller parts of the response", size, component.MaxOutput).
		With(upstream.Details{Class: egress.ClassTooLarge, Sent: answer.Sent, Status: answer.Status})
}

// body is the body of a response.
type body struct {
	raw     []byte
	text    []byte // in UTF-8
	json    bool   // the Content-Type declares JSON
	unknown error  // why the character set can't be decoded
}

func newBody(answer upstream.Answer) body {
	contentType := answer.Header.Get("Content-Type")
	b := body{raw: answer.Body, json: content.IsJSON(contentType)}
	var err error
	if b.text, err = content.Text(contentType, answer.Body); err != nil {
		b.unknown = upstream.ErrCharset
	}
	return b
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

// forms returns the forms of the body, the best one first. JSON that can't be stored is returned as
// text.
func (b body) forms() (forms []bodyForm) {
	if b.json && json.Valid(b.text) {
		forms = append(forms, bodyForm{json.RawMessage(b.text), encodingJSON})
	}
	return append(forms, b.plain())
}

// plain returns the body as a string, or nil if it is empty.
func (b body) plain() bodyForm {
	switch {
	case b.unknown == nil && len(b.text) == 0:
		return bodyForm{nil, encodingEmpty}
	case b.unknown == nil && utf8.Valid(b.text) && !bytes.ContainsRune(b.text, 0):
		return bodyForm{string(b.text), encodingText}
	}
	return bodyForm{base64.StdEncoding.EncodeToString(b.raw), encodingBase64}
}

func headerValue(header http.Header) map[string]any {
	out := make(map[string]any, len(header))
	for name, values := range header {
		out[strings.ToLower(name)] = storable(strings.Join(values, ", "))
	}
	return out
}

// cookies returns the values of the Set-Cookie headers. Joined with commas, they couldn't be split
// again, because dates have commas.
func cookies(header http.Header) []string {
	out := []string{}
	for _, value := range header.Values("Set-Cookie") {
		out = append(out, storable(value))
	}
	return out
}

// storable returns the value of a header in a form that can be stored.
func storable(value string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(value, "\uFFFD"), "\x00", "")
}
