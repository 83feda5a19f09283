package hook

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/content"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

const (
	// maxBody limits a body after decoding. Before, the server limits it to the same size.
	maxBody = 1 << 20
	// maxInput limits the JSON of a run's input. JSON escapes can make the input longer than the body.
	maxInput = 2 << 20
)

// reading says how a hook reads deliveries.
type reading struct {
	verification api.Verification
	headers      []string // shown although their names suggest a secret
	secrets      []string // of the hook; no header or query parameter shows them
}

// runInput returns the input of a delivery's run: the body, the query, and the headers by lower-case
// name. Headers with secrets or signatures are omitted. The input lists the parts of the body and
// the query that were replaced because they can't be stored. A sender would otherwise repeat its
// delivery in vain.
//
// Errors: INVALID_INPUT for a body that is declared as JSON, a form or gzip but isn't,
// PAYLOAD_TOO_LARGE, and UNSUPPORTED_MEDIA_TYPE for an unsupported character set.
func (r reading) runInput(d Delivery) (json.RawMessage, error) {
	contentType := d.Header.Get("Content-Type")
	raw, err := unpacked(d.Header.Get("Content-Encoding"), d.Body)
	if err != nil {
		return nil, err
	}
	text, err := decode(contentType, raw)
	if err != nil {
		return nil, err
	}
	query, replaced := r.visibleQuery(d.Query)
	input := input{fields: map[string]any{"headers": r.visibleHeaders(d.Header), "query": query, "body": nil}, replaced: replaced}
	media := content.Media(contentType)
	switch {
	case len(text) == 0:
		return input.encode()
	case content.IsJSON(contentType):
		if !json.Valid(text) {
			return nil, strictjson.Check(text)
		}
		return input.withJSON(text)
	case media != "text/plain" && isContainer(text):
		return input.withJSON(text)
	case media == urlencoded || media == multipartForm:
		form, err := readForm(contentType, media, raw)
		if err != nil {
			return nil, err
		}
		return input.withForm(form, r.verification.FormField)
	}
	return input.withText(string(text))
}

// isContainer reports whether a body is a JSON object or array.
func isContainer(text []byte) bool {
	start := bytes.TrimLeft(text, " \t\r\n")
	return len(start) > 0 && (start[0] == '{' || start[0] == '[') && json.Valid(text)
}

// input is the input of a run, and the pointers to its parts that were replaced.
type input struct {
	fields   map[string]any
	replaced []string
}

// withJSON returns the input with a body of valid JSON.
func (i input) withJSON(text []byte) (json.RawMessage, error) {
	i.fields["body"] = json.RawMessage(text)
	if raw, err := i.encode(); err == nil || !unstorable(err) {
		return raw, err
	}
	whole := i.replaced
	var replaced []string
	i.fields["body"], replaced = repaired(text)
	i.replaced = slices.Concat(whole, replaced)
	if raw, err := i.encode(); err == nil || !unstorable(err) {
		return raw, err
	}
	i.replaced = append(whole, "/body") // too many values: the body becomes a string
	i.fields["body"] = storableText(string(text))
	return i.encode()
}

func (i input) withText(text string) (json.RawMessage, error) {
	plain := storableText(text)
	if i.fields["body"] = plain; plain != text {
		i.replaced = append(i.replaced, "/body")
	}
	return i.encode()
}

// encode returns an input that can be stored.
func (i input) encode() (json.RawMessage, error) {
	if len(i.replaced) > 0 {
		i.fields["replaced"] = i.replaced[:min(len(i.replaced), maxReplaced)]
	}
	raw, err := strictjson.Encode(i.fields)
	if err != nil {
		return nil, fmt.Errorf("encode a delivery: %w", err)
	}
	if len(raw) > maxInput {
		return nil, errTooLarge
	}
	return raw, strictjson.Check(raw)
}

var errTooLarge = &fault.Error{Code: fault.PayloadTooLarge, Message: "The body is too large for the input of a run."}

func unstorable(err error) bool { return fault.CodeOf(err) == fault.InvalidInput }

// unpacked returns a body without its content coding.
func unpacked(coding string, body []byte) ([]byte, error) {
	if len(body) > 0 && coding != "" && !strings.EqualFold(coding, "identity") {
		return gunzip(body)
	}
	return body, nil
}

// decode returns a body in UTF-8. JSON is UTF-8 by its specification, so an unknown charset has no effect
// there.
func decode(contentType string, body []byte) ([]byte, error) {
	if label := content.UnknownCharset(contentType); label != "" && !content.IsJSON(contentType) {
		return nil, &fault.Error{Code: fault.UnsupportedMediaType, Message: fmt.Sprintf("The character set %q is unknown. Use UTF-8.", label)}
	}
	text, err := content.Text(contentType, body)
	if err != nil {
		return nil, &fault.Error{Code: fault.UnsupportedMediaType, Message: err.Error() + "."}
	}
	if len(text) > maxBody {
		return nil, errTooLarge
	}
	return text, nil
}

// gunzip decodes a gzip body. The server rejects other codings (protocol.Packed).
func gunzip(body []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, errNotGzip
	}
	plain, err := io.ReadAll(io.LimitReader(reader, maxBody+1))
	if len(plain) > maxBody {
		return nil, errTooLarge
	}
	if err != nil {
		return nil, errNotGzip
	}
	return plain, nil
}

var errNotGzip = fault.Invalid("", "the body is not valid gzip, although its Content-Encoding is gzip")

// storableText replaces what PostgreSQL can't store in a string by U+FFFD: invalid UTF-8 and U+0000.
func storableText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
