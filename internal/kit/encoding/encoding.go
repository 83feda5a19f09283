// Package encoding converts between bytes and strings.
package encoding

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"unicode/utf8"
)

// MaxBase58 is the maximum number of bytes for base58, which unlike the other encodings takes
// quadratic time.
const MaxBase58 = 4096

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
		want: fmt.Sprintf("base58 of at most %d bytes in the Bitcoin alphabet", MaxBase58), alphabet: bitcoin58,
		read: readBase58, write: writeBase58,
	},
}

// ErrUnknown means that there is no encoding with the name, or that it has only the other direction.
var ErrUnknown = errors.New("unknown encoding")

// Malformed explains why a string cannot be decoded, without quoting it.
type Malformed struct{ Want, Got string }

func (m *Malformed) Error() string { return "must be " + m.Want + "; got " + m.Got }

// Decode decodes a string. The encodings are utf8, hex, base64, base64url and base58. Its error is
// ErrUnknown or a *Malformed.
func Decode(text, name string) ([]byte, error) {
	e, known := encodings[name]
	if !known || e.read == nil {
		return nil, ErrUnknown
	}
	problem := e.foreign(text)
	if problem == "" {
		data, err := e.read(text)
		if err == nil {
			return data, nil
		}
		problem = fmt.Sprintf("an invalid string of length %d", utf8.RuneCountInString(text))
	}
	return nil, &Malformed{Want: e.want, Got: problem}
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

// Encode encodes bytes. The encodings are those of Decode and plainHex. Its error is ErrUnknown, or says
// why the bytes have no such form.
func Encode(data []byte, name string) (string, error) {
	e, known := encodings[name]
	if !known {
		return "", ErrUnknown
	}
	return e.write(data)
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

var errBase58 = fmt.Errorf("base58 is taken for at most %d bytes", MaxBase58)

// writeBase58 converts a number to base 58, with a 1 for each leading zero byte.
func writeBase58(data []byte) (string, error) {
	if len(data) > MaxBase58 {
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
	if len(text) > 2*MaxBase58 {
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
	if len(data) > MaxBase58 {
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
