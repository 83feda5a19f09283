// Package content interprets the body of an HTTP message by its Content-Type. It never guesses from
// the bytes of the body, and doesn't limit their number.
package content

import (
	"bytes"
	"fmt"
	"mime"
	"strings"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// mark is the byte order mark of UTF-8.
const mark = "\uFEFF"

// IsJSON reports whether a Content-Type declares JSON: application/json, text/json, or a type with
// the suffix +json, with any parameters.
func IsJSON(contentType string) bool {
	media := Media(contentType)
	return media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json")
}

// Media returns the media type of a Content-Type in lower case, without its parameters.
func Media(contentType string) string {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil && media == "" {
		media, _, _ = strings.Cut(contentType, ";")
		media = strings.ToLower(strings.TrimSpace(media))
	}
	return media
}

// UnknownCharset returns the charset of a Content-Type if it is not a label of an encoding, and
// otherwise "". Text doesn't convert such a body.
func UnknownCharset(contentType string) string {
	_, parameters, _ := mime.ParseMediaType(contentType)
	label := parameters["charset"]
	if encoding, _ := charset.Lookup(label); encoding != nil {
		return ""
	}
	return label
}

// Text returns a body in UTF-8, without a leading byte order mark. It converts the body if the
// charset of the Content-Type is a label of another encoding (WHATWG Encoding Standard), and returns
// an error for encodings that it doesn't support. An unknown charset has no effect. The
// result may share memory with the body.
//
// Bytes that aren't a character of the encoding stay invalid: the result then isn't valid UTF-8.
func Text(contentType string, body []byte) ([]byte, error) {
	_, parameters, _ := mime.ParseMediaType(contentType)
	encoding, name := charset.Lookup(parameters["charset"])
	switch {
	case name == "replacement" || strings.HasPrefix(name, "iso-2022"):
		// Browsers don't decode "replacement", because it hides characters from filters. ISO-2022
		// changes the meaning of ASCII bytes, quotation marks included.
		return nil, fmt.Errorf("the character set %q is not supported. Use UTF-8", parameters["charset"])
	case encoding == nil || name == "utf-8":
		return bytes.TrimPrefix(body, []byte(mark)), nil
	}
	text, _, err := transform.Bytes(unicode.BOMOverride(encoding.NewDecoder()), body)
	if err != nil {
		return nil, fmt.Errorf("decode the character set %q: %w", parameters["charset"], err)
	}
	// The decoder replaces invalid bytes by U+FFFD, which is not what the sender sent.
	return bytes.ReplaceAll(text, []byte("\uFFFD"), []byte{0xff}), nil
}
