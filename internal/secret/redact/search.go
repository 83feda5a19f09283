package redact

import (
	"bytes"
	"encoding/binary"
	"iter"
	"maps"
	"slices"
	"sort"
	"strings"
)

// In reports whether a string contains one of the secrets, or the first 64 bytes of one.
func (s *Sought) In(text []byte) bool {
	for range s.search(text, nil) {
		return true
	}
	return false
}

// Replace returns the text with the secrets replaced. It also replaces the beginning of a secret
// at the end of the text or before three dots, because the text may have been truncated there.
func (s *Sought) Replace(text, replacement string) string {
	places := make([]int, len(text)+1)
	for i := range places {
		places[i] = i
	}
	var spans [][2]int
	for from, to := range s.search([]byte(text), places) {
		spans = append(spans, [2]int{from, to})
	}
	slices.SortFunc(spans, func(a, b [2]int) int { return a[0] - b[0] })
	var out strings.Builder
	copied := 0
	for _, found := range spans {
		if found[0] >= copied {
			out.WriteString(text[copied:found[0]] + replacement)
		}
		copied = max(copied, found[1])
	}
	return out.String() + text[copied:]
}

// search yields the start and the end of each secret. places are the original offsets of the
// text's bytes and of its end. It is nil if the caller needs neither offsets nor truncated
// secrets.
func (s *Sought) search(text []byte, places []int) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		s.sort()
		for round := 0; round < rounds && len(s.forms) > 0; round++ {
			folded := fold(text)
			for i := 0; i+MinSecret <= len(folded); {
				if bit := bitOf(folded[i:]); s.filter[bit/64]>>(bit%64)&1 == 0 {
					i++
					continue
				}
				length, next := s.match(folded[i:], places != nil)
				from, to := 0, 0
				if places != nil {
					from, to = places[i], places[i+length]
				}
				if length > 0 && !yield(from, to) {
					return
				}
				i += max(1, next)
			}
			plain, of := unescaped(text, places)
			if len(plain) == len(text) {
				return
			}
			text, places = plain, of
		}
	}
}

// sort puts the forms in order, if they are not.
func (s *Sought) sort() {
	if len(s.forms) == len(s.encoded) {
		return
	}
	s.forms = slices.Sorted(maps.Keys(s.encoded))
	s.least = make([]int, len(s.forms))
	shortest := s.forms[0]
	for i, form := range s.forms {
		if !strings.HasPrefix(form, shortest) {
			shortest = form
		}
		s.least[i] = min(len(shortest), enough)
	}
}

// match returns the length of the beginning of a folded text that contains secrets, and the
// offset at which the next secret may begin. It compares the text with one form for each step of
// a binary search. Each comparison reads at most enough bytes, or as many bytes as match
// returns.
func (s *Sought) match(text []byte, cuts bool) (length, next int) {
	after := sort.Search(len(s.forms), func(i int) bool { return s.forms[i] > string(text) })
	begun, shows := 0, false
	for i := max(0, after-1); i < min(after+1, len(s.forms)); i++ { // no other form shares more
		end := shared(s.forms[i], text)
		begun = max(begun, end)
		if end >= s.least[i] {
			shows, next = true, s.least[i]
			for s.encoded[s.forms[i]] && end < len(text) && strings.IndexByte(ofEncodings, text[end]) >= 0 {
				end++ // the rest of the encoded data
			}
		}
		length = max(length, end)
	}
	for end := begun; cuts && end >= MinSecret && !shows; end-- {
		shows = isCut(text[end:])
	}
	if !shows {
		return 0, 0
	}
	if next == 0 || next == enough {
		next = begun
	}
	return length, next
}

// ofEncodings are the folded characters of hexadecimal digits and base64.
const ofEncodings = "abcdefghijklmnopqrstuvwxyz0123456789+/-=\x7f"

// isCut reports whether a string was truncated at the start of rest. A quotation mark may
// precede the dots.
func isCut(rest []byte) bool {
	return len(rest) == 0 || bytes.HasPrefix(bytes.TrimPrefix(rest, []byte(`"`)), []byte("..."))
}

// shared returns the length of the longest common prefix.
func shared(form string, text []byte) (n int) {
	for n < min(len(form), len(text)) && form[n] == text[n] {
		n++
	}
	return n
}

func bitOf(text []byte) uint64 {
	return binary.LittleEndian.Uint64(text) * 0x9e3779b97f4a7c15 >> (64 - filterBits)
}
