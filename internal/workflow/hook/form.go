package hook

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"slices"
	"strings"

	"github.com/weft-automation/weft/internal/kit/fault"
)

// The media types of forms.
const (
	urlencoded    = "application/x-www-form-urlencoded"
	multipartForm = "multipart/form-data"
)

// maxFields limits the fields of a form. Repeated names count each time.
const maxFields = 1000

var errTooManyFields = fault.InvalidAt("/body", "must not have more than %d form fields", maxFields)

// field is a field of a form. Bytes that aren't characters of its charset are invalid UTF-8.
type field struct {
	name, value string
	empty       bool // a file input without a file
}

// readForm returns the fields of a form in their order. It returns INVALID_INPUT for too many
// fields, a file, or a multipart body that is not well-formed, and UNSUPPORTED_MEDIA_TYPE for an
// unsupported charset of a part.
func readForm(contentType, media string, body []byte) ([]field, error) {
	if media == multipartForm {
		return readMultipart(contentType, body)
	}
	var form []field
	for pair := range bytes.SplitSeq(body, []byte("&")) {
		if len(pair) == 0 {
			continue
		}
		if len(form) == maxFields {
			return nil, errTooManyFields
		}
		name, value, _ := bytes.Cut(pair, []byte("="))
		one, err := decoded(contentType, unescape(name), unescape(value))
		if err != nil {
			return nil, err
		}
		form = append(form, one)
	}
	return form, nil
}

// decoded returns a field with its octets decoded by the charset of a Content-Type.
func decoded(contentType string, name, value []byte) (f field, err error) {
	if name, err = decode(contentType, name); err != nil {
		return f, err
	}
	if value, err = decode(contentType, value); err != nil {
		return f, err
	}
	return field{name: string(name), value: string(value)}, nil
}

// unescape decodes a name or a value as the URL standard does: a percent sign without two
// hexadecimal digits stands for itself.
func unescape(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '+':
			out = append(out, ' ')
		case '%':
			octet, err := hex.DecodeString(string(text[i+1 : min(i+3, len(text))]))
			if err != nil || len(octet) != 1 {
				out = append(out, c)
				continue
			}
			out = append(out, octet[0])
			i += 2
		default:
			out = append(out, c)
		}
	}
	return out
}

// readMultipart returns the fields of a multipart form. A part without a charset has that of the
// form.
func readMultipart(contentType string, body []byte) ([]field, error) {
	_, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || parameters["boundary"] == "" {
		return nil, fault.InvalidAt("/body", "is a multipart form, whose Content-Type must name its boundary")
	}
	var form []field
	parts := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) && terminated(body, parameters["boundary"]) {
			return form, nil
		}
		if err != nil {
			return nil, errCutForm
		}
		if len(form) == maxFields {
			return nil, errTooManyFields
		}
		one, err := readPart(contentType, part)
		if err != nil {
			return nil, err
		}
		form = append(form, one)
	}
}

var errCutForm = fault.InvalidAt("/body", "is not a complete multipart form: a boundary or the headers of a part are missing")

// terminated reports whether a multipart body has its last boundary.
func terminated(body []byte, boundary string) bool {
	return bytes.Contains(body, []byte("--"+boundary+"--"))
}

func readPart(contentType string, part *multipart.Part) (field, error) {
	name := part.FormName()
	if name == "" {
		return field{}, fault.InvalidAt("/body", "is a multipart form with a part that has no name")
	}
	value, err := io.ReadAll(part)
	if err != nil {
		return field{}, errCutForm
	}
	_, disposition, _ := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	file, isFile := disposition["filename"]
	switch {
	case isFile && (file != "" || len(value) > 0):
		return field{}, fault.InvalidAt(child("/body", storableText(name)), "is a file, which a hook does not accept: send its content as text, or its address")
	case isFile:
		return field{name: name, empty: true}, nil
	}
	own := part.Header.Get("Content-Type")
	if _, parameters, _ := mime.ParseMediaType(own); parameters["charset"] == "" {
		own = contentType
	}
	text, err := decode(own, value)
	return field{name: name, value: string(text)}, err
}

// withForm returns the input with the object of a form as its body, or with the JSON in jsonField
// if the form has only this field.
func (i input) withForm(form []field, jsonField *string) (json.RawMessage, error) {
	if len(form) == 1 && jsonField != nil && form[0].name == *jsonField {
		if text := []byte(form[0].value); json.Valid(text) {
			return i.withJSON(text)
		}
		return nil, fault.InvalidAt(child("/body", *jsonField), "must be JSON, because it is the formField of the hook")
	}
	var names []string
	values := map[string][]string{}
	for _, f := range form {
		name, value := storableText(f.name), "null"
		if !f.empty {
			value = quote(storableText(f.value))
		}
		if at := child("/body", name); (name != f.name || storableText(f.value) != f.value) && !slices.Contains(i.replaced, at) {
			i.replaced = append(i.replaced, at)
		}
		if values[name] == nil {
			names = append(names, name)
		}
		values[name] = append(values[name], value)
	}
	var object bytes.Buffer
	for n, name := range names {
		value := values[name][0]
		if len(values[name]) > 1 {
			value = "[" + strings.Join(values[name], ",") + "]"
		}
		fmt.Fprintf(&object, "%c%s:%s", "{,"[min(n, 1)], quote(name), value)
	}
	if len(names) == 0 {
		object.WriteByte('{')
	}
	object.WriteByte('}')
	i.fields["body"] = json.RawMessage(object.Bytes())
	return i.encode()
}
