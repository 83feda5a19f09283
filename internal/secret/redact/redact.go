// Package redact finds a secret in a string that may repeat it, so that it can be hidden.
//
// It finds the secret as it is, in base64, in hexadecimal, in another case, and in the escapes of
// JSON, URLs and HTML, also nested. It does not know which values are secret, or what happens to the
// text that contains one. The one invariant: the number of passes over a string does not depend on
// the number of secrets, nor on what they and the text are.
package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"strconv"
	"strings"
)

// MinSecret is the minimum length of a secret in bytes. Shorter values stand in many texts.
const MinSecret = 8

const (
	// enough is the length of a beginning that gives a secret away.
	enough = 64
	// rounds is how often a string is searched: as it is, and with layers of escapes removed,
	// which nest where JSON quotes an address, or other JSON.
	rounds = 4

	filterBits = 16
)

// Sought is a set of secrets. The zero Sought is empty. It is not safe for concurrent use.
type Sought struct {
	encoded map[string]bool // the forms, in lower case; true for base64 and hexadecimal digits
	size    int             // of the forms, in bytes
	forms   []string        // in order, when they are searched for
	least   []int           // how much of each shows a secret
	// filter has a bit for the first eight bytes of each form. It rules out nearly all places
	// of a string.
	filter [1 << filterBits / 64]uint64
}

// Size returns the number of bytes in all forms of the secrets.
func (s *Sought) Size() int { return s.size }

// Add adds a secret that In finds. It ignores values shorter than MinSecret.
func (s *Sought) Add(secret string) { s.add(secret, enough) }

// AddWhole adds a secret that Replace removes as a whole, or its first longest bytes. It
// ignores values shorter than MinSecret.
func (s *Sought) AddWhole(secret string, longest int) {
	if secret = secret[:min(len(secret), longest)]; len(secret) < MinSecret {
		return
	}
	s.add(secret, longest)
	// A string may end within an escape, or what stands before the secret take part of one.
	inJSON, _ := json.Marshal(secret)
	for _, quoted := range []string{string(inJSON), strconv.Quote(secret), strconv.QuoteToASCII(secret)} {
		quoted = quoted[1 : len(quoted)-1]
		s.form(quoted, longest, false)
		s.form(strings.ReplaceAll(quoted, "/", `\/`), longest, false)
	}
	for _, escape := range []func(string) string{url.QueryEscape, url.PathEscape, html.EscapeString} {
		s.form(escape(secret), longest, false)
	}
}

func (s *Sought) add(secret string, longest int) {
	if len(secret) < MinSecret {
		return
	}
	// Removing the escapes of a string also removes those of a secret in it.
	for range rounds {
		s.form(secret, longest, false)
		s.form(strings.ReplaceAll(secret, " ", "+"), longest, false) // as HTML forms write a blank
		plain, _ := unescaped([]byte(secret), nil)
		if len(plain) == len(secret) || len(plain) < MinSecret {
			break
		}
		s.encode(secret)
		secret = string(plain)
	}
	s.encode(secret)
}

// encode adds a secret in hexadecimal digits and in base64, wherever it stands in what is
// encoded as a whole: characters that it shares with its neighbours are left out.
func (s *Sought) encode(secret string) {
	begin := []byte(secret[:min(len(secret), enough)])
	s.form(hex.EncodeToString(begin), enough, true)
	for _, alphabet := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		for before := range 3 {
			text := alphabet.EncodeToString(append(make([]byte, before), begin...))
			s.form(text[(8*before+5)/6:8*(before+len(begin))/6], enough, true)
		}
	}
}

func (s *Sought) form(text string, longest int, encoded bool) {
	folded := string(fold([]byte(text[:min(len(text), longest)])))
	if s.encoded == nil {
		s.encoded = map[string]bool{}
	}
	if _, known := s.encoded[folded]; !known {
		bit := bitOf([]byte(folded))
		s.filter[bit/64] |= 1 << (bit % 64)
		s.size += len(folded)
	}
	s.encoded[folded] = s.encoded[folded] || encoded
}

// fold returns a copy of a string in which letters of both cases are the same. Other characters
// that become the same do not make two different texts of eight characters equal in practice.
func fold(text []byte) []byte {
	text = bytes.Clone(text)
	for i := range text {
		text[i] |= 0x20
	}
	return text
}
