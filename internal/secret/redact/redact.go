// Package redact finds a secret in a text that may repeat it, so that it can be hidden.
//
// It finds the secret as it is, in base64, in hexadecimal, in another case, and in the escapes of
// JSON, URLs and HTML, also nested. It does not know which values are secret, or what happens to a
// text that contains one. The one invariant: the number of passes over a text does not depend on
// the number of secrets, nor on what they and the text are.
package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// MinSecret is how many bytes a secret has at least. Shorter values stand in many texts.
const MinSecret = 8

const (
	// maxForm is how much of a secret is looked for: who finds its beginning has found it.
	maxForm = 64
	// maxAlike is how many forms may begin alike. Of more their common beginning is enough.
	maxAlike = 16
	// rounds is how often a text is looked at: as it is, and with escapes taken away, which
	// stand in one another where JSON quotes an address, or some JSON.
	rounds = 4

	filterBits = 14
)

// Sought are secrets that are looked for. Zero are none.
type Sought struct {
	// The forms by their first eight bytes, and which of these there may be: for nearly all
	// places of a text the filter says that none begins there.
	forms  map[uint64][][]byte
	filter [1 << filterBits / 64]uint64
}

// Add looks for one more secret, unless it is shorter than MinSecret.
func (s *Sought) Add(secret string) {
	if len(secret) < MinSecret {
		return
	}
	if s.forms == nil {
		s.forms = map[uint64][][]byte{}
	}
	// An escape in the secret itself goes with those of the text.
	for range rounds {
		s.form([]byte(secret))
		s.form([]byte(strings.ReplaceAll(secret, " ", "+"))) // as forms of the web write a blank
		plain := unescaped([]byte(secret))
		if len(plain) == len(secret) || len(plain) < MinSecret {
			break
		}
		s.encoded(secret)
		secret = string(plain)
	}
	s.encoded(secret)
}

// encoded adds what a secret is in hexadecimal digits and in base64, wherever in a text that
// is encoded as a whole it stands: what of it shares a character with its neighbours is left
// out.
func (s *Sought) encoded(secret string) {
	begin := []byte(secret[:min(len(secret), maxForm)])
	s.form(hex.AppendEncode(nil, begin))
	for before := range 3 {
		text := base64.StdEncoding.AppendEncode(nil, append(make([]byte, before), begin...))
		text = text[(8*before+5)/6 : 8*(before+len(begin))/6]
		s.form(text)
		s.form([]byte(ofURLs.Replace(string(text))))
	}
}

// ofURLs makes of base64 that of the alphabet which URLs can hold.
var ofURLs = strings.NewReplacer("+", "-", "/", "_")

func (s *Sought) form(text []byte) {
	text = bytes.Clone(text[:min(len(text), maxForm)])
	for i, b := range text {
		text[i] = b | caseBit
	}
	head := headOf(text)
	alike := s.forms[head]
	for _, known := range alike {
		if bytes.HasPrefix(text, known) {
			return
		}
	}
	if len(alike) == maxAlike {
		alike, text = nil, text[:MinSecret]
	}
	s.forms[head] = append(alike, text)
	bit := bitOf(head)
	s.filter[bit/64] |= 1 << (bit % 64)
}

// Letters differ from those of the other case in one bit. What else becomes the same without
// it does not make two texts of eight characters the same that are not meant to be.
const (
	caseBit  = 0x20
	caseBits = 0x2020202020202020
)

func headOf(text []byte) uint64 { return binary.LittleEndian.Uint64(text) | caseBits }

func bitOf(head uint64) uint64 { return head * 0x9e3779b97f4a7c15 >> (64 - filterBits) }

// In reports whether a text shows one of the secrets.
func (s *Sought) In(text []byte) bool {
	if len(s.forms) == 0 {
		return false
	}
	for range rounds {
		if s.plainlyIn(text) {
			return true
		}
		plain := unescaped(text)
		if len(plain) == len(text) {
			return false
		}
		text = plain
	}
	return false
}

func (s *Sought) plainlyIn(text []byte) bool {
	for at := 0; at+MinSecret <= len(text); at++ {
		head := headOf(text[at:])
		if bit := bitOf(head); s.filter[bit/64]>>(bit%64)&1 == 0 {
			continue
		}
		for _, form := range s.forms[head] {
			if beginsWith(text[at:], form) {
				return true
			}
		}
	}
	return false
}

func beginsWith(text, form []byte) bool {
	if len(text) < len(form) {
		return false
	}
	for i, b := range form {
		if text[i]|caseBit != b {
			return false
		}
	}
	return true
}
