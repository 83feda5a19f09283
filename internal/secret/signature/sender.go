package signature

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
	"time"
)

// MaxSignatures is how many signatures of a delivery are checked. A delivery with more is rejected.
const MaxSignatures = 20

// Sender describes how a sender signs its deliveries with an HMAC.
type Sender struct {
	Text             Template
	Header           string // holds the signatures
	Element          string // of Header that is a signature; "": each value of Header is one
	Prefix           string // before a signature
	Algorithm        string // sha1, sha256, sha384 or sha512
	Encoding         string // hex, base64 or base64url
	TimestampHeader  string // holds the timestamp; "": see TimestampElement
	TimestampElement string // of Header that is the timestamp
	IDHeader         string // holds the ID
	Tolerance        time.Duration
}

// Check checks a delivery with this body at now, under each of the keys. headers returns the values
// of a header. It returns nil if one of the signatures is valid, and ErrUnsigned, ErrMismatch,
// ErrExpired, ErrInFuture, or an error about the form.
//
// The timestamp is checked last, so that only the sender learns what Check says about it.
func (s Sender) Check(keys [][]byte, headers func(name string) []string, body []byte, now time.Time) error {
	sent, err := s.signatures(headers)
	if err != nil {
		return err
	}
	text, at, err := s.SignedText(headers, body)
	if err != nil {
		return err
	}
	if !s.signed(keys, text, sent) {
		return ErrMismatch
	}
	if !s.Text.timed {
		return nil
	}
	made, err := ParseTime(at)
	if err != nil {
		return err
	}
	return checkAge(now.Sub(made), s.Tolerance)
}

// checkAge returns ErrExpired or ErrInFuture if an age is beyond the tolerance.
func checkAge(age, tolerance time.Duration) error {
	switch {
	case age > tolerance:
		return fmt.Errorf("%w: %v in the past, more than %v", ErrExpired, age.Truncate(time.Second), tolerance)
	case -age > tolerance:
		return fmt.Errorf("%w: %v in the future, more than %v", ErrInFuture, -age.Truncate(time.Second), tolerance)
	}
	return nil
}

// signed reports whether one of the signatures is valid under one of the keys. It compares all, so
// that its duration doesn't depend on which is valid.
func (s Sender) signed(keys [][]byte, text []byte, sent [][]byte) bool {
	right := false
	for _, key := range keys {
		mac := hmac.New(algorithms[s.Algorithm], key)
		mac.Write(text)
		want := mac.Sum(nil)
		for _, one := range sent {
			right = hmac.Equal(one, want) || right
		}
	}
	return right
}

var algorithms = map[string]func() hash.Hash{"sha1": sha1.New, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New}

// SignedText returns the text that the signature of a delivery covers, and its timestamp.
func (s Sender) SignedText(headers func(name string) []string, body []byte) (text []byte, at string, err error) {
	var id string
	if s.Text.timed {
		if at, err = s.timestamp(headers); err != nil {
			return nil, "", err
		}
	}
	if s.Text.identified {
		if id, err = only(headers(s.IDHeader)); err != nil {
			return nil, "", fmt.Errorf("%s %w", s.IDHeader, err)
		}
	}
	text, err = s.Text.render(at, id, body)
	return text, at, err
}

func (s Sender) timestamp(headers func(name string) []string) (string, error) {
	if s.TimestampHeader != "" {
		at, err := only(headers(s.TimestampHeader))
		if err != nil {
			return "", fmt.Errorf("%s %w", s.TimestampHeader, err)
		}
		return at, nil
	}
	at, err := only(elements(headers(s.Header), s.TimestampElement))
	if err != nil {
		return "", fmt.Errorf("the element %s of %s %w", s.TimestampElement, s.Header, err)
	}
	return at, nil
}

var errNotOnce = errors.New("must occur once")

func only(values []string) (string, error) {
	if len(values) != 1 || values[0] == "" {
		return "", errNotOnce
	}
	return values[0], nil
}

// signatures returns the decoded signatures of a delivery. It ignores those that can't be decoded,
// unless all of them can't.
func (s Sender) signatures(headers func(name string) []string) ([][]byte, error) {
	values := headers(s.Header)
	if len(values) == 0 {
		return nil, ErrUnsigned
	}
	if s.Element != "" {
		values = elements(values, s.Element)
	}
	if len(values) > MaxSignatures {
		return nil, fmt.Errorf("%s has more than %d signatures", s.Header, MaxSignatures)
	}
	var sent [][]byte
	for _, value := range values {
		text, ok := strings.CutPrefix(value, s.Prefix)
		if raw, err := decodeSignature(s.Encoding, text); ok && err == nil {
			sent = append(sent, raw)
		}
	}
	if len(sent) == 0 {
		return nil, fmt.Errorf("%s has no signature of the expected form", s.Header)
	}
	return sent, nil
}

// elements returns the values of an element of headers such as t=1,v1=a,v1=b. A semicolon separates
// elements too.
func elements(values []string, name string) (all []string) {
	for _, value := range values {
		for element := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ',' || r == ';' }) {
			if key, text, ok := strings.Cut(strings.TrimSpace(element), "="); ok && key == name {
				all = append(all, text)
			}
		}
	}
	return all
}

// decodeSignature decodes hex in either case, and base64 with or without padding.
func decodeSignature(encoding, text string) ([]byte, error) {
	if encoding == "hex" {
		return hex.DecodeString(text)
	}
	if strings.ContainsAny(text, "\r\n") { // which the decoders skip
		return nil, errors.New("a line break in base64")
	}
	padded, raw := base64.StdEncoding, base64.RawStdEncoding
	if encoding == "base64url" {
		padded, raw = base64.URLEncoding, base64.RawURLEncoding
	}
	if strings.HasSuffix(text, "=") {
		return padded.Strict().DecodeString(text)
	}
	return raw.Strict().DecodeString(text)
}
