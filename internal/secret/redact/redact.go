// Package redact finds a secret in a string that may repeat it, so that the secret can be hidden.
//
// It finds a secret unchanged, in base64, in hexadecimal, in another case, and in the escapes of
// JSON, URLs and HTML, also nested. It does not decide which values are secret, or what happens to a
// string that contains a secret. The number of passes over a string depends neither on the number of
// secrets nor on the content of the secrets and the string.
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

// MinSecret is the minimum length of a secret in bytes. Shorter values occur in many texts.
const MinSecret = 8

const (
	// enough is the length of a beginning that gives a secret away.
	enough = 64
	// rounds is how often a string is searched: first unchanged, and then with one more layer of
	// escapes removed each time. Escapes nest if JSON quotes a URL, or other JSON.
	rounds = 4

	filterBits = 16
)

// Sought is a set of secrets. The zero Sought is empty. It is not safe for concurrent use.
type Sought struct {
	encoded map[string]bool // the forms, in lower case; true for base64 and hexadecimal digits
	size    int             // of the forms, in bytes
	forms   []string        // in order, when they are searched for
	least   []int           // how much of each shows a secret
	// filter has a bit for the first eight bytes of each form. It rules out nearly all positions
	// of a string.
	filter [1 << filterBits / 64]uint64
}

// Size returns the number of bytes in all forms of the secrets.
func (s *Sought) Size() int { return s.size }

// Add adds a secret that In finds. It ignores values shorter than MinSecret.
func (s *Sought) Add(secret string) { s.add(secret, enough) }

// AddWhole adds a secret that Replace removes completely, or up to its first longest bytes. It
// ignores values shorter than MinSecret.
func (s *Sought) AddWhole(secret string, longest int) {
	if secret = secret[:min(len(secret), longest)]; len(secret) < MinSecret {
		return
	}
	s.add(secret, longest)
	// A string may end within an escape, or the text before the secret may end with the start of
	// an escape.
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
	// Removing the escapes of a string also removes the escapes in a secret inside it.
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

// encode adds the forms of a secret in hexadecimal digits and in base64. The secret may be at
// any offset of the encoded data, so characters that it shares with its neighbours are left out.
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

// fold returns a copy of a string in which both cases of a letter are equal. Some other
// characters become equal, too, but in practice two different texts of eight characters don't.
func fold(text []byte) []byte {
	text = bytes.Clone(text)
	for i := range text {
		text[i] |= 0x20
	}
	return text
}
