package utility

import (
	"cmp"
	"errors"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/encoding"
)

// Schemas of fields that select an encoding. plainHex exists only for outputs, because hex inputs
// are accepted with and without 0x.
const (
	readable = `"enum": ["utf8", "hex", "base64", "base64url", "base58"]`
	writable = `"enum": ["utf8", "hex", "plainHex", "base64", "base64url", "base58"]`

	readWords  = "utf8 is the string as UTF-8, hex is pairs of hexadecimal digits with or without 0x, base64 is the standard alphabet with padding, base64url is the URL-safe alphabet with or without padding, base58 is the Bitcoin alphabet (at most 4096 bytes)."
	writeWords = "utf8 is text, hex is lower case with 0x, plainHex is lower case without 0x, base64 is the standard alphabet with padding, base64url is the URL-safe alphabet without padding, base58 is the Bitcoin alphabet (at most 4096 bytes)."
)

// decodeText decodes the string of a field. The field named option selects the encoding; "" means
// utf8. It returns INVALID_INPUT with the position of the problem if the string is invalid. Errors
// don't quote the string.
func decodeText(field, text, option, name string) ([]byte, error) {
	name = cmp.Or(name, "utf8")
	data, err := encoding.Decode(text, name)
	if wrong, ok := errors.AsType[*encoding.Malformed](err); ok {
		return nil, component.Permanent(component.CodeInvalidInput, "%s must be %s, because %s is %s; got %s", field, wrong.Want, option, name, wrong.Got)
	}
	if err != nil {
		return nil, component.Permanent(component.CodeInvalidInput, "%s must be utf8, hex, base64, base64url or base58", option)
	}
	return data, nil
}

// encodeText encodes bytes. The field named option selects the encoding. It returns INVALID_INPUT
// if the bytes can't be encoded; subject describes the bytes in the error.
func encodeText(subject string, data []byte, option, name string) (string, error) {
	text, err := encoding.Encode(data, name)
	switch {
	case errors.Is(err, encoding.ErrUnknown):
		return "", component.Permanent(component.CodeInvalidInput, "%s must be utf8, hex, plainHex, base64, base64url or base58", option)
	case err != nil:
		return "", component.Permanent(component.CodeInvalidInput, "%s cannot be encoded as %s, which %s requests: %s", subject, name, option, err)
	}
	return text, nil
}
