package strictjson

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// str scans a string from its opening quotation mark and returns its unescaped content.
func (s *scanner) str() (string, error) {
	s.at++
	start, plain := s.at, true
	for {
		if s.at >= len(s.text) {
			return "", s.refuse("the JSON text ends inside a string")
		}
		c := s.text[s.at]
		if c == '"' {
			break
		}
		if c < ' ' {
			return "", s.refuse("a string contains an unescaped control character")
		}
		if s.at++; c == '\\' {
			plain = false
			s.at++ // unescape checks the escape once the end of the string is known
		}
	}
	raw := s.text[start:s.at]
	if !utf8.ValidString(raw) {
		return "", s.refuse("a string is not valid UTF-8")
	}
	s.at++
	if plain {
		return raw, nil
	}
	return s.unescape(raw)
}

const simpleEscapes = `"\/bfnrt`

// unescape returns the content of a string with escapes.
func (s *scanner) unescape(raw string) (string, error) {
	out := make([]byte, 0, len(raw))
	for {
		before, after, found := strings.Cut(raw, `\`)
		out = append(out, before...)
		if !found {
			return string(out), nil
		}
		if i := strings.IndexByte(simpleEscapes, after[0]); i >= 0 {
			out = append(out, "\"\\/\b\f\n\r\t"[i])
			raw = after[1:]
			continue
		}
		r, ok := hex4(after)
		if !ok {
			return "", s.refuse("a string contains an escape that JSON doesn't have")
		}
		raw = after[5:]
		if utf16.IsSurrogate(r) {
			low, ok := rune(0), strings.HasPrefix(raw, `\`)
			if ok {
				low, ok = hex4(raw[1:])
			}
			if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
				return "", s.refuse("a string contains a lone surrogate, which isn't a valid character")
			}
			raw = raw[6:]
		}
		if r == 0 {
			return "", s.refuse("a string contains the character U+0000, which can't be stored")
		}
		out = utf8.AppendRune(out, r)
	}
}

// hex4 parses uXXXX, the part of an escape after the backslash.
func hex4(text string) (rune, bool) {
	if len(text) < 5 || text[0] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range []byte(text[1:5]) {
		digit, ok := hexDigit(c)
		if !ok {
			return 0, false
		}
		r = r<<4 | digit
	}
	return r, true
}

func hexDigit(c byte) (rune, bool) {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0'), true
	case 'a' <= c && c <= 'f':
		return rune(c-'a') + 10, true
	case 'A' <= c && c <= 'F':
		return rune(c-'A') + 10, true
	}
	return 0, false
}

// The range of PostgreSQL's numeric, which jsonb uses for numbers.
const (
	numericDigits = 131_072 // before the decimal point
	numericScale  = 16_383  // after it
)

// number scans a number from its first character.
func (s *scanner) number() error {
	start := s.at
	if s.peek() == '-' {
		s.at++
	}
	whole := s.digits()
	if whole == "" || len(whole) > 1 && whole[0] == '0' {
		return s.refuse("this is not a valid JSON number")
	}
	var fraction string
	if s.peek() == '.' {
		s.at++
		if fraction = s.digits(); fraction == "" {
			return s.refuse("this is not a valid JSON number")
		}
	}
	exponent := 0
	if c := s.peek(); c == 'e' || c == 'E' {
		s.at++
		sign := ""
		if c := s.peek(); c == '+' || c == '-' {
			sign = string(c)
			s.at++
		}
		digits := s.digits()
		if digits == "" {
			return s.refuse("this is not a valid JSON number")
		}
		n, err := strconv.Atoi(sign + digits)
		if err != nil {
			n = 1 << 30 // outside of every range, in either direction
		}
		exponent = n
	}
	if s.at-start > MaxNumber {
		return s.refuse("a number has more than %d characters", MaxNumber)
	}
	if !storable(whole, fraction, exponent) {
		return s.refuse("a number is too large, or has too many decimals, to be stored")
	}
	return nil
}

// digits scans a run of digits, which may be empty.
func (s *scanner) digits() string {
	start := s.at
	for c := s.peek(); '0' <= c && c <= '9'; c = s.peek() {
		s.at++
	}
	return s.text[start:s.at]
}

// storable reports whether whole.fraction times ten to the exponent is within the range of
// PostgreSQL's numeric, which counts the written digits, not their value.
func storable(whole, fraction string, exponent int) bool {
	if exponent > 1<<20 || exponent < -1<<20 || len(fraction)-exponent > numericScale {
		return false
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	leading := len(digits) - len(fraction) + exponent // digits before the point
	return digits == "" || leading <= numericDigits
}
