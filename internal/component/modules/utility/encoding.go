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

// The parts of schemas that say how bytes are written as text. Only what is
// written can be plainHex: hex is read with and without 0x.
const (
	readable = `"enum": ["utf8", "hex", "base64", "base64url", "base58"]`
	writable = `"enum": ["utf8", "hex", "plainHex", "base64", "base64url", "base58"]`

	readWords  = "utf8 takes the text's bytes, hex takes pairs of digits with or without 0x, base64 is the standard alphabet with padding, base64url is the URL-safe alphabet with or without padding, base58 is the alphabet of Bitcoin (4096 bytes at most)."
	writeWords = "utf8 is text, hex is lower case after 0x, plainHex is the same without 0x, base64 is the standard alphabet with padding, base64url is the URL-safe alphabet without padding, base58 is the alphabet of Bitcoin (4096 bytes at most)."
)

// maxBase58 is how many bytes base58 is taken for: unlike the other encodings
// it takes time that grows with the square of the length.
const maxBase58 = 4096

// encoding is one way to write bytes as text.
type encoding struct {
	want     string // what a text of it has to be
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
		want: "pairs of hexadecimal digits, with or without 0x before them", alphabet: "0123456789abcdefABCDEF",
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
		want: fmt.Sprintf("base58 of at most %d bytes in the alphabet of Bitcoin", maxBase58), alphabet: bitcoin58,
		read: readBase58, write: writeBase58,
	},
}

// decodeText gives the bytes of a field that is written in the encoding which
// the field option names; "" means utf8. Errors are INVALID_INPUT, say where
// the text goes wrong, and do not quote it.
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
		problem = fmt.Sprintf("a text of length %d that is none", utf8.RuneCountInString(text))
	}
	return nil, component.Permanent(component.CodeInvalidInput, "%s must be %s, because %s is %s; got %s", field, e.want, option, name, problem)
}

// foreign tells of the first character that does not belong to the encoding.
func (e encoding) foreign(text string) string {
	if e.alphabet == "" {
		return ""
	}
	place := 0
	for i, r := range text {
		place++
		prefix := i == 1 && r == 'x' && text[0] == '0' && !strings.ContainsRune(e.alphabet, 'x')
		if !prefix && !strings.ContainsRune(e.alphabet, r) {
			return fmt.Sprintf("another character at place %d", place)
		}
	}
	return ""
}

// encodeText writes bytes in the encoding which the field option names. what
// are the bytes, in the words of the error: INVALID_INPUT where they cannot be
// written so.
func encodeText(what string, data []byte, option, name string) (string, error) {
	e, known := encodings[name]
	if !known {
		return "", component.Permanent(component.CodeInvalidInput, "%s must be utf8, hex, plainHex, base64, base64url or base58", option)
	}
	text, err := e.write(data)
	if err != nil {
		return "", component.Permanent(component.CodeInvalidInput, "%s cannot be written as %s, which %s asks for: %s", what, name, option, err)
	}
	return text, nil
}

func writeUTF8(data []byte) (string, error) {
	text := string(data)
	switch {
	case !utf8.ValidString(text):
		return "", errors.New("they are not UTF-8 text; ask for hex or base64")
	case strings.ContainsRune(text, 0):
		return "", errors.New("U+0000 is among them, which cannot be stored as text; ask for hex or base64")
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

// writeBase58 is the conversion of a number to base 58, with a 1 for each zero
// byte before it.
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
	return zeros + exchange(new(big.Int).SetBytes(rest).Text(58), go58, bitcoin58), nil
}

func readBase58(text string) ([]byte, error) {
	if len(text) > 2*maxBase58 {
		return nil, errBase58
	}
	rest := strings.TrimLeft(text, bitcoin58[:1])
	data := make([]byte, len(text)-len(rest))
	if rest != "" {
		number, ok := new(big.Int).SetString(exchange(rest, bitcoin58, go58), 58)
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

// exchange writes the digits of one alphabet in those of another.
func exchange(text, from, to string) string {
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
