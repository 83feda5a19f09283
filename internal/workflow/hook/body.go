package hook

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

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

// sensitiveParts are parts of header names whose values may be secrets or signatures.
var sensitiveParts = []string{"signature", "authorization", "cookie", "token", "secret", "password", "api-key", "apikey", "hmac"}

// runInput returns the input of a delivery's run: the body, and the headers by lower-case name.
// Headers with secrets or signatures are omitted. The input lists the parts of the body that were
// replaced because they can't be stored. A sender would otherwise repeat its delivery in vain.
//
// Errors: INVALID_INPUT for a body that is declared as JSON or gzip but isn't, PAYLOAD_TOO_LARGE,
// and UNSUPPORTED_MEDIA_TYPE for an unsupported character set.
func runInput(v api.Verification, header http.Header, body []byte) (json.RawMessage, error) {
	contentType := header.Get("Content-Type")
	text, err := decode(contentType, header.Get("Content-Encoding"), body)
	if err != nil {
		return nil, err
	}
	input := map[string]any{"headers": visibleHeaders(v, header), "body": nil}
	if len(text) > 0 && content.IsJSON(contentType) {
		if !json.Valid(text) {
			return nil, strictjson.Check(text)
		}
		input["body"] = json.RawMessage(text)
		if raw, err := encode(input); err == nil || !unstorable(err) {
			return raw, err
		}
		input["body"], input["replaced"] = repaired(text)
		if raw, err := encode(input); err == nil || !unstorable(err) {
			return raw, err
		}
		input["replaced"] = []string{"/body"} // too many values: the body becomes a string
	}
	if len(text) > 0 {
		plain := storableText(string(text))
		if input["body"] = plain; plain != string(text) {
			input["replaced"] = []string{"/body"}
		}
	}
	return encode(input)
}

// encode returns an input that can be stored.
func encode(input map[string]any) (json.RawMessage, error) {
	raw, err := strictjson.Encode(input)
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

// decode returns a body in UTF-8, without its content coding.
func decode(contentType, coding string, body []byte) ([]byte, error) {
	if len(body) > 0 && coding != "" && !strings.EqualFold(coding, "identity") {
		unzipped, err := gunzip(body)
		if err != nil {
			return nil, err
		}
		body = unzipped
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

func visibleHeaders(v api.Verification, header http.Header) map[string]string {
	headers := map[string]string{}
	for name, values := range header {
		lower := strings.ToLower(name)
		hidden := strings.EqualFold(name, v.Header) || slices.ContainsFunc(sensitiveParts, func(part string) bool { return strings.Contains(lower, part) })
		if value := strings.Join(values, ", "); !hidden && value == storableText(value) {
			headers[lower] = value
		}
	}
	return headers
}

// storableText replaces what PostgreSQL can't store in a string by U+FFFD: invalid UTF-8 and U+0000.
func storableText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

const (
	maxReplaced = 100 // pointers that an input lists
	maxPointer  = 256 // bytes of a pointer; beyond, the pointer of an ancestor is listed
)

// repair is a JSON value in which values that can't be stored are replaced by U+FFFD.
type repair struct {
	out      []byte
	replaced []string // JSON pointers into the input of the run
}

// repaired returns a storable form of a body, and the pointers to what it replaced. The result can
// still have too many values, or a name that is too long.
func repaired(body []byte) (json.RawMessage, []string) {
	r := repair{out: make([]byte, 0, len(body))}
	r.value("/body", 1, gjson.ParseBytes(body))
	return r.out, r.replaced
}

// value appends a value. depth is the number of objects and arrays around it.
func (r *repair) value(at string, depth int, v gjson.Result) {
	container := v.IsObject() || v.IsArray()
	switch {
	case !container && strictjson.Check([]byte(v.Raw)) == nil:
		r.out = append(r.out, v.Raw...)
	case v.Type == gjson.String:
		r.out = append(r.out, quoted(v.Raw)...)
		r.note(at)
	case !container || depth == strictjson.MaxDepth:
		r.out = append(r.out, "\"\uFFFD\""...)
		r.note(at)
	case v.IsObject():
		r.object(at, depth, v)
	default:
		r.out = append(r.out, '[')
		index := 0
		v.ForEach(func(_, item gjson.Result) bool {
			if index > 0 {
				r.out = append(r.out, ',')
			}
			r.value(child(at, fmt.Sprint(index)), depth+1, item)
			index++
			return true
		})
		r.out = append(r.out, ']')
	}
}

// object appends an object. Of fields with the same name, it keeps the last value, at the position of
// the first one.
func (r *repair) object(at string, depth int, v gjson.Result) {
	var names []string
	members := map[string]gjson.Result{}
	v.ForEach(func(name, member gjson.Result) bool {
		key := name.Raw
		if strictjson.Check([]byte(key)) != nil {
			key = quoted(key)
			r.note(at)
		}
		var plain string
		if json.Unmarshal([]byte(key), &plain) != nil {
			return true // quoted names always decode
		}
		if _, twice := members[plain]; twice {
			r.note(child(at, plain))
		} else {
			names = append(names, plain)
		}
		members[plain] = member
		return true
	})
	r.out = append(r.out, '{')
	for i, name := range names {
		if i > 0 {
			r.out = append(r.out, ',')
		}
		r.out = append(append(r.out, quote(name)...), ':')
		r.value(child(at, name), depth+1, members[name])
	}
	r.out = append(r.out, '}')
}

func (r *repair) note(at string) {
	if len(r.replaced) < maxReplaced {
		r.replaced = append(r.replaced, at)
	}
}

func child(at, step string) string {
	if next := at + "/" + fault.EscapeToken(step); len(next) <= maxPointer {
		return next
	}
	return at
}

// quoted returns a JSON string in a form that can be stored. Decoding replaces lone surrogates and
// invalid UTF-8 by U+FFFD.
func quoted(raw string) string {
	var text string
	_ = json.Unmarshal([]byte(raw), &text) // the string is part of valid JSON
	return quote(storableText(text))
}

func quote(text string) string {
	out, _ := strictjson.Encode(text) // strings always encode
	return string(out)
}
