package utility

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/weft-automation/weft/internal/component"
)

// Schemas of fields that select an encoding. plainHex exists only for outputs, because hex inputs
// are accepted with and without 0x.
const (
	readable = `"enum": ["utf8", "hex", "base64", "base64url", "base58"]`
	writable = `"enum": ["utf8", "hex", "plainHex", "base64", "base64url", "base58"]`

	readWords  = "utf8 is the string as UTF-8, hex is pairs of hexadecimal digits with or without 0x, base64 is the standard alphabet with padding, base64url is the URL-safe alphabet with or without padding, base58 is the Bitcoin alphabet (at most 4096 bytes)."
	writeWords = "utf8 is text, hex is lower case with 0x, plainHex is lower case without 0x, base64 is the standard alphabet with padding, base64url is the URL-safe alphabet without padding, base58 is the Bitcoin alphabet (at most 4096 bytes)."
)

// maxBase58 is the maximum number of bytes for base58, which unlike the other encodings takes
// quadratic time.
const maxBase58 = 4096

// encoding converts between bytes and strings.
type encoding struct {
	want     string // description of valid strings, for error messages
	alphabet string
	read     func(text string) ([]byte, error)
	write    func(data []byte) (string, error)
}

const (
	alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	bitcoin58    = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	go58         = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV" // of math/big
)

var encodings = map[string]encoding{
	"utf8": {
		read:  func(text string) ([]byte, error) { return []byte(text), nil },
		write: writeUTF8,
	},
	"hex": {
		want: "pairs of hexadecimal digits, with or without 0x", alphabet: "0123456789abcdefABCDEF",
		read:  func(text string) ([]byte, error) { return hex.DecodeString(strings.TrimPrefix(text, "0x")) },
		write: func(data []byte) (string, error) { return "0x" + hex.EncodeToString(data), nil },
	},
	"plainHex": {
		write: func(data []byte) (string, error) { return hex.EncodeToString(data), nil },
	},
	"base64": {
		want: "standard base64 with padding and without line breaks (RFC 4648, section 4)", alphabet: alphanumeric + "+/=",
		read:  base64.StdEncoding.Strict().DecodeString,
		write: func(data []byte) (string, error) { return base64.StdEncoding.EncodeToString(data), nil },
	},
	"base64url": {
		want: "URL-safe base64 without line breaks (RFC 4648, section 5)", alphabet: alphanumeric + "-_=",
		read:  readBase64URL,
		write: func(data []byte) (string, error) { return base64.RawURLEncoding.EncodeToString(data), nil },
	},
	"base58": {
		want: fmt.Sprintf("base58 of at most %d bytes in the Bitcoin alphabet", maxBase58), alphabet: bitcoin58,
		read: readBase58, write: writeBase58,
	},
}

// decodeText decodes the string of a field. The field named option selects the encoding; "" means
// utf8. It returns INVALID_INPUT with the position of the problem if the string is invalid. Errors
// don't quote the string.
func decodeText(field, text, option, name string) ([]byte, error) {
	name = cmp.Or(name, "utf8")
	e, known := encodings[name]
	if !known || e.read == nil {
		return nil, component.Permanent(component.CodeInvalidInput, "%s must be utf8, hex, base64, base64url or base58", option)
	}
	problem := e.foreign(text)
	if problem == "" {
		data, err := e.read(text)
		if err == nil {
			return data, nil
		}
		problem = fmt.Sprintf("an invalid string of length %d", utf8.RuneCountInString(text))
	}
	return nil, component.Permanent(component.CodeInvalidInput, "%s must be %s, because %s is %s; got %s", field, e.want, option, name, problem)
}

// foreign describes the first character that doesn't belong to the encoding, or returns "".
func (e encoding) foreign(text string) string {
	if e.alphabet == "" {
		return ""
	}
	place := 0
	for i, r := range text {
		place++
		prefix := i == 1 && r == 'x' && text[0] == '0' && !strings.ContainsRune(e.alphabet, 'x')
		if !prefix && !strings.ContainsRune(e.alphabet, r) {
			return fmt.Sprintf("an invalid character at position %d", place)
		}
	}
	return ""
}

// encodeText encodes bytes. The field named option selects the encoding. It returns INVALID_INPUT
// if the bytes can't be encoded; subject describes the bytes in the error.
func encodeText(subject string, data []byte, option, name string) (string, error) {
	e, known := encodings[name]
	if !known {
		return "", component.Permanent(component.CodeInvalidInput, "%s must be utf8, hex, plainHex, base64, base64url or base58", option)
	}
	text, err := e.write(data)
	if err != nil {
		return "", component.Permanent(component.CodeInvalidInput, "%s cannot be encoded as %s, which %s requests: %s", subject, name, option, err)
	}
	return text, nil
}

func writeUTF8(data []byte) (string, error) {
	text := string(data)
	switch {
	case !utf8.ValidString(text):
		return "", errors.New("they are not valid UTF-8; use hex or base64")
	case strings.ContainsRune(text, 0):
		return "", errors.New("they contain U+0000, which cannot be stored as text; use hex or base64")
	}
	return text, nil
}

func readBase64URL(text string) ([]byte, error) {
	if strings.Contains(text, "=") {
		return base64.URLEncoding.Strict().DecodeString(text)
	}
	return base64.RawURLEncoding.Strict().DecodeString(text)
}

var errBase58 = fmt.Errorf("base58 is taken for at most %d bytes", maxBase58)

// writeBase58 converts a number to base 58, with a 1 for each leading zero byte.
func writeBase58(data []byte) (string, error) {
	if len(data) > maxBase58 {
		return "", errBase58
	}
	rest := data
	for len(rest) > 0 && rest[0] == 0 {
		rest = rest[1:]
	}
	zeros := strings.Repeat(bitcoin58[:1], len(data)-len(rest))
	if len(rest) == 0 {
		return zeros, nil
	}
	return zeros + translate(new(big.Int).SetBytes(rest).Text(58), go58, bitcoin58), nil
}

func readBase58(text string) ([]byte, error) {
	if len(text) > 2*maxBase58 {
		return nil, errBase58
	}
	rest := strings.TrimLeft(text, bitcoin58[:1])
	data := make([]byte, len(text)-len(rest))
	if rest != "" {
		number, ok := new(big.Int).SetString(translate(rest, bitcoin58, go58), 58)
		if !ok {
			return nil, errors.New("not base58")
		}
		data = append(data, number.Bytes()...)
	}
	if len(data) > maxBase58 {
		return nil, errBase58
	}
	return data, nil
}

// translate converts digits from one alphabet to another.
func translate(text, from, to string) string {
	digits := []byte(text)
	for i, digit := range digits {
		at := strings.IndexByte(from, digit)
		if at < 0 {
			return ""
		}
		digits[i] = to[at]
	}
	return string(digits)
}
