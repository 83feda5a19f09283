package apicall

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"mime/multipart"
	"net/textproto"
	"strings"

	"github.com/weft-automation/weft/internal/component"
)

// part is a field or a file of a form.
type part struct {
	name, filename, contentType string // filename and contentType may be empty
	content                     []byte
	file                        bool
}

// multipartOf encodes an object as multipart/form-data (RFC 7578): its fields in the written order, then
// its files. An object with base64 is a file.
func multipartOf(body json.RawMessage, boundary string) ([]byte, error) {
	parts, err := partsOf(body)
	if err != nil {
		return nil, err
	}
	var sent bytes.Buffer
	form := multipart.NewWriter(&sent)
	if err := form.SetBoundary(boundary); err != nil {
		return nil, invalid("headers: the boundary of Content-Type is invalid")
	}
	for _, files := range []bool{false, true} {
		for _, one := range parts {
			if one.file != files {
				continue
			}
			w, err := form.CreatePart(one.header())
			if err != nil {
				return nil, fmt.Errorf("encode a form: %w", err)
			}
			if _, err := w.Write(one.content); err != nil {
				return nil, fmt.Errorf("encode a form: %w", err)
			}
		}
	}
	if err := form.Close(); err != nil {
		return nil, fmt.Errorf("encode a form: %w", err)
	}
	return sent.Bytes(), nil
}

func (p part) header() textproto.MIMEHeader {
	disposition := `form-data; name="` + escaped(p.name) + `"`
	if p.filename != "" {
		disposition += `; filename="` + escaped(p.filename) + `"`
	}
	header := textproto.MIMEHeader{"Content-Disposition": {disposition}}
	if p.contentType != "" {
		header.Set("Content-Type", p.contentType)
	}
	return header
}

// escaped writes a name as browsers do.
func escaped(name string) string {
	return strings.NewReplacer(`"`, "%22", "\r", "%0D", "\n", "%0A").Replace(name)
}

// partsOf returns the parts of an object in the written order. Arrays repeat their field; null is left
// out.
func partsOf(body json.RawMessage) (parts []part, err error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return nil, invalid("body must be an object to be sent as a form")
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, invalid("body cannot be read")
		}
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return nil, invalid("body cannot be read")
		}
		items := []json.RawMessage{raw}
		if raw[0] == '[' {
			if err := json.Unmarshal(raw, &items); err != nil {
				return nil, invalid("body cannot be read")
			}
		}
		for _, item := range items {
			one, err := partOf(name.(string), item)
			if err != nil {
				return nil, err
			}
			if one != nil {
				parts = append(parts, *one)
			}
		}
	}
	return parts, nil
}

// partOf returns a part, or nil for null.
func partOf(name string, raw json.RawMessage) (*part, error) {
	if !plainName(name) {
		return nil, invalid("body: the name %q has a control character", name)
	}
	if raw[0] == '{' {
		return fileOf(name, raw)
	}
	text, ok := scalar(raw)
	switch {
	case !ok:
		return nil, invalid("body: %s must be a string, a number, a boolean, a file with base64, or an array of those", name)
	case text == nil:
		return nil, nil
	}
	return &part{name: name, content: []byte(*text)}, nil
}

// fileOf returns the part of an object with base64.
func fileOf(name string, raw json.RawMessage) (*part, error) {
	var file struct {
		Base64      *string `json:"base64"`
		Filename    string  `json:"filename"`
		ContentType string  `json:"contentType"`
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil || file.Base64 == nil {
		return nil, invalid("body: %s is an object, so it must be a file: base64, and perhaps filename and contentType, all of them strings", name)
	}
	content, err := base64.StdEncoding.DecodeString(*file.Base64)
	if err != nil {
		return nil, invalid("body: %s.base64 is not standard base64 with padding", name)
	}
	if !plainName(file.Filename) {
		return nil, invalid("body: %s.filename has a control character", name)
	}
	if file.ContentType == "" {
		file.ContentType = binary
	}
	if _, _, err := mime.ParseMediaType(file.ContentType); err != nil || !printable(file.ContentType) {
		return nil, invalid("body: %s.contentType is not a media type", name)
	}
	return &part{name: name, filename: file.Filename, contentType: file.ContentType, content: content, file: true}, nil
}

// plainName reports whether a name has no control characters, except for line ends, which are escaped.
func plainName(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return (r < ' ' || r == 0x7f) && r != '\r' && r != '\n' })
}

func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

func invalid(format string, args ...any) error {
	return component.Permanent(component.CodeInvalidInput, format, args...)
}
